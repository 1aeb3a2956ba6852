"""The ceiling and the 2Ke bound in an evaluation's figures: each against its own definition."""

import numpy as np
import pytest
from small_runs import CORRIDOR, bursty_requests, entrants

from calibration.ceilings import Ceilings
from calibration.costs import run_costs
from calibration.experiment import Scored, Source, evaluate
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.results import Run
from calibration.serving import Overlap, Queue, Requests, requests_of
from calibration.serving.overlap import Counting

BUDGET = 8


def protocol(counting: Counting = "in_service") -> Protocol:
    return Protocol(CORRIDOR, cell_s=0.5, model=Overlap(counting=counting), draws=50, seed=0)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    requests = bursty_requests(np.random.default_rng(5), 360.0)
    source = Source("bursty", requests, (0, 240, 480))
    scored = evaluate([source], entrants(policies=("fixed_h", "slack")), protocol())
    return [run for one in scored if isinstance(one, Scored) for run in one.runs]


@pytest.mark.parametrize("counting", ["arriving", "in_service"])
def test_halves_of_a_run_cost_together_what_the_whole_does(counting: Counting) -> None:
    requests = bursty_requests(np.random.default_rng(6), 240.0)
    (whole,) = run_costs(requests, [200], protocol(counting), [0.0])
    for one, other in Ceilings(requests, 200, protocol(counting), 0)._halves:
        assert (one.costs_per_start + other.costs_per_start).tolist() == whole.tolist()


def test_constant_load_has_no_ceiling_and_bursts_have_one() -> None:
    rng = np.random.default_rng(7)
    constant = requests_of(np.sort(rng.uniform(0, 120, 960)), 120.0, e2e_s=np.full(960, 0.5))
    flat = Ceilings(constant, 0, protocol(), 0).of(BUDGET)
    bursty = Ceilings(bursty_requests(rng, 120.0), 0, protocol(), 0).of(BUDGET)
    assert flat.gain is not None
    assert bursty.gain is not None
    assert flat.gain < 0.05
    assert bursty.gain > 0.15


def test_ceiling_is_the_same_whichever_budget_was_asked_for_first() -> None:
    requests = bursty_requests(np.random.default_rng(8), 120.0)
    first, second = (Ceilings(requests, 0, protocol(), 0) for _ in range(2))
    second.of(BUDGET + 1)
    assert first.of(BUDGET) == second.of(BUDGET)


def test_models_whose_requests_harm_one_another_have_no_ceiling() -> None:
    queue = Protocol(CORRIDOR, cell_s=0.5, model=Queue(), draws=50, seed=0)
    requests: Requests = bursty_requests(np.random.default_rng(9), 120.0)
    assert Ceilings(requests, 0, queue, 0).of(BUDGET).gain is None


def test_bound_is_2ke_of_the_worst_forecast_and_the_share_what_was_lost_of_it(
    runs: list[Run],
) -> None:
    assert len(runs) == 6
    for run in runs:
        assert run.forecast_worst is not None
        assert run.forecast_error is not None
        assert run.forecast_worst >= run.forecast_error
        assert run.bound == 2 * run.budget * run.forecast_worst
        assert run.bound_share == pytest.approx((run.cost - run.oracle_exact) / run.bound)


def test_schedule_best_by_the_recorded_forecasts_loses_no_more_than_the_bound(
    runs: list[Run],
) -> None:
    """Proposition B on a real run: every window's forecast off by at most the recorded e."""
    requests = bursty_requests(np.random.default_rng(5), 360.0)
    costs = list(run_costs(requests, [0, 240, 480], protocol(), [0.0] * 3))
    rng = np.random.default_rng(10)
    for run in runs:
        true = Grid.from_costs(costs[run.segment], 8, 16, 64)
        wrong = rng.uniform(-1, 1, len(costs[run.segment])) * (run.forecast_worst or 0)
        looked = Grid.from_costs(costs[run.segment] + wrong, 8, 16, 64)
        lost = float(true.costs(looked.optimum(run.budget)[1])) - run.oracle_exact
        assert lost <= (run.bound or 0)
