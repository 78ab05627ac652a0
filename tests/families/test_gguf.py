"""Models out of GGUF files: the logits of their home library with the same weights, and files that make no sense."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.families.gguf import GgufWeights, gguf_in, open_gguf
from clearhead.families.gguf_file import GgufFile
from families.gguf_files import Kind, add, sizes, write
from truth.cases import close, text
from truth.homes import ROTARY_BANDS, randomised

LINEAR = {"rope_type": "linear", "rope_theta": 200.0, "factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 200.0, "factor": 4.0, "original_max_position_embeddings": 32}
GEMMA3 = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 4.0},
}
STRETCHED = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}


def llama(**changes: Any) -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes(**changes)))


def qwen2() -> Any:
    given = sizes()
    given.pop("head_dim")
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**given, tie_word_embeddings=True))


def gemma2() -> Any:
    caps = {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 1.0, "query_pre_attn_scalar": 32}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**sizes(sliding_window=7, **caps)))


def gemma3() -> Any:
    more = {"sliding_window": 7, "query_pre_attn_scalar": 32, "rope_parameters": GEMMA3, "num_hidden_layers": 7}
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**sizes(**more)))


# name: (model, architecture, settings that differ from the defaults of llama.cpp)
CASES: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "llama": (llama, "llama", {"rope.dimension_count": 32, "vocab_size": 41}),
    "llama, tied": (lambda: llama(tie_word_embeddings=True), "llama", {}),
    "llama, biases": (lambda: llama(attention_bias=True, mlp_bias=True), "llama", {}),
    "llama, bands": (lambda: llama(rope_parameters=ROTARY_BANDS), "llama", {}),
    "llama, linear": (lambda: llama(rope_parameters=LINEAR), "llama", STRETCHED),
    "llama, yarn": (
        lambda: llama(rope_parameters=YARN),
        "llama",
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32},
    ),
    "qwen2": (qwen2, "qwen2", {}),
    "qwen3": (lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**sizes())), "qwen3", {}),
    "gemma": (lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**sizes())), "gemma", {}),
    "gemma2": (
        gemma2,
        "gemma2",
        {"attention.sliding_window": 7, "attn_logit_softcapping": 1.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3": (gemma3, "gemma3", {"attention.sliding_window": 7, **STRETCHED}),
}


def file_of(name: str, path: Path, kind: Kind = Kind.F32) -> Any:
    """Writes the case's file; gives the home library's model with the file's weights."""
    make, arch, more = CASES[name]
    return write(path, randomised(make()), arch, kind, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file_of("llama", tmp_path / "m.gguf")
    return tmp_path / "m.gguf"


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_ckp_05_logits_are_the_home_librarys(name: str, tmp_path: Path) -> None:
    home = file_of(name, tmp_path / "m.gguf")
    model = clearhead.load(tmp_path / "m.gguf")
    ids = text(2, 44)
    close(model(ids).logits, home(ids).logits)
    assert (model.config.pad, model.config.bos, model.config.eos) == (1, 3, 2)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1])
@pytest.mark.parametrize("name", ["llama", "gemma3"])
@torch.no_grad()
def test_packed_weights(name: str, kind: Kind, tmp_path: Path) -> None:
    home = file_of(name, tmp_path / "m.gguf", kind)
    close(clearhead.load(tmp_path / "m.gguf")(text(2, 9)).logits, home(text(2, 9)).logits)


@torch.no_grad()
def test_it_saves_as_its_home_library_writes(tmp_path: Path) -> None:
    for name in CASES:
        home = file_of(name, tmp_path / "m.gguf")
        clearhead.save(clearhead.load(tmp_path / "m.gguf"), tmp_path / name)
        again = type(home).from_pretrained(tmp_path / name).eval()
        close(again(text(2, 44)).logits, home(text(2, 44)).logits)
        close(clearhead.load(tmp_path / name)(text(2, 44)).logits, home(text(2, 44)).logits)


def test_dtype_and_a_folder_with_one_file(path: Path) -> None:
    model = clearhead.load(path.parent, dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert gguf_in(path.parent) == path
    (path.parent / "other.gguf").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"holds 2 GGUF files; name one of them"):
        clearhead.load(path.parent)


