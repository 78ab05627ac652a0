"""What parameter names mean: the reader of signatures."""

from __future__ import annotations

import ast
import re
from typing import Any

W = r"(?:w|weights?)"
# First match wins. The left side is the name that calls use (see setup).
ROLES = (
    ("Wqkv", r"w_?qkv|qkv_?(w|weights?|proj)|w_?fused"),
    *((f"W{name[0]}", rf"{W}_?({name})|({name})_?({W}|proj)") for name in ("q|query|queries", "k|keys?", "v|values?")),
    ("Wo", rf"{W}_?(o|out|output|proj)|(o|out|output|proj)_?({W}|proj)"),
    ("src_mask", r"(src|source|memory|mem|enc|encoder|context|cross)_?(key_?)?(padding_?|pad_?|attn_?|"
        r"attention_?)?mask|(src|source|memory|mem|enc|encoder|context)_(keep|pad|padding|valid)\w*"),
    ("tgt_mask", r"(tgt|trg|target|dec|decoder|x)_?(padding_?|pad_?|attn_?)?mask|tgt_(keep|pad|valid)"),
    ("lengths", r".*(lens|lengths|valid_len|seq_lengths?|n_valid)|length"),
    ("mask", r"is_pad(ding|ded)?|pads?|padding|padded(_?keys?)?|"
        r"(?!.*(head|layer)_?mask).*mask.*|keep|keep_.*|valid|visible|allowed|hide|hidden_keys|blocked|ignore|"
        r".*attn_bias|bias|additive.*"),
    ("causal", r"(is_?|use_?|apply_)?causal|autoregressive|is_decoder"),
    ("window", r"window(_size|_len)?|sliding_window|w|span"),
    ("Hkv", r"(n_?|num_?)?(kv|key_?value)_?heads?|n_?kv|(n_?|num_?)?groups?|h_?kv|(num_?|n_?)?query_groups?|kv_h|g"),
    ("H", r"(n_?|num_?)?(attention_?|attn_?)?heads?(_num|_count)?|h|nh|(nb?_)?(t[eê]tes|k(oe|ö)pfe)"),
    ("dk", r"d_?k|d_?v|d_?h|dh|head_?(dim|size|width)|d_?head|key_dim|dim_(k|v|head|key)|qk_dim|"
        r"v_dim|d_(key|value|keys|values)"),
    ("D", r"d_?model|n_?embd?|(hidden|embed(ding)?|emb|model|input|in|out|output)_?(dim|size|"
        r"features|width)|d_?(in|out|emb|embed|hid|hidden)|dim(_in|_out|_model)?|d|width|channels|(query|context|q|kv|cross|x|mem|encoder|decoder|enc|dec)_dim|"
        r"units|h?dim|embed|embedding|c|e|size|dimension|features"),
    ("mem", r"key_?values?(_states?)?|kv(_(in|input|states|seq|source|src|x))?"),
    ("Q", r"q|qs|quer(y|ies)(_.*)?|q_(in|input|mat|states|vec|x)|x_?q|target_states"),
    ("K", r"k|ks|keys?(_.*)?|k_(in|input|mat|states|vec|x)|x_?k"),
    ("V", r"v|vs|val(ue)?s?(_.*)?|v_(in|input|mat|states|vec|x)|x_?v"),
    ("mem", r"mem(ory)?(_.*)?|context|ctx|y|enc(oder|odeur)?(_.*)?|src|source(_.*)?|kv(_.*)?|"
        r"cond(itioning)?|z|other|x_?(kv|enc|2|mem|src|y)|s|src_.*"),
    ("x", r"x|xs|inputs?|hidden(_states?)?|tokens?|embeddings?|emb|embs|seq(uence)?|tgt|target|"
        r"trg|d[eé]c(oder|odeur)?(_.*)?|x_?(1|dec|tgt|in|emb|t)|h_in|t|word_embeddings|token_embeddings|"
        r"features"),
)  # fmt: skip
WEIGHTS = ("Wq", "Wk", "Wv", "Wo", "Wqkv")


def role(name: str, allowed: frozenset[str] | None = None) -> str | None:
    """What a parameter is for, among the allowed names; None when its name says nothing."""
    plain = name.lower().strip("_")
    for wanted, pattern in ROLES:
        if (allowed is None or wanted in allowed) and re.fullmatch(pattern, plain):
            return wanted
    return None


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """(name, has a default) of each parameter, without self."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    first_default = len(plain) - len(args.defaults)
    found = [(a.arg, i >= first_default) for i, a in enumerate(plain)]
    found += [(a.arg, d is not None) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return [(name, default) for name, default in found if name not in ("self", "cls")]


def keyword_only(node: ast.FunctionDef) -> set[str]:
    return {a.arg for a in node.args.kwonlyargs}


PLAIN = {
    r"drop.*|p|.*dropout.*|attn_pdrop": "0.0",
    r"train(ing)?|.*bias.*|need_weights|return_.*|verbose|debug|inplace": "False",
    r"scale|scaling|scale_factor|temperature": "math.sqrt(d)",
    r"max_?(len|length|seq.*|pos.*|tokens)|block_size|context_(len|length|size)|"
    r"seq_?len(gth)?|max_.*|ctx_len|n_ctx|n_positions|block": "512",
    r"config|cfg|conf|args|hparams|params|opt": "config",
    r"batch_first": "True",
    r"device|(layer_)?head_?mask": "None",
    r"dtype": "dtype",
    r"(\w+_)?shape": "(B, T)",
    r"batch_?(size)?|b|bs|bsz": "B",
    r"act(ivation)?": "None",
    r"eps(ilon)?": "1e-9",
    r"base|theta": "10000.0",
    r"n_?layers?|num_layers": "1",
    r"vocab_?(size)?|n_?vocab": "11",
}


def filler(name: str) -> str | None:
    """A harmless argument for a required parameter that is no role."""
    for pattern, text in PLAIN.items():
        if re.fullmatch(pattern, name.lower()):
            return text
    return None


SETTINGS = frozenset(("H", "Hkv", "D", "dk", "window"))
IDS = (
    ("pad", r"(\w+_)?pad(ding)?(_?(id|idx|token|token_id|index))?"),
    ("bos", r"(bos|sos|start|decoder_start|go)(_?(id|idx|token|token_id|index))?"),
)


class AnyConfig:
    """Answers any attribute (or item) by the role of its name: config.n_heads is H of the probe."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        self._sizes = sizes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, {"512": 512, "0.0": 0.0, "1": 1, "11": 11}.get(filler(name) or "", False))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        found = next((wanted for wanted, pattern in IDS if re.fullmatch(pattern, name.lower())), None)
        return self._sizes.get(found or role(name, SETTINGS) or "", default)
