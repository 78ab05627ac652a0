"""Settings that published models differ in: scale, head scale, position offsets, packed rows."""

import pytest
import torch

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer


def encoder(offset: int = 0, count: int = 20, scale: float | None = None, head: Head | None = None) -> Transformer:
    layer = Layer(self_attention=Attention(heads=3, head_dim=5, scale=scale), feed_forward=FeedForward(dim=11))
    positions = Positions(kind="learned", count=count, offset=offset)
    stack = Stack(layers=(layer,) * 2, vocab=13, positions=positions)
    torch.manual_seed(0)
    return Transformer(TransformerConfig(dim=7, encoder=stack, head=head or Head(tied=True))).double().eval()


def test_num_03_scale_1_leaves_the_products_as_they_are() -> None:
    model = encoder(scale=1.0)
    with record(model, ["encoder.0.self.*"]) as seen:
        model(torch.tensor([[3, 4, 5]]))
    q, k = seen["encoder.0.self.q"], seen["encoder.0.self.k"]
    assert torch.equal(seen["encoder.0.self.scores"].dense(), q @ k.mT)


def test_num_05_the_heads_scale_multiplies_what_enters_it() -> None:
    ids = torch.tensor([[3, 4, 5]])
    plain, scaled = encoder()(ids), encoder(head=Head(tied=True, scale=7**-0.5))(ids)
    assert torch.allclose(scaled.logits, plain.logits * 7**-0.5, atol=1e-12)


@pytest.mark.parametrize("offset", [2, 4])
def test_pos_04_an_offset_moves_the_first_row_and_takes_none_of_the_length(offset: int) -> None:
    model = encoder(offset=offset, count=6)
    table = model.encoder.positions.table.weight
    assert len(table) == 6 + offset
    ids, mask = torch.tensor([[5, 6, 2, 1, 1]]), torch.tensor([[1, 1, 1, 0, 0]])
    before = model(ids, mask).logits[0, :3]
    with torch.no_grad():
        table[:offset] += 1.0  # rows that no token reads
    assert torch.equal(model(ids, mask).logits[0, :3], before)
    with torch.no_grad():
        table[offset] += 1.0
    assert not torch.allclose(model(ids, mask).logits[0, :3], before)
    with pytest.raises(ValueError, match="7 tokens, but the position table has 6 rows"):
        model(torch.full((1, 7), 3))


def test_pos_09_two_packed_texts_are_the_two_apart() -> None:
    model = encoder(offset=2)
    first, second = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[7, 8, 9]])
    packed = model(torch.cat([first, second], dim=1), positions=torch.tensor([[0, 1, 2, 3, 0, 1, 2]])).logits
    assert torch.allclose(packed[:, :4], model(first).logits, atol=1e-12)
    assert torch.allclose(packed[:, 4:], model(second).logits, atol=1e-12)
    apart = model(torch.cat([first, second], dim=1)).logits
    assert not torch.allclose(packed, apart)
