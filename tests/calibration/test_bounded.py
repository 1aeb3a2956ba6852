"""The price of a bound on one sidecar's harm, and what the bound does."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from small_runs import entrants, uneven_requests

from calibration.bounded import bounded_name, prices
from calibration.contender import Entrant
from calibration.experiment import Scored, Source, evaluate
from calibration.placement.corridor import Corridor
from calibration.protocol import Protocol
from calibration.serving import Overlap
from replay_producer.generators import generate

pytestmark = pytest.mark.slow

CORRIDOR = Corridor(720, 8, 16, 64)
PROTOCOL = Protocol(CORRIDOR, cell_s=0.5, model=Overlap(), draws=20, seed=0)
BOUND = 1.1


@pytest.fixture(scope="module")
def scored() -> list[Scored]:
    sources = [
        Source(f"t{seed}", uneven_requests(np.random.default_rng(seed), 360.0), (0,), seed)
        for seed in range(6)
    ]
    free = entrants(CORRIDOR, ("slack",))[0]
    settings = msgspec.structs.replace(free.settings, max_burden=BOUND)
    pair = [free, Entrant(bounded_name("slack", BOUND), free.policy, settings)]
    return [one for one in evaluate(sources, pair, PROTOCOL) if one is not None]


def test_bound_lowers_the_worst_burden_and_its_price_is_paired_over_runs(
    scored: list[Scored],
) -> None:
    (price,) = prices(scored, BOUND, np.random.default_rng(0))
    assert price.worst is not None
    assert price.bounded_worst is not None
    assert price.worst.name == "0"
    assert price.worst.burden is not None
    assert price.bounded_worst.burden is not None
    assert price.bounded_worst.burden < price.worst.burden - 0.05
    free, bounded = zip(*(one.runs for one in scored), strict=True)
    assert price.price_pp == pytest.approx(
        np.mean([a.gain_pp - b.gain_pp for a, b in zip(free, bounded, strict=True)])
    )
    assert price.price_pp == pytest.approx(price.gain_pp - price.bounded_gain_pp)
    assert price.price_share == pytest.approx(price.price_pp / price.gain_pp)
    assert price.price_interval_pp is not None
    assert price.price_interval_pp[0] <= price.price_pp <= price.price_interval_pp[1]
    assert price.n == 6
    assert price.exceeded is (price.bounded_worst.burden > BOUND)
    for own, harmed_pp, budget in (
        (free, price.harmed_pp, price.budget),
        (bounded, price.bounded_harmed_pp, price.bounded_budget),
    ):
        assert harmed_pp == pytest.approx(np.mean([100 * run.cost / run.requests for run in own]))
        assert budget == np.mean([run.budget for run in own])


def test_price_of_few_runs_has_no_interval_and_of_no_pair_is_none(scored: list[Scored]) -> None:
    (price,) = prices(scored[:2], BOUND, np.random.default_rng(0))
    assert price.price_interval_pp is None
    alone = [replace(one, runs=one.runs[:1]) for one in scored]
    assert prices(alone, BOUND, np.random.default_rng(0)) == []


def test_uneven_traffic_has_a_steady_and_a_bursty_sidecar_with_as_many_requests() -> None:
    trace = generate("uneven", 36_000, 10, seed=1)
    steady = trace.sidecar == "steady"
    assert set(trace.sidecar) == {"steady", "bursty"}
    assert steady.mean() == pytest.approx(0.5, abs=0.01)
    spread = {}
    for name in ("steady", "bursty"):
        own = trace.arrival_us[trace.sidecar == name] // 10_000_000
        counts = np.bincount(own, minlength=3600)
        spread[name] = counts.var() / counts.mean()
    assert spread["steady"] == pytest.approx(1.0, abs=0.15)
    assert spread["bursty"] > 5
