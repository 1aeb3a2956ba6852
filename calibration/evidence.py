"""Scored runs to verdicts: load match, phases, and the gate for the policies named."""

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.experiment import CONTROL, Scored
from calibration.figures import ServedLoad
from calibration.gate import RunFigures, mean_p05
from calibration.phase import MIN_CELLS, PhaseLock, phase_lock
from calibration.profile import Effect
from calibration.results import Run
from calibration.verdict import Verdict, claim_first, judge

FIXED = "fixed_h"


def verdicts(
    scored: Sequence[Scored],
    claim: str | None,
    cell_s: float,
    rng: np.random.Generator,
    *,
    effect: Effect | None = None,
    least_gain: float = 0.0,
) -> list[Verdict]:
    """A verdict for each policy: the claimed one for itself, the rest corrected for all.

    Args:
        scored: runs, one or more.
        claim: the policy that was named beforehand; None tries all, corrected for how many.
        cell_s: length of a cell in seconds.
        rng: for sign-flip tests of many runs.
        effect: of merges on a real sidecar, from its profile; None where none was measured.
        least_gain: share of the matched random mean below which a gain is worth no claim.
    """
    evidence = {run.policy: _figures(run.policy, scored) for run in scored[0].runs}
    p05_pp = {policy: mean_p05([one.random_pp[policy] for one in scored]) for policy in evidence}
    phases = _phases(scored, cell_s)
    loads = {policy: _load(scored, policy, rng) for policy in evidence}

    def judged(named: Mapping[str, Sequence[RunFigures]]) -> list[Verdict]:
        return judge(named, loads, phases, effect, least_gain=least_gain, p05_pp=p05_pp, rng=rng)

    return claim_first(judged, evidence, claim)


def _figures(policy: str, scored: Sequence[Scored]) -> list[RunFigures]:
    return [_figure({run.policy: run for run in one.runs}, policy) for one in scored]


def _figure(runs: Mapping[str, Run], policy: str) -> RunFigures:
    fixed = runs.get(FIXED)
    return gate_figures(runs[policy], fixed.cost if fixed else None)


def gate_figures(run: Run, fixed_cost: float | None = None) -> RunFigures:
    """A run's figures as the gate takes them: costs in percentage points of its requests."""
    pp = 100 / run.requests
    return RunFigures(
        run=run.run,
        requests=run.requests,
        policy_pp=pp * run.cost,
        random_mean_pp=pp * run.random_mean,
        random_p05_pp=pp * run.random_p05,
        fixed_pp=None if fixed_cost is None else pp * fixed_cost,
        oracle_pp=pp * run.oracle_exact,
    )


def _load(scored: Sequence[Scored], policy: str, rng: np.random.Generator) -> LoadMatch:
    """The policy's load against its control's, run by run."""
    arms = {
        policy: _arm([one.loads[policy] for one in scored]),
        CONTROL: _arm([one.control_loads[policy] for one in scored]),
    }
    return load_match(arms, CONTROL, rng=rng)


def _arm(runs: Sequence[ServedLoad]) -> ArmLoad:
    return ArmLoad([run.requests for run in runs], [run.tokens for run in runs])


def _phases(scored: Sequence[Scored], cell_s: float) -> PhaseLock | None:
    counts = np.stack([one.counts for one in scored])
    return phase_lock(counts, cell_s) if counts.shape[1] >= MIN_CELLS else None
