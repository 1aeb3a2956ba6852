"""Optimal stopping on a chain: against every stopping rule there is, and against known answers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import bins, engine, run, steps

from controller.chain import Floats, fit_chain, waiting_values
from controller.history import REFIT_US, CostHistory
from controller.steps import whole_ticks_s

SECOND_US = 1_000_000


def made_chain(seed: int, states: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(states, 0.7), states)
    return rng.uniform(0, 20, states), moves


def best_rule_cost(costs: Floats, moves: Floats, looks: int) -> Floats:
    """[states] least expected cost over all rules: in which states to stop at each look."""
    subsets = list(product([False, True], repeat=len(costs)))
    best = np.full(len(costs), np.inf)
    for rule in product(subsets, repeat=looks - 1):
        going_on = costs
        for stops in reversed(rule):
            going_on = np.where(stops, costs, moves @ going_on)
        best = np.minimum(best, moves @ going_on)
    return best


@given(seed=st.integers(0, 10**6), states=st.integers(1, 3), looks=st.integers(1, 3))
def test_value_of_waiting_is_that_of_the_best_of_all_rules(
    seed: int, states: int, looks: int
) -> None:
    costs, moves = made_chain(seed, states)
    values = waiting_values(costs, moves, looks)
    row = min(looks, len(values)) - 1
    assert values[row] == pytest.approx(best_rule_cost(costs, moves, looks))


def test_thrown_dice_have_the_known_stopping_values() -> None:
    dice = np.arange(1.0, 7.0)
    values = waiting_values(dice, np.full((6, 6), 1 / 6), 3)
    assert values[:, 0] == pytest.approx([3.5, 2.75, 14 / 6])
    assert np.ptp(values, axis=1).max() < 1e-12


@given(seed=st.integers(0, 10**6), states=st.integers(1, 8))
def test_more_looks_never_make_waiting_dearer(seed: int, states: int) -> None:
    costs, moves = made_chain(seed, states)
    values = waiting_values(costs, moves, 12)
    assert (np.diff(values, axis=0) <= 1e-9).all()
    assert values.min() >= costs.min() - 1e-9


def test_constant_costs_leave_nothing_to_wait_for() -> None:
    chain = fit_chain(np.arange(100) * SECOND_US, np.full(100, 7.0), 6 * SECOND_US)
    assert chain.waiting(7.0, 9.0) == pytest.approx(7.0)


def test_chain_learns_what_follows_what() -> None:
    costs = np.tile([1.0] * 30 + [9.0] * 10, 20)
    chain = fit_chain(np.arange(800) * SECOND_US, costs, SECOND_US)
    calm, busy = chain.state(1.0), chain.state(9.0)
    assert chain.costs == pytest.approx([1.0, 9.0])
    assert chain.moves[calm] == pytest.approx([29 / 30, 1 / 30], abs=0.01)
    assert chain.moves[busy] == pytest.approx([1 / 10, 9 / 10], abs=0.01)
    assert chain.moves.sum(axis=1) == pytest.approx([1.0, 1.0])
    # With one look left a burst that has come tends to stay, with many it will pass.
    assert chain.waiting(9.0, 1.0) > 7.0
    assert chain.waiting(9.0, 60.0) < 2.0
    assert chain.waiting(9.0, 2.0) < chain.waiting(9.0, 1.5) < chain.waiting(9.0, 1.0)


def test_costs_with_a_gap_between_them_make_no_pair() -> None:
    at_us = np.concatenate([np.arange(50), np.arange(1000, 1050)]) * SECOND_US
    costs = np.concatenate([np.full(50, 1.0), np.full(50, 9.0)])
    chain = fit_chain(at_us, costs, SECOND_US)
    assert chain.moves[0] == pytest.approx([49.5 / 50, 0.5 / 50], abs=0.03)


def test_fit_depends_on_the_time_asked_about_and_not_on_who_asked_before() -> None:
    rng = np.random.default_rng(5)
    asked, silent = CostHistory(60.0), CostHistory(60.0)
    for second in range(100):
        cost = float(rng.gamma(2.0, 3.0))
        for history in (asked, silent):
            history.add(second * SECOND_US, cost)
        asked.chain(second * SECOND_US, 6.0)
    now_us = 99 * SECOND_US
    one, other = asked.chain(now_us, 6.0), silent.chain(now_us, 6.0)
    assert one is not None
    assert other is not None
    assert np.array_equal(one.moves, other.moves)
    assert np.array_equal(one.costs, other.costs)
    assert CostHistory(60.0).chain(REFIT_US, 6.0) is None


@pytest.mark.parametrize(
    ("tau_s", "tick_s", "lag_s"), [(6.1, 0.25, 6.0), (6.2, 0.5, 6.0), (0.05, 0.25, 0.25)]
)
def test_looks_are_whole_ticks_apart_whatever_tau_is_set(
    tau_s: float, tick_s: float, lag_s: float
) -> None:
    """Costs are known at ticks alone: a lag between two of them would find no pair at all."""
    rng = np.random.default_rng(8)
    world = [*bins("s", rng.poisson(np.tile([1] * 20 + [8] * 12, 10))), *steps("a", 1500)]
    assert whole_ticks_s(tau_s, tick_s) == lag_s
    told = []
    for set_s in (tau_s, lag_s, 2 * lag_s):
        made = engine("slack_markov", tick_s=tick_s, stopping_tau_s=set_s, max_gap_steps=4000)
        judged = [d for d, _ in run(made, world, 70.0) if "calm" in d.reason]
        assert judged
        told.append([(d.at_us, d.reason, d.threshold) for d in judged])
    assert told[0] == told[1] != told[2]


def test_lag_is_whole_ticks_to_the_microsecond() -> None:
    # A tick of a third of a second is 333,333 us, and so are the distances between costs.
    assert round(whole_ticks_s(6.0, 1 / 3) * SECOND_US) == 18 * 333_333
    assert whole_ticks_s(6.1, 0.1) == pytest.approx(6.1)
