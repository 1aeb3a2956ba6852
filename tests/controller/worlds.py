"""Small made worlds for controller tests: sidecars as bins, learners as steps."""

from collections.abc import Iterable

from controller.engine import Engine
from controller.policies import policy_named
from controller.settings import ControllerSettings
from slackwater.events import BinRow, Decision, Finished, MergeCommand, Step

T0 = 1_750_000_000_000_000
BIN_US = 250_000
STEP_US = 50_000


def bins(
    sidecar: str, counts: Iterable[int], *, start_us: int = T0, in_system: int = 2
) -> list[BinRow]:
    """One row a bin: so many arrivals, each finished within its bin, `in_system` at the sample."""
    return [
        BinRow(
            sidecar=sidecar,
            start_us=start_us + i * BIN_US,
            finished=count,
            e2e_sum_s=0.4 * count,
            samples=2,
            in_system=in_system,
            sample_us=start_us + (i + 1) * BIN_US - 1,
            finished_after_sample=0,
        )
        for i, count in enumerate(counts)
    ]


def steps(learner: str, number: int, *, last_merge: int = 0, first: int = 1) -> list[Step]:
    """Steps of 50 ms from T0 on."""
    return [
        Step(
            run_id="r",
            at_us=T0 + i * STEP_US,
            learner=learner,
            step=i,
            loss=4.0 - i / 1000,
            tokens=1000,
            step_time_s=STEP_US / 1e6,
            steps_since_merge=i - last_merge,
            tokens_since_merge=1000 * (i - last_merge),
        )
        for i in range(first, first + number)
    ]


def finished(command: MergeCommand, at_us: int, seconds: float = 1.0) -> list[Finished]:
    """Every participant's report that it did the merge."""
    return [
        Finished(
            run_id="r",
            at_us=at_us,
            group="default",
            learner=learner,
            merge_id=command.merge_id,
            step=command.at_step,
            seconds=seconds,
            bytes_exchanged=4,
        )
        for learner in command.participants
    ]


def engine(*policies: str, **settings: object) -> Engine:
    """An engine with a corridor of 100 to 400 steps (5 to 20 s)."""
    values = {"min_gap_steps": 100, "max_gap_steps": 400, "window_s": 2.0, **settings}
    return Engine(
        ControllerSettings(**values),  # type: ignore[arg-type]
        [policy_named(p) for p in policies or ("wa_forecast",)],
        run_id="r",
    )


def run(
    made: Engine, observations: Iterable[object], until_s: float
) -> list[tuple[Decision, MergeCommand | None]]:
    """Feed everything, then decide up to `until_s` after T0."""
    for observation in observations:
        made.observe(observation)  # type: ignore[arg-type]
    return list(made.advance(T0 + round(until_s * 1e6)))
