"""The outer step, on one learner alone."""

import pytest
import torch

from slackwater.errors import InputError
from trainer.outer import OuterState, is_finite


def test_one_learner_with_lr_1_and_no_momentum_becomes_global() -> None:
    local = torch.tensor([1.0, -2.0, 0.5])
    outer = OuterState(local, lr=1.0, momentum=0.0)
    local += torch.tensor([0.25, 0.5, -0.125])
    learner = local.clone()
    outer.apply(outer.pseudo_gradient())
    assert torch.equal(outer.weights, learner)
    assert torch.equal(local, learner)


def test_the_pseudo_gradient_is_where_it_started_minus_where_it_arrived() -> None:
    local = torch.zeros(1)
    outer = OuterState(local)
    local += 2.0
    assert outer.pseudo_gradient().tolist() == [-2.0]


def test_three_outer_steps_follow_nesterov_momentum() -> None:
    local = torch.zeros(4)
    outer = OuterState(local, lr=0.7, momentum=0.9)
    weights, momentum = torch.zeros(4), torch.zeros(4)
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        local += torch.randn(4, generator=generator)
        gradient = weights - local
        momentum = 0.9 * momentum + gradient
        weights = weights - 0.7 * (gradient + 0.9 * momentum)
        outer.apply(outer.pseudo_gradient())
        torch.testing.assert_close(outer.weights.detach(), weights)
        assert torch.equal(local, outer.weights)


def test_the_digest_is_of_every_bit_of_the_global_weights() -> None:
    local = torch.ones(10)
    first, second = OuterState(torch.ones(10)), OuterState(local)
    assert first.digest() == second.digest()
    local[9] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert first.digest() == second.digest()
    second.apply(second.pseudo_gradient())
    assert first.digest() != second.digest()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_element_is_found_and_a_large_sum_is_not_one(bad: float) -> None:
    vector = torch.full((100,), 3e38)
    assert is_finite(vector)
    vector[57] = bad
    assert not is_finite(vector)


def moved(outer: OuterState, local: torch.Tensor, seed: int) -> None:
    local += torch.randn(local.shape, generator=torch.Generator().manual_seed(seed))
    outer.apply(outer.pseudo_gradient())


def test_a_learner_that_takes_over_the_state_goes_on_bit_for_bit() -> None:
    first, late = torch.zeros(9), torch.ones(9)
    group, joining = OuterState(first), OuterState(late)
    moved(group, first, 1)
    joining.load_state_dict(group.state_dict())
    joining.restore()
    assert torch.equal(late, first)
    assert joining.digest() == group.digest()
    for outer, local in ((group, first), (joining, late)):
        moved(outer, local, 2)
    assert joining.digest() == group.digest()
    assert torch.equal(late, first)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (OuterState(torch.ones(8)), "outer weights has shape \\[8\\]; this model's has \\[9\\]"),
        (OuterState(torch.ones(9), momentum=0), "outer state has weights; this learner's has"),
    ],
)
def test_the_state_of_another_model_is_refused_and_nothing_changes(
    other: OuterState, message: str
) -> None:
    outer = OuterState(torch.zeros(9))
    before = outer.digest()
    with pytest.raises(InputError, match=message):
        outer.load_state_dict(other.state_dict())
    assert outer.digest() == before == OuterState(torch.zeros(9)).digest()


def test_fragments_one_after_the_other_are_the_whole_step() -> None:
    at_once, apart = torch.zeros(10), torch.zeros(10)
    whole, parts = OuterState(at_once), OuterState(apart, fragments=3)
    for seed in range(3):
        step = torch.randn(10, generator=torch.Generator().manual_seed(seed))
        at_once += step
        apart += step
        whole.apply(whole.pseudo_gradient())
        for fragment in range(3):
            parts.apply(parts.pseudo_gradient(fragment), fragment)
        assert torch.equal(apart, at_once)
    assert parts.digest() == whole.digest()


def test_a_merged_fragment_leaves_the_others_where_they_are() -> None:
    local = torch.zeros(10)
    outer = OuterState(local, fragments=3)
    local += 1.0
    outer.apply(outer.pseudo_gradient(1), 1)
    still = torch.ones(10)
    still[3:6] = local[3:6]
    assert torch.equal(local, still)
    assert outer.weights[3:6].tolist() == local[3:6].tolist() != [1.0] * 3
    assert outer.weights[:3].tolist() == [0.0] * 3


def test_a_share_of_the_local_weights_can_be_kept() -> None:
    local = torch.zeros(4)
    outer = OuterState(local, lr=1.0, momentum=0.0)
    local += 4.0
    outer.apply(torch.full((4,), -2.0), keep=0.5)
    assert outer.weights.tolist() == [2.0] * 4
    assert local.tolist() == [3.0] * 4
