"""What a trial plays: blocks of runs on one load each, and in which order."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from calibration.gate import MIN_RUNS
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from replay_producer.generators import Shape, check_regime, generate
from sidecar.load import Lengths, Scheduled, scheduled
from slackwater.errors import InputError
from slackwater.policies import CONTROL, NO_POLICY

REGIME = "aperiodic"
USUAL = Shape()
OVERHEAD_S = 30.0
"""About what a run takes besides its load: parts start, the last merge ends, parts end."""
WANTED_BLOCKS = 8
SHORTEST_RUN_S = 45.0
"""Four merges or so, at the usual corridor."""

Count = Literal["violations", "excess"]
Positive = Annotated[float, Meta(gt=0, lt=1e6)]
AtLeastOne = Annotated[int, Meta(ge=1)]


def control_of(policy: str) -> str:
    """The arm of matched random schedules with as many merges as this policy made."""
    return CONTROL + policy


def controlled(arm: str) -> str | None:
    """The policy whose control an arm is; None for an arm that is no control."""
    return arm.removeprefix(CONTROL) if arm.startswith(CONTROL) else None


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run to play.

    Attributes:
        block: its runs have one load.
        place: in the order of the block, from 0.
        arm: a policy, `random:POLICY`, or `none`.
    """

    block: int
    place: int
    arm: str


class TrialDesign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is drawn at random comes from here and `seed`.

    Attributes:
        policies: those judged; each has its control in every block.
        baselines: further arms: policies without a control, or `none`, where nobody merges.
        blocks: independent runs of each arm.
        run_s: seconds of load in a run.
        regime: of the generated load; each block has its own seed of it.
        quiet_s, busy_s: mean seconds of quiet between aperiodic bursts, and of such a burst.
        rate_per_s: mean arrivals.
        prompt_tokens, output_tokens: of every request.
        slo_s: a request that takes longer, or finds no answer, violates; fixed before the first.
        timeout_s: a request is given up after so long.
        window_s: about how long a merge takes here. The forecast's half-life, the stopping time and
            the window that is reckoned with before one is measured are those of windows of 8 s,
            scaled to this one.
        learners: how many merge together.
        parameters: of each one's model.
        step_s: an inner step takes at least this long; the rest is slept, standing for an
            accelerator of the learner's own.
        min_gap_steps, max_gap_steps: the corridor, inner steps; `fixed_h` merges in its middle.
        assignments: further settings of the controller, `NAME=VALUE`, in every arm; they win.
        seed: of loads, orders and drawn schedules.
        count: what is judged: all `violations`, or the `excess` of them that the windows added,
            told by the other runs of the block.
        least_gain_percent: of the control's violations: a gain below that is no claim.
    """

    policies: tuple[str, ...] = ("slack", "wa_forecast")
    baselines: tuple[str, ...] = ("fixed_h", NO_POLICY)
    blocks: AtLeastOne = 8
    run_s: Positive = 150.0
    regime: str = REGIME
    quiet_s: Positive = USUAL.quiet_s
    busy_s: Positive = USUAL.busy_s
    rate_per_s: Positive = 6.0
    prompt_tokens: AtLeastOne = 64
    output_tokens: AtLeastOne = 16
    slo_s: Positive = 0.3
    timeout_s: Positive = 30.0
    window_s: Positive = 2.0
    learners: Annotated[int, Meta(ge=2, le=64)] = 4
    parameters: AtLeastOne = 16_000_000
    step_s: Annotated[float, Meta(ge=0, lt=1e6)] = 0.3
    min_gap_steps: AtLeastOne = 12
    max_gap_steps: AtLeastOne = 50
    assignments: tuple[str, ...] = ()
    seed: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    count: Count = "violations"
    least_gain_percent: Annotated[float, Meta(ge=0, lt=100)] = 5.0

    def __post_init__(self) -> None:
        check_regime(self.regime)
        if self.regime != REGIME and (self.quiet_s, self.busy_s) != (USUAL.quiet_s, USUAL.busy_s):
            msg = f"--quiet-s and --busy-s shape {REGIME} bursts; leave them out of {self.regime}"
            raise InputError(msg)
        if not self.policies:
            msg = "--policies names no policy; there is nothing to judge"
            raise InputError(msg)
        nobody = {NO_POLICY}
        for name in (*self.policies, *(set(self.baselines) - nobody)):
            if name not in POLICIES:
                msg = f"there is no policy {name!r}; choose from {', '.join(POLICIES)}"
                raise InputError(msg)
        if len(set(self.policies)) < len(self.policies):
            msg = f"--policies {','.join(self.policies)} names a policy twice"
            raise InputError(msg)
        if self.min_gap_steps > self.max_gap_steps:
            msg = (
                f"--min-gap-steps {self.min_gap_steps} is above --max-gap-steps "
                f"{self.max_gap_steps}; the corridor needs min <= max"
            )
            raise InputError(msg)
        least_s = self.min_gap_steps * self.step_s + self.window_s
        if self.run_s < least_s:
            msg = (
                f"--run-s {self.run_s:g} has no room for a merge: H_min and a window take "
                f"{least_s:g} s; take longer runs, or smaller --min-gap-steps"
            )
            raise InputError(msg)

    @property
    def free(self) -> tuple[str, ...]:
        """The arms whose place in a block is free: all but the controls."""
        return tuple(dict.fromkeys((*self.policies, *self.baselines)))

    @property
    def lasts_s(self) -> float:
        """About how long the whole trial takes."""
        return self.runs * (self.run_s + OVERHEAD_S)

    @property
    def runs(self) -> int:
        """Of the whole trial."""
        return self.blocks * (len(self.free) + len(self.policies))

    def planned(self) -> Iterator[PlannedRun]:
        """All runs, in order."""
        for block in range(self.blocks):
            for place, arm in enumerate(self.order(block)):
                yield PlannedRun(block=block, place=place, arm=arm)

    def order(self, block: int) -> list[str]:
        """The arms of a block in random order, each control somewhere after its policy.

        How many merges a control is to make is known once its policy has run.
        """
        rng = self.rng(block, 0)
        arms = [self.free[place] for place in rng.permutation(len(self.free))]
        for place in rng.permutation(len(self.policies)):
            policy = self.policies[place]
            after = arms.index(policy) + 1
            arms.insert(int(rng.integers(after, len(arms) + 1)), control_of(policy))
        return arms

    @property
    def shape(self) -> Shape:
        """Of the loads of its runs."""
        return Shape(quiet_s=self.quiet_s, busy_s=self.busy_s).within(self.run_s)

    def load_seed(self, block: int) -> int:
        """The seed of a block's load; every arm of it has the same."""
        return int(self.rng(block, 1).integers(1 << 31))

    def schedule(self, block: int) -> list[Scheduled]:
        """The requests of a block."""
        seed = self.load_seed(block)
        trace = generate(self.regime, self.run_s, self.rate_per_s, seed, self.shape)
        lengths = Lengths(prompt_tokens=self.prompt_tokens, output_tokens=self.output_tokens)
        return list(scheduled(trace, lengths))

    def draws(self, block: int, policy: str) -> np.random.Generator:
        """What draws the schedule of a policy's control in a block."""
        return self.rng(block, 2, self.policies.index(policy))

    def settings(self, steps: tuple[int, ...] | None) -> tuple[str, ...]:
        """Settings of the stream job, `NAME=VALUE`; `steps` are those of a drawn schedule."""
        usual = ControllerSettings.for_windows_of(self.window_s)
        own = [
            f"controller.window_s={usual.window_s:g}",
            f"controller.half_life_s={usual.half_life_s:g}",
            f"controller.stopping_tau_s={usual.stopping_tau_s:g}",
            # The learners are alike, and drawn schedules name one step for all of them.
            "controller.step_time_spread=9",
            f"controller.fixed_steps={(self.min_gap_steps + self.max_gap_steps) // 2}",
            *self.assignments,
        ]
        if steps is not None:
            own.append(f"controller.scheduled_steps={list(steps)}")
        return tuple(own)

    def rng(self, *which: int) -> np.random.Generator:
        """A generator of its own for each thing that is drawn."""
        return np.random.default_rng([self.seed, *which])


