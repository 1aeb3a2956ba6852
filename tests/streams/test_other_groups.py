"""What a job, its log and its consumer group do with events of another merge group."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.settings import ControllerSettings
from slackwater.clock import RunClock
from slackwater.codec import encode_lines
from slackwater.errors import InputError
from slackwater.events import Bins, Decision, Event, Finished, MergeCommand, Pause, Step
from slackwater.settings import RunSettings
from slackwater.topics import BINS, COMMANDS, DECISIONS, LEARNERS, MERGES, Topic
from streams.job import Job, Message
from streams.metrics import Metrics
from streams.offsets import consumer_group
from streams.restore import DECIDED_ON, logged, restore_stage
from streams.runlog import Run, RunLog
from streams.service import StreamProcess, build_stage
from streams.settings import StreamSettings
from streams.sink import DuckDBLog

T0 = 1_750_000_000_000_000
RUN = RunSettings(bootstrap="none:1", run_id="r", group="ours")
SETTINGS = StreamSettings(run=RUN, controller=ControllerSettings(group="ours"))


def one_of_each(group: str) -> list[tuple[Topic, Event]]:
    about = {"run_id": "r", "at_us": T0, "group": group}
    return [
        (LEARNERS, Step(**about, learner="a", step=3, step_time_s=0.1, steps_since_merge=3)),
        (BINS, Bins(**about, partition=0, bin_s=0.25, watermarks_us={"s": T0})),
        (COMMANDS, Pause(**about)),
        (
            COMMANDS,
            MergeCommand(
                **about, merge_id="m1", at_step=9, deadline_us=T0, window_s=8.0, reason="x",
                participants=["a"],
            ),
        ),
        (
            DECISIONS,
            Decision(
                **about, policy="wa_forecast", active=True, action="wait", reason="h_min",
                window_s=8.0, learners=2,
            ),
        ),
        (
            MERGES,
            Finished(
                **about, learner="a", merge_id="m1", step=9, seconds=0.5, bytes_exchanged=8
            ),
        ),
    ]  # fmt: skip


TABLES = ("learner_steps", "bins", "commands", "decisions", "merges")


def groups_in(log: RunLog) -> dict[str, set[str]]:
    return {
        table: {group for (group,) in log.rows(f'FROM {table} SELECT "group"')} for table in TABLES
    }


def test_only_its_own_group_is_logged_and_counted_and_offsets_go_on(log_path: Path) -> None:
    metrics = Metrics(CollectorRegistry())
    with RunLog(log_path, "r") as log:
        sink = DuckDBLog(log, RUN, metrics)
        job = Job(SETTINGS, RunClock(T0, 0, wall_us=lambda: 0), metrics, None, sink)
        job.stage = build_stage(SETTINGS)
        pairs = zip(one_of_each("theirs"), one_of_each("ours"), strict=True)
        for offset, ((topic, foreign), (_, own)) in enumerate(pairs):
            job.handle(Message(topic, 0, 2 * offset, encode_lines([foreign, own])))
            job.handle(Message(topic, 0, 2 * offset + 1, encode_lines([foreign])))
        asyncio.run(sink.commit())
        assert groups_in(log) == {table: {"ours"} for table in TABLES}
        stored = log.stored_offsets()
    assert {stored[topic.name(), 0] for topic in (MERGES, LEARNERS)} == {2, 12}
    assert metrics.by_label("merges", "phase") == {"finished": 1}
    assert metrics.by_label("merges", "group") == {"ours": 1}


def test_a_stage_restored_from_a_log_of_both_groups_knows_its_own_alone(log_path: Path) -> None:
    """An earlier release logged whatever was on the topics."""
    with RunLog(log_path, "r") as log:
        for group in ("theirs", "ours"):
            for number, (topic, event) in enumerate(one_of_each(group)):
                offset = number + (100 if group == "ours" else 0)
                log.append([event], topic=topic.name(), partition=0, offset=offset)
        nameless = Step(run_id="r", at_us=T0, learner="old", step=1, steps_since_merge=1)
        log.append([nameless], topic=LEARNERS.name(), partition=0, offset=200)
        log.commit()
        assert groups_in(log)["bins"] == {"ours", "theirs"}
        found = [event for kind in DECIDED_ON for _, event in logged(log, kind, "ours")]
        assert {event.group for event in found} == {"ours", None}
        stage = build_stage(SETTINGS)
        restore_stage(log, stage, "neither")
        assert stage._known == {"learner old"}


def test_a_log_of_another_group_is_refused_and_left_as_it_was(log_path: Path) -> None:
    theirs = {"stream": {"run": {"group": "theirs"}}}
    with RunLog(log_path, "r") as log:
        log.start_run(Run(run_id="r", created_us=T0, settings=theirs))
        log.finish_run("r", "complete", T0)
    settings = msgspec.structs.replace(SETTINGS, db=log_path)
    process = StreamProcess(settings, RunClock.real(), lambda: None)
    with pytest.raises(InputError, match="group 'theirs'; this job serves group 'ours'") as refused:
        process.run()
    assert "--db" in str(refused.value)
    # It is closed again, and says what it said.
    with RunLog(log_path, "r") as log:
        [(status, settings_then)] = log.rows("SELECT status, settings FROM runs")
    assert (status, msgspec.json.decode(settings_then)) == ("complete", theirs)


def test_consumer_groups_hold_the_merge_group_and_are_never_shared() -> None:
    def name(group: str, run_id: str) -> str:
        run = RunSettings(bootstrap="none:1", run_id=run_id, group=group)
        return consumer_group(run, ["count"])

    named = [("a", "r"), ("b", "r"), ("a", "b-r"), ("a-b", "r"), ("a/b", "r"), ("a", "b/r")]
    assert len({name(*one) for one in named}) == len(named)
    assert name("a", "r") == "slackwater/a/r/count"
