"""Scored runs to verdicts: load match, phases, and the gate for the policies named."""

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.experiment import BASELINE, Scored
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
) -> list[Verdict]:
    """A verdict for each policy: the claimed one for itself, the rest corrected for all.

    Args:
        scored: runs, one or more.
        claim: the policy that was named beforehand; None tries all, corrected for how many.
        cell_s: length of a cell in seconds.
        rng: for sign-flip tests of many runs.
        effect: of merges on a real sidecar, from its profile; None where none was measured.
    """
    evidence = {run.policy: _figures(run.policy, scored) for run in scored[0].runs}
    p05_pp = {policy: _mean_p05(policy, scored) for policy in evidence}
    phases = _phases(scored, cell_s)
    everyone = _loads(scored, tuple(evidence), rng)
    found = judge(evidence, everyone, phases, effect, p05_pp=p05_pp, rng=rng)
    if claim is None:
        return found
    own = _loads(scored, (claim,), rng)
    alone = judge({claim: evidence[claim]}, own, phases, effect, p05_pp=p05_pp, rng=rng)
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


def _loads(
    scored: Sequence[Scored], policies: Sequence[str], rng: np.random.Generator
) -> LoadMatch:
    arms = {
        name: ArmLoad(
            [one.loads[name].requests for one in scored], [one.loads[name].tokens for one in scored]
        )
        for name in (BASELINE, *policies)
    }
    return load_match(arms, BASELINE, rng=rng)


def _phases(scored: Sequence[Scored], cell_s: float) -> PhaseLock | None:
    counts = np.stack([one.counts for one in scored])
    return phase_lock(counts, cell_s) if counts.shape[1] >= MIN_PHASE_CELLS else None