def fitting(minutes: float, design: TrialDesign, *, shorten: bool = False) -> TrialDesign:
    """The design with as many blocks as fit into so many minutes.

    With `shorten` its runs become shorter, of 45 s at the least, where else fewer blocks fitted
    than 8, or than the 6 that a claim takes. Raises `InputError` for less than one block takes.
    """
    runs = design.runs // design.blocks
    total_s = minutes * 60 if 0 < minutes < 1e8 else 0.0

    def blocks_of(run_s: float) -> int:
        return int(total_s / (runs * (run_s + OVERHEAD_S)) + 0.01)

    run_s = design.run_s
    if shorten and blocks_of(run_s) < WANTED_BLOCKS:
        for wanted in (WANTED_BLOCKS, MIN_RUNS):
            run_s = float(int(total_s / (wanted * runs) - OVERHEAD_S))
            if run_s >= SHORTEST_RUN_S:
                break
        run_s = min(design.run_s, max(run_s, SHORTEST_RUN_S))
    blocks = blocks_of(run_s)
    if blocks < 1:
        block_s = runs * (run_s + OVERHEAD_S)
        least = f"{block_s / 60:.1f} minutes"
        msg = f"--minutes is {minutes:g}; one block of these runs takes about {least}"
        raise InputError(msg)
    return msgspec.structs.replace(design, blocks=blocks, run_s=run_s)
