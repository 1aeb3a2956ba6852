"""Verdicts on live runs: the gate over what their logs hold, and nothing taken that they lack."""

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.evidence import gate_figures
from calibration.gate import RunFigures, mean_p05
from calibration.live.run import LiveRun
from calibration.live.score import LiveScored
from calibration.phase import MIN_CELLS, PhaseLock, phase_lock
from calibration.verdict import Verdict, claim_first, judge

BASELINE = "no merges"


def live_verdicts(
    scored: Sequence[LiveScored],
    unmerged: Sequence[LiveRun],
    claim: str | None,
    cell_s: float,
    rng: np.random.Generator,
    *,
    least_gain: float = 0.0,
) -> list[Verdict]:
    """A verdict for each policy; the claimed one for itself and first, the rest corrected.

    Args:
        scored: the runs with merges, of one policy or several.
        unmerged: runs without merges; those of a run's own load are its no-merge arm.
        claim: the policy named beforehand; None corrects all for how many there are.
        cell_s: length of a cell in seconds.
        rng: for sign-flip tests of many runs.
        least_gain: share of the matched random mean below which a gain is worth no claim.
    """
    by_policy: dict[str, list[LiveScored]] = {}
    for one in scored:
        by_policy.setdefault(one.run.policy, []).append(one)

    def judged(named: Mapping[str, Sequence[LiveScored]]) -> list[Verdict]:
        loads, phases = _loads(named, unmerged, rng), _phases(named, cell_s)
        evidence, p05_pp = _evidence(named), _p05(named)
        return judge(evidence, loads, phases, None, least_gain=least_gain, p05_pp=p05_pp, rng=rng)

    return claim_first(judged, by_policy, claim)


def _evidence(by_policy: Mapping[str, Sequence[LiveScored]]) -> dict[str, list[RunFigures]]:
    return {name: [gate_figures(one.run) for one in runs] for name, runs in by_policy.items()}


def _p05(by_policy: Mapping[str, Sequence[LiveScored]]) -> dict[str, float]:
    return {name: mean_p05([one.random_pp for one in runs]) for name, runs in by_policy.items()}


def arm_of(live: LiveRun, unmerged: Sequence[LiveRun]) -> list[LiveRun]:
    """The runs without merges that served this run's load."""
    return [run for run in unmerged if run.load == live.load]


def _loads(
    by_policy: Mapping[str, Sequence[LiveScored]],
    unmerged: Sequence[LiveRun],
    rng: np.random.Generator,
) -> dict[str, LoadMatch]:
    """Each policy's load against that of its no-merge arm; none where a run has no such arm."""
    found = {}
    for name, runs in by_policy.items():
        lives = [one.live for one in runs]
        if all(arm_of(live, unmerged) for live in lives):
            pairs = [_served(live, arm_of(live, unmerged)) for live in lives]
            arms = {
                name: _arm([ours for ours, _ in pairs]),
                BASELINE: _arm([theirs for _, theirs in pairs]),
            }
            found[name] = load_match(arms, BASELINE, rng=rng)
    return found


Load = tuple[float, float | None]


def _served(live: LiveRun, arm: Sequence[LiveRun]) -> tuple[Load, Load]:
    """Requests and tokens of a run and of its arm's mean, over the load that all of them have."""
    seconds = min(run.span_s for run in (live, *arm))
    loads = [_amount(run, seconds) for run in arm]
    tokens = [known for _, known in loads if known is not None]
    mean = float(np.mean(tokens)) if len(tokens) == len(loads) else None
    return _amount(live, seconds), (float(np.mean([number for number, _ in loads])), mean)


def _amount(run: LiveRun, seconds: float) -> Load:
    first = run.first(seconds)
    return float(first.sum()), None if run.tokens is None else float(run.tokens[first].sum())


def _arm(loads: Sequence[Load]) -> ArmLoad:
    return ArmLoad([number for number, _ in loads], [tokens for _, tokens in loads])


def _phases(by_policy: Mapping[str, Sequence[LiveScored]], cell_s: float) -> PhaseLock | None:
    """Runs of one policy on one load are one experiment; else their phases are looked at."""
    for name, runs in by_policy.items():
        loads = [one.live.load for one in runs]
        repeated = sorted({load for load in loads if loads.count(load) > 1})
        if repeated:
            reason = (
                f"{len(loads)} runs of {name} served {len(set(loads))} loads: {repeated[0]} came "
                "more than once; give each run another seed or trace"
            )
            return PhaseLock(None, None, None, False, reason)
    by_load = {one.live.load: one.counts for runs in by_policy.values() for one in runs}
    counts = list(by_load.values())
    cells = min(len(row) for row in counts)
    if cells < MIN_CELLS:
        return None
    return phase_lock(np.stack([row[:cells] for row in counts]), cell_s)
