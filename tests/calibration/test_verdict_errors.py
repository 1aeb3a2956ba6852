"""How often the gate is wrong, and how often it sees what is there: thousands of experiments."""

import numpy as np
import pytest

from calibration.equivalence import ArmLoad, load_match
from calibration.evidence import gate_figures
from calibration.gate import RunFigures
from calibration.phase import PhaseLock, phase_lock
from calibration.placement import Grid
from calibration.verdict import Verdict, judge
from controller.policies import POLICIES
from slackwater.cli.evaluate_job import Evaluation, Job

pytestmark = pytest.mark.slow

CELL_S, CELLS, WINDOW, MIN_GAP, MAX_GAP, BUDGET = 0.5, 1200, 16, 36, 144, 11
EXPERIMENTS, RUNS, DRAWS = 2000, 8, 1000
LOAD = load_match({"none": ArmLoad([9], [9]), "policies": ArmLoad([9], [9])}, "none")
SPREAD = PhaseLock(None, None, None, True, "the load is generated without a period")
LEAST = 0.05
EVEN = 100 * np.arange(1, BUDGET + 1)


def forecasting(counts: np.ndarray) -> np.ndarray:
    """[BUDGET] starts by a causal rule: merge when the trailing rate is in its own lower third.

    Bounds keep the budget: no start so early or late that the rest could not follow.
    """
    decay = 0.5 ** (CELL_S / 4.0)
    weights = decay ** np.arange(40)[::-1]
    rate = np.convolve(counts, weights[::-1])[: len(counts)]
    starts, last = [], 0
    for left in range(BUDGET, 0, -1):
        low = max(last + MIN_GAP, CELLS - MAX_GAP * left)
        high = min(last + MAX_GAP, CELLS - WINDOW - MIN_GAP * (left - 1))
        bar = np.quantile(rate[max(0, low - 600) : low], 1 / 3)
        last = next((c for c in range(low, high) if rate[c - 1] <= bar), high)
        starts.append(last)
    return np.array(starts)


def experiment(
    counts: np.ndarray, rng: np.random.Generator, draws: np.ndarray
) -> dict[str, list[RunFigures]]:
    """Evidence for three policies from runs [runs, cells]: random, evenly spaced, forecasting."""
    found: dict[str, list[RunFigures]] = {"random": [], "even": [], "forecasting": []}
    for number, run in enumerate(counts):
        below = np.concatenate(([0], np.cumsum(run)))
        window = below[WINDOW:] - below[:-WINDOW]
        percent = 100 / max(1, int(run.sum()))
        costs = window[draws].sum(axis=1) * percent
        chosen = {
            "random": draws[rng.integers(len(draws))],
            "even": EVEN,
            "forecasting": forecasting(run),
        }
        for policy, starts in chosen.items():
            figures = RunFigures(
                run=str(number),
                requests=int(run.sum()),
                policy_pp=float(window[starts].sum() * percent),
                random_mean_pp=float(costs.mean()),
                random_p05_pp=float(np.quantile(costs, 0.05)),
            )
            found[policy].append(figures)
    return found


def seen_gain(runs: list[RunFigures]) -> float:
    random = sum(run.random_mean_pp for run in runs)
    return (random - sum(run.policy_pp for run in runs)) / random


def schedules(rng: np.random.Generator) -> np.ndarray:
    return Grid(np.zeros(CELLS), WINDOW, MIN_GAP, MAX_GAP).draw(BUDGET, DRAWS, rng)


def claims(verdicts: list[Verdict]) -> set[str]:
    return {v.policy for v in verdicts if v.verdict == "placement gain"}


