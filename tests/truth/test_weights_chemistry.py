"""Models of molecules and proteins that others trained: they do here what they do at home."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import RobertaForMaskedLM

import clearhead
from clearhead.generation.generate import Generation
from truth import annalog, fairseq
from truth.cases import difference
from truth.packages import package

pytestmark = pytest.mark.weights
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
HEAVY = (  # 98 residues of a human antibody's heavy chain (the germline gene IGHV3-23)
    "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK"
)


def test_annalog_names_aspirin_and_its_neighbours() -> None:
    """The five that beam search finds first: the molecule itself, its two isomers, its propyl and its butyl ester.

    The score of the first is what the package's own search states: the sum of its log-probabilities.
    """
    folder = package("annalog", "annalog==1.0.6") / "ckpt_and_vocab"
    vocab = annalog.vocabulary(folder / "stereo_experiment_vocab_ttf.pkl")
    model = annalog.load(folder / "Lev_extended.pt", vocab)
    assert sum(p.numel() for p in model.parameters()) == 4_051_259
    source = torch.tensor([[vocab.index(token) for token in ("<sos>", *ASPIRIN, "<eos>")]])
    search: dict[str, Any] = {"num_beams": 5, "num_return_sequences": 5, "early_stopping": True, "length_penalty": 0.0}
    found = clearhead.generate(model, source, max_new_tokens=100, return_dict_in_generate=True, **search)
    assert isinstance(found, Generation)
    assert ["".join(vocab[i] for i in row if i > vocab.index("<eos>")) for row in found.sequences.tolist()] == [
        ASPIRIN,
        "CC(=O)Oc1cccc(C(=O)O)c1",
        "CC(=O)Oc1ccc(C(=O)O)cc1",
        "CC(=O)Oc1ccccc1C(=O)OCCC",
        "CC(=O)Oc1ccccc1C(=O)OCCCC",
    ]
    assert found.sequences_scores is not None
    assert float(found.sequences_scores[0]) == pytest.approx(-3.55, abs=0.005)


@torch.no_grad()
def test_sapiens_recovers_residues(tmp_path: Path) -> None:
    """Each residue masked in turn: 88 of 98 come back; and the logits are those of the home library."""
    folder = package("sapiens", "sapiens==1.0.5") / "models" / "v1"
    vocab = fairseq.vocabulary(folder / "dict.txt")
    fairseq.write(folder / "checkpoint_vh.pt", vocab, tmp_path)
    model = clearhead.load(tmp_path)
    assert sum(p.numel() for p in model.parameters()) == 572_057 - 25 * 128 + 128  # the tied matrix once; token types
    ids = torch.tensor([vocab.index(residue) for residue in ("<s>", *HEAVY, "</s>")])
    rows, places = ids.repeat(len(HEAVY), 1), torch.arange(len(HEAVY))
    rows[places, places + 1] = vocab.index("<mask>")
    logits = model(rows).logits
    assert logits is not None
    assert int((logits[places, places + 1].argmax(-1) == ids[1:-1]).sum()) == 88
    theirs = RobertaForMaskedLM.from_pretrained(tmp_path).eval()(rows[:8]).logits
    assert difference(logits[:8], theirs) < 1e-5
