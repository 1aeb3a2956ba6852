"""The outer step, on one learner alone."""

import pytest
import torch
from torch import nn

from trainer.outer import OuterState, flatten, is_finite


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
    first, second = OuterState(torch.ones(10)), OuterState(torch.ones(10))
    assert first.digest() == second.digest()
    second.local[9] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert first.digest() == second.digest()
    second.apply(second.pseudo_gradient())
    assert first.digest() != second.digest()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_element_is_found_and_a_large_sum_is_not_one(bad: float) -> None:
    vector = torch.full((100,), 3e38)
    assert is_finite(vector)
    vector[57] = bad
    assert not is_finite(vector)


def test_a_flattened_module_lives_in_one_vector() -> None:
    layer = nn.Linear(3, 2)
    before = layer(torch.ones(3)).detach()
    flat = flatten(layer)
    assert flat.numel() == 8
    assert torch.equal(layer(torch.ones(3)), before)
    flat.zero_()
    assert layer(torch.ones(3)).tolist() == [0.0, 0.0]