def bursts(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Counts [runs, cells]: 30 s quiet and 30 s busy on average, three times the rate."""
    flips = rng.random((runs, CELLS)) < CELL_S / 30
    busy = (np.cumsum(flips, axis=1) + rng.integers(0, 2, size=(runs, 1))) % 2 == 1
    return rng.poisson(np.where(busy, 12.0, 4.0) * CELL_S)


@pytest.mark.timeout(600)
def test_constant_load_yields_a_gain_at_most_one_time_in_twenty() -> None:
    rng = np.random.default_rng(20)
    wrong = dict.fromkeys(("random", "even", "forecasting", "best of all"), 0)
    draws = schedules(rng)
    for _ in range(EXPERIMENTS):
        evidence = experiment(rng.poisson(2.0, size=(RUNS, CELLS)), rng, draws)
        for policy, runs in evidence.items():
            wrong[policy] += len(claims(judge({policy: runs}, {policy: LOAD}, SPREAD, None)))
        wrong["best of all"] += bool(
            claims(judge(evidence, dict.fromkeys(evidence, LOAD), SPREAD, None))
        )
    bound = 0.05 + 3 * (0.05 * 0.95 / EXPERIMENTS) ** 0.5
    assert max(wrong.values()) / EXPERIMENTS <= bound
    assert max(wrong.values()) > 0


@pytest.mark.timeout(300)
def test_bursts_of_three_times_the_rate_are_seen_in_eight_runs() -> None:
    rng = np.random.default_rng(21)
    draws, seen = schedules(rng), 0
    for _ in range(300):
        counts = bursts(rng, RUNS)
        evidence = experiment(counts, rng, draws)["forecasting"]
        lock = phase_lock(counts, CELL_S)
        found = judge({"forecasting": evidence}, {"forecasting": LOAD}, lock, None, least_gain=0.05)
        seen += bool(claims(found))
    assert seen / 300 >= 0.9


@pytest.mark.timeout(300)
def test_bursts_yield_no_gain_for_random_placement() -> None:
    rng = np.random.default_rng(23)
    draws, wrong, experiments = schedules(rng), 0, 600
    for _ in range(experiments):
        evidence = experiment(bursts(rng, RUNS), rng, draws)["random"]
        wrong += bool(claims(judge({"random": evidence}, {"random": LOAD}, SPREAD, None)))
    assert 0 < wrong / experiments <= 0.05 + 3 * (0.05 * 0.95 / experiments) ** 0.5


@pytest.mark.timeout(300)
def test_fixed_period_on_segments_of_one_periodic_trace_is_not_claimed() -> None:
    rng = np.random.default_rng(22)
    draws, wrong, unchecked = schedules(rng), 0, 0
    for _ in range(200):
        # Windows each 50 s meet a load of period 100 s at two phases, which may both be quiet.
        at = (rng.uniform(0, 100) + np.arange(RUNS * CELLS) * CELL_S) % 100
        counts = rng.poisson(np.where(at < 25, 6.0, 2.0) * CELL_S).reshape(RUNS, CELLS)
        evidence = experiment(counts, rng, draws)["even"]
        lock = phase_lock(counts, CELL_S)
        wrong += bool(claims(judge({"even": evidence}, {"even": LOAD}, lock, None)))
        unchecked += bool(claims(judge({"even": evidence}, {"even": LOAD}, SPREAD, None)))
    assert wrong / 200 <= 0.02
    assert unchecked / 200 > 0.3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("serving", ["arrivals", "overlap"])
def test_no_deployed_policy_is_claimed_on_constant_load_over_one_time_in_twenty(
    serving: str,
) -> None:
    """The policies themselves, by the live code: experiments of 8 out of 64 runs of each."""
    job = Job(
        traces=(), regimes=("constant",), policies=(), claim=None, window_s=8.0, min_gap_s=18.0,
        max_gap_s=72.0, segment_s=600.0, runs=64, draws=500, serving=serving,
        least_gain_percent=5.0, seed=3,
    )  # fmt: skip
    (group,) = Evaluation(job).groups(lambda: None)
    pool: dict[str, list[RunFigures]] = {policy: [] for policy in POLICIES}
    for run in (run for one in group.scored for run in one.runs):
        pool[run.policy].append(gate_figures(run))
    loads, rng = dict.fromkeys(pool, LOAD), np.random.default_rng(24)
    wrong = dict.fromkeys((*pool, "best of all"), 0)
    for _ in range(EXPERIMENTS):
        chosen = rng.choice(64, size=RUNS, replace=False)
        evidence = {policy: [runs[i] for i in chosen] for policy, runs in pool.items()}
        # A gain below the least one is no claim, whatever the other steps say: few are left.
        worth = {p: runs for p, runs in evidence.items() if seen_gain(runs) >= LEAST}
        for policy, runs in worth.items():
            wrong[policy] += len(claims(judge({policy: runs}, loads, SPREAD, None)))
        found = judge(evidence, loads, SPREAD, None, least_gain=LEAST) if worth else []
        wrong["best of all"] += bool(claims(found))
    bound = 0.05 + 3 * (0.05 * 0.95 / EXPERIMENTS) ** 0.5
    assert max(wrong.values()) / EXPERIMENTS <= bound
