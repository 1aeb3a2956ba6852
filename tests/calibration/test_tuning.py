"""The search: scores are the evaluation's own, and what is held out is not looked at."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from small_runs import CORRIDOR, bursty_requests, entrants

from calibration.contender import Entrant
from calibration.experiment import Source, evaluate
from calibration.protocol import Protocol
from calibration.serving import Overlap, requests_of
from calibration.simulate import Segment, corridor_settings, simulate
from calibration.tuning.bench import Bench, Score, inner_budgets
from calibration.tuning.search import Found, objective, search
from calibration.tuning.space import (
    SPACES,
    drawn,
    neighbours,
    space_of,
    values_of,
    with_values,
)
from controller.policies import POLICIES, policy_named
from controller.settings import ControllerSettings
from slackwater.errors import InputError

PROTOCOL = Protocol(CORRIDOR, cell_s=0.5, model=Overlap(), draws=10, seed=0)
SETTINGS = corridor_settings(ControllerSettings(), CORRIDOR)
SLACK = space_of("slack")
START = values_of(SETTINGS, SLACK)


def source(seed: int, runs: int = 1) -> Source:
    requests = bursty_requests(np.random.default_rng(seed), runs * PROTOCOL.run_s)
    return Source(f"t{seed}", requests, tuple(i * CORRIDOR.cells for i in range(runs)), seed)


def bench(*sources: Source, policy: str = "slack") -> Bench:
    return Bench(sources, policy, space_of(policy), SETTINGS, PROTOCOL)


def searched(*sources: Source, seed: int = 0, folds: int = 2) -> Found:
    return search(
        bench(*sources),
        SLACK,
        START,
        candidates=4,
        rounds=1,
        folds=folds,
        rng=np.random.default_rng(seed),
        advance=lambda: None,
    )


@pytest.mark.parametrize("policy", list(SPACES))
def test_spaces_hold_the_defaults_and_every_candidate_is_possible(policy: str) -> None:
    assert policy in POLICIES
    space, rng = space_of(policy), np.random.default_rng(0)
    start = values_of(ControllerSettings(), space)
    candidates = [*drawn(space, 40, start, rng), *neighbours(space, start, 0.25)]
    for candidate in [start, *candidates]:
        found = dict(zip((p.name for p in space), candidate, strict=True))
        assert all(p.low <= found[p.name] <= p.high for p in space)
        assert values_of(with_values(SETTINGS, found), space) == candidate
    assert len(set(candidates)) > 20


def test_values_that_are_impossible_name_their_source() -> None:
    with pytest.raises(InputError, match=r"f\.json: .*half_life_s"):
        with_values(SETTINGS, {"half_life_s": -1.0}, "f.json")


def test_policy_without_parameters_cannot_be_tuned() -> None:
    with pytest.raises(InputError, match=r"'fixed_h' cannot be tuned; choose one of .*slack"):
        space_of("fixed_h")


def test_scores_are_those_of_the_evaluation() -> None:
    one, candidate = source(1, runs=2), (3.0, 2.0, 600.0)
    found = dict(zip((p.name for p in SLACK), candidate, strict=True))
    entrant = Entrant("slack", policy_named("slack"), with_values(SETTINGS, found))
    runs = [s.runs[0] for s in evaluate([one], [entrant], PROTOCOL) if s is not None]
    scores = bench(one).scores([START, candidate], lambda: None)[candidate]
    assert [score.budget for score in scores] == [run.budget for run in runs]
    for score, run in zip(scores, runs, strict=True):
        assert score.gain == pytest.approx(run.gain)
        assert score.gain_pp == pytest.approx(run.gain_pp)
        assert score.cost_pp == pytest.approx(100 * run.cost / run.requests)
        assert score.gain_pp / score.oracle_pp == pytest.approx(run.capture)


def test_policies_with_signals_of_their_own_place_as_they_do_alone() -> None:
    one = source(2)
    changed = [msgspec.structs.replace(SETTINGS, half_life_s=h) for h in (1.0, 4.0, 16.0)]
    beside = [replace(entrants(policies=("slack",))[0], name=str(s.half_life_s), settings=s)
              for s in changed]  # fmt: skip
    segments = [Segment(first, CORRIDOR) for first in one.first_cells]
    (together,) = simulate(one.requests, segments, beside)
    assert list(together) == ["1.0", "4.0", "16.0"]
    for entrant in beside:
        (alone,) = simulate(one.requests, segments, [entrant])
        assert alone[entrant.name] == together[entrant.name]
    assert together["1.0"] != together["16.0"]


def test_search_finds_no_less_than_the_default_and_repeats_by_its_seed() -> None:
    sources = [source(3), source(4)]
    found = searched(*sources)
    assert objective(found.tuned) >= objective(found.default)
    assert found == searched(*sources)
    assert found.start == START
    assert 5 < found.candidates <= 5 + 3 * 2 * 3


def test_fold_is_found_without_the_runs_it_is_scored_on() -> None:
    found = searched(source(3), source(4))
    other = searched(source(3), source(5))
    assert [fold.held_out for fold in found.folds] == [(0,), (1,)]
    # The second fold searches on the first run alone, which is the same in both.
    assert found.folds[1].values == other.folds[1].values
    assert found.folds[1].tuned != other.folds[1].tuned
    assert found.folds[0].default == (found.default[0],)


@pytest.mark.parametrize(("runs", "folds", "made"), [(1, 4, 0), (2, 0, 0), (2, 1, 0), (2, 9, 2)])
def test_no_fold_is_left_without_training_runs(runs: int, folds: int, made: int) -> None:
    found = searched(source(6, runs), folds=folds)
    assert len(found.folds) == made


def test_gain_where_matched_random_has_no_freedom_counts_for_nothing() -> None:
    fitting, inner = CORRIDOR.budgets(), inner_budgets(PROTOCOL)
    assert fitting[0] < inner[0] <= inner[-1] < fitting[-1]
    won = Score(budget=2, cost_pp=1.0, gain=0.5, gain_pp=1.0, oracle_pp=1.0, pinned=True)
    assert won.objective == 0.0
    assert replace(won, pinned=False).objective == 0.5
    assert replace(won, gain=-0.5).objective == -0.5


def test_gate_that_never_opens_is_pinned_and_does_not_win() -> None:
    one = source(7)
    scores = bench(one, policy="pressure_gate").scores([(0.0,), (1.0,)], lambda: None)
    assert scores[1.0,][0].pinned
    assert scores[1.0,][0].budget == CORRIDOR.budgets()[-1]


def test_traffic_without_a_request_cannot_be_trained_on() -> None:
    silent = requests_of([1.0], 3 * PROTOCOL.run_s, e2e_s=[0.5])
    with pytest.raises(InputError, match="no training run has a single request"):
        bench(Source("t", silent, (240, 480)))
    assert bench(Source("t", silent, (0, 240))).runs == ["t#0"]
