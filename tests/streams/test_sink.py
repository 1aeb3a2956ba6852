import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slackwater.events import Decision, Load, MergeCommand, Request
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, DECISIONS, REQUESTS, Topic
from streams.job import Message
from streams.metrics import Metrics
from streams.restore import restore_counters
from streams.runlog import RunLog
from streams.sink import DuckDBLog

T0 = 1_750_000_000_000_000
RUN = RunSettings(bootstrap="none:1", run_id="r", group="g")


def decision(at_s: float, run_id: str = "r", group: str = "g") -> Decision:
    return Decision(
        run_id=run_id, at_us=T0 + round(at_s * 1e6), group=group, policy="slack", active=True,
        action="wait", reason="h_min", window_s=8.0, learners=2,
    )  # fmt: skip


def command(merge_id: str) -> MergeCommand:
    return MergeCommand(
        run_id="r", at_us=T0, group="g", merge_id=merge_id, at_step=9, deadline_us=T0,
        window_s=8.0, reason="x", participants=["a"],
    )  # fmt: skip


def append(sink: DuckDBLog, topic: Topic, offset: int, *events: Any) -> None:
    sink.append(Message(topic, 0, offset, b""), list(events), {}, None)


def open_sink(log: RunLog) -> DuckDBLog:
    return DuckDBLog(log, RUN, Metrics(CollectorRegistry()))


def test_decision_sent_again_after_a_restart_is_logged_once(log_path: Path) -> None:
    for start in (0, 10):
        with RunLog(log_path, "r") as log:
            sink = open_sink(log)
            append(sink, DECISIONS, start, decision(1.0), decision(2.0))
            append(sink, DECISIONS, start + 1, decision(2.0 + start))
            append(sink, COMMANDS, start, command("m1"))
            asyncio.run(sink.commit())
            ticks = log.rows("SELECT (at_us - ?) / 1e6 FROM decisions ORDER BY 1", [T0])
            commands = log.rows("SELECT merge_id FROM commands")
    assert ticks == [(1.0,), (2.0,), (12.0,)]
    assert commands == [("m1",)]


def test_older_decision_that_comes_after_a_newer_one_is_kept(log_path: Path) -> None:
    with RunLog(log_path, "r") as log:
        sink = open_sink(log)
        append(sink, DECISIONS, 0, decision(2.0))
        append(sink, DECISIONS, 1, decision(1.0))
        asyncio.run(sink.commit())
        assert len(log.rows("SELECT * FROM decisions")) == 2


@pytest.mark.parametrize("foreign", [{"run_id": "other"}, {"group": "other"}])
def test_foreign_decisions_hide_none_of_ours(log_path: Path, foreign: dict[str, str]) -> None:
    with RunLog(log_path, "r") as log:
        sink = open_sink(log)
        append(sink, DECISIONS, 0, decision(9.0, **foreign))
        append(sink, DECISIONS, 1, decision(1.0), decision(2.0))
        asyncio.run(sink.commit())
        assert len(log.rows("SELECT * FROM decisions")) == 3


def test_late_events_stay_out_of_the_bins_after_a_restart(log_path: Path) -> None:
    with RunLog(log_path, "r") as log:
        sink = open_sink(log)
        requests = [
            Request(
                run_id="r",
                at_us=T0 + at_us,
                sidecar="s",
                id=str(at_us),
                arrival_us=T0,
                status="ok",
                e2e_s=0.1,
            )
            for at_us in (10, 20)
        ]
        sink.append(Message(REQUESTS, 0, 0, b""), requests, {}, frozenset({1}))
        beat = Load(run_id="r", at_us=T0 + 900_000, sidecar="s", running=0, waiting=0)
        sink.append(Message(REQUESTS, 0, 1, b""), [beat], {}, frozenset())
        asyncio.run(sink.commit())
        [bins] = [c.close("r", "g") for c in restore_counters(log, "g", 0.25, 0.0).values()]
    assert bins is not None
    assert [row.finished for row in bins.rows] == [1]