@pytest.mark.parametrize(("width", "factor"), [(64, 32.0), (128, 8.0)])
def test_llama_3s_settings_are_found_again(width: int, factor: float, tmp_path: Path) -> None:
    """Of 3.2 1B and 3.1 8B: the file has the factors that they lead to."""
    rope = {"rope_theta": 500000.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"rope_type": "llama3", "factor": factor, "original_max_position_embeddings": 8192}
    write(tmp_path / "m.gguf", llama(head_dim=width, rope_parameters=rope), "llama")
    content, _, _ = open_gguf(tmp_path / "m.gguf", torch.float32)
    assert content["rope_scaling"] == {key: value for key, value in rope.items() if key != "rope_theta"}
    whole = (tmp_path / "m.gguf").read_bytes()
    at = GgufFile(tmp_path / "m.gguf").tensors["rope_freqs.weight"].start + width
    (tmp_path / "m.gguf").write_bytes(whole[:at] + struct.pack("<f", 1.7) + whole[at + 4 :])
    with pytest.raises(ValueError, match="are not the factors of a scaling that is known"):
        open_gguf(tmp_path / "m.gguf", torch.float32)


def test_opening_reads_the_header_only(path: Path) -> None:
    content, weights, tokenizer = open_gguf(path, torch.float32)
    assert isinstance(weights, GgufWeights)
    assert content["rms_norm_eps"] == 1e-2, "the decimal that was meant, not its neighbour in float32"
    assert tokenizer is None
    with pytest.raises(ValueError, match=r"m\.gguf has no list tokenizer\.ggml\.tokens"):
        GgufFile(path).array("tokenizer.ggml.tokens")


