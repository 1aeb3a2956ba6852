"""The gate over pairs of measured runs: a policy and its control on one load, block by block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.evidence import gate_figures
from calibration.gate import ALPHA, MIN_RUNS, Figure, RunFigures, Step, envelope_step, mean_p05
from calibration.live.score import LiveScored
from calibration.paired.order import Drift, drift_of, order_step
from calibration.paired.outcome import ByArm, RunOutcome, by_arm, differing, pairs
from calibration.phase import MIN_CELLS, PhaseLock, phase_lock
from calibration.power import Plan, detectable, plan
from calibration.signflip import sign_flip
from calibration.verdict import Name, Verdict, claim_first, judge
from slackwater.errors import InputError
from slackwater.policies import CONTROL, NO_POLICY

FIXED = "fixed_h"
WHOLE = "whole trial"
MOST_RUNS = 512
Pair = tuple[RunOutcome, RunOutcome]


@dataclass(frozen=True, slots=True)
class Asked:
    """How a trial is judged.

    Attributes:
        claim: the policy named beforehand; None corrects all for how many there are.
        least_gain: share of the control's violations below which a gain is worth no claim.
        run_s: length of a run.
        cell_s: length of a cell of `RunOutcome.counts`.
        left: runs of the trial that are still to be played; a part of it claims nothing.
        by_excess: what counts is what windows added, which is 0 where nobody merged.
    """

    claim: str | None
    least_gain: float
    run_s: float
    cell_s: float
    left: int = 0
    by_excess: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and what else a reader of it should know.

    Attributes:
        verdict: of the gate.
        differing: blocks whose control made another number of merges; they count all the same.
        needed: what would show a gain as large as the one seen, in 4 of 5 trials; None where none
            was seen or there are too few runs to tell.
        detectable_pp: the least gain that so many runs show as often; None for too few.
    """

    verdict: Verdict
    differing: list[int]
    needed: Plan | None
    detectable_pp: float | None


def judge_pairs(
    outcomes: Sequence[RunOutcome],
    windows: Mapping[str, Sequence[LiveScored]],
    asked: Asked,
    rng: np.random.Generator,
) -> list[Judged]:
    """A verdict for each policy that has a pair; the claimed one first.

    Args:
        outcomes: every run.
        windows: by policy, its own runs scored by where their windows stood among the arrivals.
        asked: how.
        rng: of tests of many runs and of the planning.

    Raises `InputError` without a pair, or for a claim of a policy that has none.
    """
    arms = by_arm(outcomes)
    found = {arm: pairs(arms, arm, CONTROL + arm) for arm in arms if CONTROL + arm in arms}
    found = {policy: runs for policy, runs in found.items() if runs}
    if not found:
        msg = "no policy has a run and its control yet; there is nothing to judge"
        raise InputError(msg)
    if asked.claim is not None and asked.claim not in found:
        msg = f"--claim {asked.claim} has no run beside its control; there are {', '.join(found)}"
        raise InputError(msg)
    effect, phases = effect_of(arms, rng), _phases(arms, asked.cell_s)
    # Where nobody merges there is no excess, and no later place adds any.
    merging = [one for one in outcomes if not (asked.by_excess and one.arm == NO_POLICY)]
    drift = drift_of(merging, rng)

    def judged(named: Mapping[str, Sequence[Pair]]) -> list[Verdict]:
        return judge(
            {policy: [_figures(pair, arms) for pair in runs] for policy, runs in named.items()},
            {policy: _load(policy, runs, rng) for policy, runs in named.items()},
            phases,
            None,
            least_gain=asked.least_gain,
            measured={p: (effect, envelope_of(windows.get(p, ()))) for p in named},
            rng=rng,
        )

    return [
        _with_power(
            _measured(
                _whole(_in_order(verdict, drift, found[verdict.policy], rng), len(outcomes), asked)
            ),
            found[verdict.policy],
            asked,
            rng,
        )
        for verdict in claim_first(judged, found, asked.claim)
    ]


def effect_of(arms: ByArm, rng: np.random.Generator) -> Step:
    """Do merges at random moments raise violations here, above those of runs without any?"""
    name, nobody = "effect", arms.get(NO_POLICY, {})
    controls: dict[int, list[float]] = {}
    for arm, runs in arms.items():
        if arm.startswith(CONTROL):
            for block in runs.keys() & nobody.keys():
                controls.setdefault(block, []).append(runs[block].violations_pp)
    raised = [float(np.mean(controls[b])) - nobody[b].violations_pp for b in sorted(controls)]
    if not raised:
        return Step(name, None, {}, "no run without merges; whether they harm was not measured")
    test = sign_flip(raised, "two-sided", rng)
    figures = {"excess_pp": test.mean, "p_value": test.p_value, "n": test.n}
    said = f"merges at random moments add {test.mean:.2f} pp of violations"
    if test.n < MIN_RUNS:
        reason = f"{said}; {test.n} blocks cannot show it, {MIN_RUNS} are needed"
        return Step(name, None, dict(figures), reason)
    passed = test.mean > 0 and test.p_value <= ALPHA
    shown = "" if passed else ": not shown to harm"
    return Step(name, passed, dict(figures), f"{said}, p = {test.p_value:.4f}{shown}")


