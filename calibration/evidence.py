"""Scored runs to verdicts: load match, phases, and the gate for the policies named."""

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.experiment import CONTROL, Scored
from calibration.figures import ServedLoad
from calibration.gate import RunFigures, mean_envelope
from calibration.phase import PhaseLock, phase_lock
from calibration.profile import Effect
from calibration.results import Run
from calibration.verdict import Verdict, judge

FIXED = "fixed_h"
LOW_SHARE = 0.05
MIN_PHASE_CELLS = 32


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
    p05_pp = {policy: _mean_p05(policy, scored) for policy in evidence}
    phases = _phases(scored, cell_s)
    loads = {policy: _load(scored, policy, rng) for policy in evidence}

    def judged(named: Mapping[str, Sequence[RunFigures]]) -> list[Verdict]:
        return judge(named, loads, phases, effect, least_gain=least_gain, p05_pp=p05_pp, rng=rng)

    found = judged(evidence)
    if claim is None:
        return found
    alone = judged({claim: evidence[claim]})
    return alone + [verdict for verdict in found if verdict.policy != claim]


def _figures(policy: str, scored: Sequence[Scored]) -> list[RunFigures]:
    return [_figure({run.policy: run for run in one.runs}, policy) for one in scored]


def _figure(runs: Mapping[str, Run], policy: str) -> RunFigures:
    run, fixed = runs[policy], runs.get(FIXED)
    pp = 100 / run.requests
    return RunFigures(
        run=run.run,
        requests=run.requests,
        policy_pp=pp * run.cost,
        random_mean_pp=pp * run.random_mean,
        random_p05_pp=pp * run.random_p05,
        fixed_pp=pp * fixed.cost if fixed else None,
        oracle_pp=pp * run.oracle_exact,
    )


def _mean_p05(policy: str, scored: Sequence[Scored]) -> float:
    return float(np.quantile(mean_envelope([one.random_pp[policy] for one in scored]), LOW_SHARE))


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
    return phase_lock(counts, cell_s) if counts.shape[1] >= MIN_PHASE_CELLS else None