def test_every_packing_that_gguf_can_undo(tmp_path: Path) -> None:
    """In pieces as we do it, against the whole tensor at once; the bytes are random where gguf cannot pack."""
    writer, wanted = gguf.GGUFWriter(tmp_path / "m.gguf", "llama"), {}
    random = np.random.default_rng(0)
    for kind in Kind:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 60, (7, 2048 // block * size), dtype=np.uint8)  # no NaN and no overflow in float16
        try:
            wanted[kind.name] = gguf.quants.dequantize(data, kind)
        except NotImplementedError:
            continue
        stored = data.view(np.float32) if kind is Kind.F32 else data.view(np.float16) if kind is Kind.F16 else data
        writer.add_tensor(kind.name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert len(wanted) > 20
    file = GgufFile(tmp_path / "m.gguf")
    for name, tensor in wanted.items():
        assert np.array_equal(file.read(name).numpy(), tensor), name
    half = file.read("Q8_0", torch.bfloat16)
    assert torch.equal(half, torch.from_numpy(wanted["Q8_0"]).bfloat16())


# Damaged, foreign and hostile files.


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def header(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


HUGE = 2**62
BAD = {
    "nothing": (b"", "is no GGUF file"),
    "another format": (b"PK\x03\x04" + b"\0" * 60, "is no GGUF file"),
    "version 1": (header(version=1), "GGUF of version 1"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "little-endian"),
    "an end in the counts": (header()[:12], "it ends at byte 12"),
    "more settings than bytes": (header(pairs=HUGE), "before its header does"),
    "more tensors than bytes": (header(tensors=HUGE), "before its header does"),
    "a string without end": (header(pairs=1) + struct.pack("<Q", HUGE) + b"abc", "before its header does"),
    "an array without end": (header(pairs=1) + pair("a", 9, struct.pack("<IQ", 4, HUGE)), "before its header does"),
    "strings without end": (header(pairs=1) + pair("a", 9, struct.pack("<IQ", 8, HUGE)), "before its header does"),
    "arrays of arrays": (header(pairs=1) + pair("a", 9, struct.pack("<IQ", 9, 1)), "array of the unknown type 9"),
    "an unknown type": (header(pairs=1) + pair("a", 99, b"\0" * 9), "unknown type 99"),
    "no text": (header(pairs=1) + struct.pack("<Q", 1) + b"\xff" + b"\0" * 12, "is not UTF-8"),
    "the same twice": (header(pairs=2) + pair("a", 0, b"\1") * 2, "'a' is there twice"),
    "a part": (header(pairs=1) + pair("split.count", 2, b"\2\0"), "one of 2 parts"),
    "no alignment": (header(pairs=1) + pair("general.alignment", 4, b"\0" * 4), "general.alignment is 0"),
    "no architecture": (header(), "architecture None; known in GGUF files are llama"),
    "another architecture": (header(pairs=1) + pair("general.architecture", 8, string("mamba")), "'mamba'"),
    "nine dimensions": (header(1) + string("t") + struct.pack("<I9QIQ", 9, *[1] * 9, 0, 0), "has 9 dimensions"),
    "no numbers": (header(1) + string("t") + struct.pack("<IQIQ", 1, 0, 0, 0), "not in blocks of 1"),
    "an unknown packing": (header(1) + string("t") + struct.pack("<IQIQ", 1, 32, 999, 0), r"type 999"),
    "half a block": (header(1) + string("t") + struct.pack("<IQIQ", 1, 33, 8, 0), "not in blocks of 32"),
    "a tensor without end": (header(1) + string("t") + struct.pack("<IQQIQ", 2, HUGE, HUGE, 0, 0), "t goes to byte"),
    "a tensor far off": (header(1) + string("t") + struct.pack("<IQIQ", 1, 1, 0, HUGE), "t goes to byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_ckp_11_malformed_files(name: str, tmp_path: Path) -> None:
    content, sentence = BAD[name]
    (tmp_path / "m.gguf").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ValueError, match=sentence):
        clearhead.load(tmp_path / "m.gguf")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_file_that_ends_early(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    for size in range(0, len(whole), 997):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.gguf"):
            clearhead.load(tmp_path / "cut.gguf")


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_changed_bytes_are_refused_or_harmless(path: Path, data: st.DataObject) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
    (path.parent / "bad.gguf").write_bytes(whole)
    with suppress(ValueError):
        clearhead.load(path.parent / "bad.gguf")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"attention.scale": 0.5}, r"sets llama\.attention\.scale='0\.5', which this version cannot run"),
        ({"rope.scaling.type": "longrope", "rope.scaling.factor": 2.0}, "longrope"),
        ({"attention.value_length": 12}, None),
        ({"rope.dimension_count": 8}, "rope.dimension_count is 8, not the width of a head, 32"),
        ({"block_count": 2**31}, "block_count is 2147483648"),
        ({"block_count": 4}, "block_count is 4, but there are fewer layers"),
        ({"attention.head_count_kv": [2, 2, 2]}, "one number for all layers"),
        ({"attention.head_count_kv": 5}, "kv_heads 5"),
        ({"attention.head_count_kv": 2.0}, r"head_count_kv is 2\.0"),
        ({"attention.head_count": 0}, "head_count is 0"),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": "much"}, "factor is 'much'"),
        ({"embedding_length": 96}, r"\[41, 64\] in the file"),
    ],
)
def test_settings_that_cannot_be_run(more: dict[str, Any], sentence: str | None, tmp_path: Path) -> None:
    """Written over what the model says."""
    write_over(tmp_path / "m.gguf", more)
    with pytest.raises(ValueError, match=sentence or "attention.value_length is 12, not the width of a head, 32"):
        clearhead.load(tmp_path / "m.gguf")


def write_over(path: Path, more: dict[str, Any]) -> None:
    write(path, randomised(llama()), "llama")
    reader, writer = gguf.GGUFReader(path), gguf.GGUFWriter(path.parent / "new.gguf", "llama")
    plain = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    del plain["general.architecture"]
    add(writer, **plain)
    for key, value in more.items():
        writer.kv_data[0].pop(f"llama.{key}", None)
        add(writer, **{f"llama.{key}": value})
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (path.parent / "new.gguf").replace(path)


def test_a_setting_can_be_left_out_by_name(tmp_path: Path) -> None:
    write_over(tmp_path / "m.gguf", {"attention.scale": 0.5})
    clearhead.load(tmp_path / "m.gguf", ignore_config=["llama.attention.scale"])


def test_tensors_that_do_not_belong(tmp_path: Path) -> None:
    home = randomised(llama())
    home.model.layers[1].self_attn.register_parameter("sinks", torch.nn.Parameter(torch.zeros(4)))
    with pytest.raises(KeyError):
        write(tmp_path / "m.gguf", home, "llama")
    file_of("llama", tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole.replace(b"blk.1.attn_v.weight", b"blk.1.attn_x.weight"))
    with pytest.raises(ValueError, match=r"missing: model\.layers\.1\.self_attn\.v_proj\.weight; not expected: blk\.1"):
        clearhead.load(tmp_path / "m.gguf")


def test_the_package_may_be_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ValueError, match="pip install gguf"):
        clearhead.load(path)