def envelope_of(scored: Sequence[LiveScored]) -> Step:
    """Do fewer measured requests arrive in the policy's windows than in 95% of random ones?"""
    if not scored:
        return Step("envelope", None, {}, "its windows could not be laid beside random ones")
    runs = [gate_figures(one.run) for one in scored]
    step = envelope_step(runs, mean_p05([one.random_pp for one in scored]))
    return replace(step, reason=f"requests that arrive in windows: {step.reason}")


def _figures(pair: Pair, arms: ByArm) -> RunFigures:
    """What the gate takes: one drawn schedule was played, which is a mean without a spread."""
    ours, control = pair
    fixed = arms.get(FIXED, {}).get(ours.block) if ours.arm != FIXED else None
    return RunFigures(
        run=f"block {ours.block}",
        requests=ours.requests,
        policy_pp=ours.violations_pp,
        random_mean_pp=control.violations_pp,
        random_p05_pp=control.violations_pp,
        fixed_pp=None if fixed is None else fixed.violations_pp,
    )


def _load(policy: str, runs: Sequence[Pair], rng: np.random.Generator) -> LoadMatch:
    arms = {
        policy: _served([ours for ours, _ in runs]),
        CONTROL + policy: _served([control for _, control in runs]),
    }
    return load_match(arms, CONTROL + policy, rng=rng)


def _served(runs: Sequence[RunOutcome]) -> ArmLoad:
    tokens = [None if run.tokens is None else float(run.tokens) for run in runs]
    return ArmLoad([float(run.requests) for run in runs], tokens)


def _phases(arms: ByArm, cell_s: float) -> PhaseLock | None:
    """Of the blocks' loads, each once."""
    loads = {block: run.counts for runs in arms.values() for block, run in runs.items()}
    cells = min(len(row) for row in loads.values())
    if cells < MIN_CELLS:
        return None
    table: NDArray[np.float64] = np.array([row[:cells] for row in loads.values()], np.float64)
    return phase_lock(table, cell_s)


def _in_order(
    verdict: Verdict, drift: Drift | None, runs: Sequence[Pair], rng: np.random.Generator
) -> Verdict:
    """The verdict with the step `order`, which can forbid a gain and never give one.

    Where it cannot be told, the gain may be a server's that grew slower: that is no gain either.
    """
    step = order_step(drift, runs, rng)
    steps = (*verdict.steps, step)
    if verdict.verdict != "placement gain" or step.passed:
        return replace(verdict, steps=steps)
    over_fixed = next(one for one in verdict.steps if one.name == "fixed period")
    name: Name = "budget only" if over_fixed.passed else "no claim"
    return replace(verdict, verdict=name, steps=steps, reason=step.reason)


def _whole(verdict: Verdict, played: int, asked: Asked) -> Verdict:
    """The verdict with the step `whole trial`: 5% are those of one look, at all its runs."""
    runs = played + asked.left
    figures: dict[str, Figure] = {"runs": played, "planned": runs}
    if asked.left <= 0:
        step = Step(WHOLE, True, figures, f"all {runs} runs are there")
        return replace(verdict, steps=(*verdict.steps, step))
    claims = verdict.verdict in {"placement gain", "budget only"}
    so_far = f"; so far it would be {verdict.verdict}" if claims else ""
    reason = f"an interim look, at {played} of {runs} runs: 5% are for the whole trial{so_far}"
    steps = (*verdict.steps, Step(WHOLE, False, figures, reason))
    if not claims:
        return replace(verdict, steps=steps)
    return replace(verdict, verdict="no claim", steps=steps, reason=reason)


def _measured(verdict: Verdict) -> Verdict:
    """No serving model had a part in it."""
    claimed = verdict.verdict == "placement gain"
    return replace(verdict, tier="measured sidecar" if claimed else "none")


def _with_power(
    verdict: Verdict, runs: Sequence[Pair], asked: Asked, rng: np.random.Generator
) -> Judged:
    gains = [control.violations_pp - ours.violations_pp for ours, control in runs]
    least = asked.least_gain * float(np.mean([control.violations_pp for _, control in runs]))
    needed = least_seen = None
    if len(gains) >= MIN_RUNS:
        least_seen = detectable(gains, len(gains), rng, least_pp=least)
        if verdict.gain_pp > 0:
            (needed,) = plan(
                gains,
                asked.run_s,
                verdict.gain_pp,
                rng,
                multiples=(1,),
                least_pp=least,
                max_runs=MOST_RUNS,
            )
    return Judged(verdict, differing(runs), needed, least_seen)
