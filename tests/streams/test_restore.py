"""A stage restored from the log knows no more than the one that was killed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from controller.settings import ControllerSettings
from slackwater.events import Accepted, Finished, Heartbeat, MergeReport, Started, Step
from slackwater.settings import RunSettings
from slackwater.topics import LEARNERS, MERGES
from streams.restore import restore_stage
from streams.runlog import RunLog
from streams.service import build_stage
from streams.settings import StreamSettings
from streams.stage import DecisionStage

T0 = 1_750_000_000_000_000
RUN = RunSettings(bootstrap="none:1", run_id="r", group="g")
CONTROLLER = ControllerSettings(group="g", expect_learners=1)
SETTINGS = StreamSettings(run=RUN, controller=CONTROLLER)


def step(at_ms: int, reports: int) -> Step:
    at_us = T0 + 1000 * at_ms
    about = {"run_id": "r", "at_us": at_us, "learner": "x", "group": "g", "reports_sent": reports}
    return Step(**about, step=at_ms, steps_since_merge=at_ms, step_time_s=0.1)


def beat(at_ms: int, reports: int, *, final: bool = False) -> Heartbeat:
    at_us = T0 + 1000 * at_ms
    about = {"run_id": "r", "at_us": at_us, "learner": "x", "group": "g"}
    return Heartbeat(**about, reports_sent=reports, final=final)


def merge(merge_id: str, *at_ms: int) -> list[MergeReport]:
    """Its reports so far: accepted, started, finished."""
    made: list[MergeReport] = []
    for kind, ms in zip((Accepted, Started, Finished), at_ms, strict=False):
        ended = {"seconds": 0.5, "bytes_exchanged": 4} if kind is Finished else {}
        about = {"run_id": "r", "at_us": T0 + 1000 * ms, "group": "g", "learner": "x"}
        made.append(kind(**about, merge_id=merge_id, step=ms, **ended))
    return made


def since_t0_ms(stage: DecisionStage) -> int:
    watermark_us = stage.progress.watermark_us()
    assert watermark_us is not None
    return (watermark_us - T0) // 1000


@pytest.mark.parametrize(
    ("said", "in_a_message"),
    [
        pytest.param(
            [beat(500, 0), step(1000, 0), beat(2500, 2), step(5000, 3), beat(6000, 3)],
            1,
            id="heartbeats-between-steps",
        ),
        pytest.param(
            [beat(500, 0), step(1000, 0), beat(2500, 2), step(5000, 3), beat(6000, 3)],
            3,
            id="several-in-a-message",
        ),
        pytest.param(
            [step(1000, 0), step(5000, 3), step(5500, 0), step(6000, 0)],
            1,
            id="killed-and-started-anew",
        ),
        pytest.param(
            [step(1000, 0), beat(5000, 3, final=True), step(5500, 0), step(6000, 0)],
            1,
            id="left-and-came-again",
        ),
    ],
)
def test_a_restored_stage_waits_for_the_report_that_the_killed_one_waited_for(
    log_path: Path, said: Sequence[Step | Heartbeat], in_a_message: int
) -> None:
    """The newest step tells of one report more than is here, and time must not go on to it."""
    reports = merge("m1", 2000, 2100, 4000)
    outstanding = (said[-1].reports_sent or 0) + 1
    said = [*said, step(7000, outstanding)]
    live, restored = build_stage(SETTINGS), build_stage(SETTINGS)
    for event in sorted([*said, *reports], key=lambda e: e.at_us):
        live.observe(event)
    with RunLog(log_path, "r") as log:
        for topic, events in ((LEARNERS, said), (MERGES, reports)):
            for first in range(0, len(events), in_a_message):
                message = list(events[first : first + in_a_message])
                log.append(message, topic=topic.name(), partition=0, offset=first)
        log.commit()
        restore_stage(log, restored, "g")
    assert since_t0_ms(live) == since_t0_ms(restored) == 5999
    (late,) = merge("m2", 6500)
    for stage in (live, restored):
        stage.observe(late)
        assert since_t0_ms(stage) == 6999
