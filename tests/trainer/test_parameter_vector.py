"""Parameters of any type and layout as one vector."""

import pytest
import torch
from torch import nn

from slackwater.errors import InputError
from trainer.outer import OuterState
from trainer.vector import ParameterVector


def model() -> nn.Sequential:
    """Mixed types, and a convolution whose memory lies in another order than its elements."""
    layers = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Linear(3, 2).bfloat16(), nn.Linear(2, 2).half())
    return layers.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("span", [slice(0, 70), slice(5, 53), slice(50, 60), slice(63, 70)])
def test_what_is_written_to_a_span_is_read_from_it_and_no_more(span: slice) -> None:
    torch.manual_seed(0)
    layers = model()
    vector = ParameterVector(list(layers.parameters()))
    assert (vector.size, vector.dtype) == (66, torch.float32) or vector.size == 66
    span = slice(span.start, min(span.stop, vector.size))
    before, after = torch.empty(vector.size), torch.empty(vector.size)
    vector.read(slice(0, vector.size), before)
    values = torch.randn(span.stop - span.start)
    vector.write(span, values)
    vector.read(slice(0, vector.size), after)
    vector.round(span, values)
    before[span] = values
    assert torch.equal(after, before)


def test_tied_parameters_count_once_and_stay_tied() -> None:
    first, last = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    last.weight = first.weight
    outer = OuterState(*first.parameters(), *last.parameters(), lr=1.0, momentum=0.0)
    assert outer.parameters == 15
    with torch.no_grad():
        last.weight += 1.0
    arrived = first.weight.detach().clone()
    outer.apply(outer.pseudo_gradient())
    assert last.weight is first.weight
    torch.testing.assert_close(first.weight.detach(), arrived)


def test_a_coarse_learner_that_did_not_move_gives_nothing_and_small_steps_add_up() -> None:
    local = torch.ones(3, dtype=torch.bfloat16)
    outer = OuterState(local, lr=1.0, momentum=0.0)
    # 1 and a 512th are the same in bfloat16: only the global weights can hold the difference.
    for _ in range(4):
        outer.apply(torch.full((3,), -1 / 512))
        assert outer.pseudo_gradient().tolist() == [0.0] * 3
    assert outer.weights.tolist() == [1 + 4 / 512] * 3
    assert local.tolist() == [1 + 4 / 512] * 3


def test_the_vector_is_as_fine_as_its_finest_parameter() -> None:
    fine = ParameterVector([torch.ones(1), torch.ones(1, dtype=torch.float64)])
    assert fine.dtype is torch.float64
    assert OuterState(torch.ones(1, dtype=torch.bfloat16)).weights.dtype is torch.float32


@pytest.mark.parametrize(
    ("parameters", "message"),
    [([], "no trainable parameter"), ([torch.ones(2, dtype=torch.int64)], "type torch.int64")],
)
def test_what_cannot_be_merged_is_refused(parameters: list[torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ParameterVector(parameters)


@pytest.mark.parametrize("fragments", [0, 4])
def test_a_fragment_holds_at_least_one_parameter(fragments: int) -> None:
    with pytest.raises(InputError, match="it must be 1 to 3"):
        OuterState(torch.ones(3), fragments=fragments)
