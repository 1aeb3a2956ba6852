import io
import shutil
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from rich.console import Console

from slackwater.testbed import plain, screen, snapshot
from slackwater.testbed.ending import closed_log, set_status
from slackwater.testbed.invocation import program
from slackwater.testbed.parts import PartError
from slackwater.testbed.plan import Plan
from slackwater.testbed.report import print_summary, problem_lines
from slackwater.testbed.status import Status
from slackwater.testbed.summary import Summary, summarize
from slackwater.testbed.supervisor import Outcome, Phase
from slackwater.testbed.watcher import acknowledged, logged

ORIGIN_US = 1_760_000_000_000_000
SAID = {"replay": {"acked": 5}, "learner-0": {"acked": 6}, "learner-1": {"acked": 6}}


def at(seconds: float) -> int:
    return ORIGIN_US + round(seconds * 1e6)


class Log:
    """A run log whose rows are written by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """One merge of two learners."""
        self.insert("runs", run_id="r", created_us=ORIGIN_US, policy="slack", status="running",
                    settings='{"slo_s": 1.0}')  # fmt: skip
        for number, (arrival, e2e) in enumerate([(1.0, 0.5), (10.5, 1.5), (20.0, 0.4)]):
            self.insert("requests", run_id="r", at_us=at(arrival + e2e), arrival_us=at(arrival),
                        e2e_s=e2e, status="ok", sidecar="sidecar-0", id=str(number),
                        late=False)  # fmt: skip
        for seq, second in enumerate((0.0, 22.0)):
            self.insert("loads", run_id="r", at_us=at(second), sidecar="sidecar-0", running=1,
                        waiting=0, seq=seq)  # fmt: skip
        self.insert("commands", type="merge", run_id="r", at_us=at(9), group="default",
                    merge_id="m1", at_step=200, window_s=8.0, reason="calm_enough",
                    participants=["learner-0", "learner-1"])  # fmt: skip
        for action, second in (("wait", 8.75), ("merge", 9.0)):
            self.insert("decisions", run_id="r", at_us=at(second), group="default",
                        policy="slack", active=True, action=action, reason=f"because_{action}",
                        window_s=8.0, learners=2, rate_per_s=3.0, gap_steps=190)  # fmt: skip
        for learner in ("learner-0", "learner-1"):
            for step in (199, 200):
                self.insert("learner_steps", run_id="r", at_us=at(9.5), learner=learner, step=step,
                            loss=2.5, steps_since_merge=step)  # fmt: skip
            self.merge(learner, "accepted", 9.2)
            self.merge(learner, "started", 10.0)
            self.merge(learner, "finished", 11.0, seconds=1.0, bytes_exchanged=4000,
                       parameters=1000, digest="d")  # fmt: skip
            self.insert("heartbeats", run_id="r", at_us=at(12), learner=learner)

    def insert(self, table: str, **values: Any) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" for _ in values)
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608
                list(values.values()),
            )

    def merge(self, learner: str, phase: str, second: float, **values: Any) -> None:
        self.insert("merges", type=phase, run_id="r", at_us=at(second), group="default",
                    learner=learner, merge_id="m1", step=200, **values)  # fmt: skip

    def change(self, statement: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(statement)

    def summary(
        self,
        said: dict[str, Any] = SAID,
        status: str = "complete",
        failure: PartError | None = None,
    ) -> Summary:
        outcome = Outcome(status, failure, said, 20.0)
        with closed_log(self.path) as query:
            return summarize(Plan(run_id="r", db=self.path, regime="constant"), outcome, query, 30)


def printed(summary: Summary, width: int = 120) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    print_summary(console, summary)
    return console.export_text()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, empty_log: Path) -> Path:
    """The log of one merge, filled once for all tests."""
    path = Path(shutil.copy(empty_log, tmp_path_factory.mktemp("filled") / "r.duckdb"))
    Log(path).fill()
    return path


@pytest.fixture
def log(filled: Path, tmp_path: Path) -> Log:
    return Log(Path(shutil.copy(filled, tmp_path / "r.duckdb")))


def test_a_whole_run_is_complete_and_its_figures_are_those_of_the_log(log: Log) -> None:
    summary = log.summary()

    assert (summary.status, summary.problems) == ("complete", [])
    assert summary.slo["inside"]["violations"] == 1
    assert summary.slo["outside"] | {"requests": 2, "violations": 0} == summary.slo["outside"]
    assert summary.merges is not None
    assert summary.merges["finished_by_all"] == summary.merges["commanded"] == 1
    assert summary.merges["bytes_exchanged"] == summary.merges["bytes_expected"] == 8000
    assert {row["reason"]: row["decisions"] for row in summary.decisions} == {
        "because_wait": 1, "because_merge": 1,
    }  # fmt: skip
    assert summary.events is not None
    assert (summary.events["lost"], summary.events["dead"], summary.events["late"]) == (0, 0, 0)
    assert summary.rows["requests"] == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM requests WHERE id = '1'", "1 acknowledged events are not in the run log"),
        ("INSERT INTO dead_letters (run_id) VALUES ('r')", "1 dead letters"),
        (
            "DELETE FROM merges WHERE type = 'finished' AND learner = 'learner-1'",
            "1 merges were not finished by every learner",
        ),
        ("UPDATE merges SET step = 201 WHERE learner = 'learner-1'", "1 merges were made at diff"),
        ("UPDATE merges SET digest = 'e' WHERE learner = 'learner-1'", "1 merges left different"),
        (
            "UPDATE merges SET bytes_exchanged = 1 WHERE learner = 'learner-1'",
            "1 merges exchanged other bytes",
        ),
    ],
)
def test_a_run_that_contradicts_itself_is_not_complete(log: Log, change: str, problem: str) -> None:
    log.change(change)

    summary = log.summary()

    assert summary.status == "failed"
    assert any(problem in found for found in summary.problems)


def test_a_loss_of_the_replay_is_not_hidden_by_a_surplus_of_the_learners(log: Log) -> None:
    said = {**SAID, "replay": {"acked": 7}, "learner-0": {"acked": 0}}

    summary = log.summary(said)

    assert summary.events is not None
    assert summary.events["lost"] == 2


def test_a_run_whose_parts_do_not_say_what_was_acknowledged_is_not_complete(log: Log) -> None:
    summary = log.summary({})

    assert summary.status == "failed"
    assert "nobody said" in summary.problems[0]


def test_a_skipped_merge_is_told_by_its_cause_and_fails_nothing(log: Log) -> None:
    log.change("DELETE FROM merges")
    log.merge("learner-0", "skipped", 9.1, reason="late: this learner is at step 210")
    log.merge("learner-1", "skipped", 9.1, reason="late: this learner is at step 211")

    summary = log.summary({**SAID, "learner-0": {"acked": 3}, "learner-1": {"acked": 5}})

    assert summary.problems == []
    assert summary.merges is not None
    assert (summary.merges["skipped"], summary.merges["skipped_merges"]) == ({"late": 2}, 1)
    assert "2 reports (1 merge): 2 late" in printed(summary)


@pytest.mark.parametrize(
    ("status", "row"),
    [("complete", ("complete", None)), ("interrupted", ("failed", "interrupted"))],
)
def test_the_run_row_says_complete_only_when_the_run_was(
    log: Log, status: str, row: tuple[str, str | None]
) -> None:
    set_status(log.path, log.summary(status=status))

    with duckdb.connect(str(log.path)) as connection:
        assert connection.sql("SELECT status, status_reason FROM runs").fetchall() == [row]


def test_an_interrupted_run_is_called_the_same_on_the_screen_and_in_the_log(log: Log) -> None:
    summary = log.summary(status="interrupted")
    set_status(log.path, summary)

    with duckdb.connect(str(log.path)) as connection:
        ((said,),) = connection.sql("SELECT status || ' / ' || status_reason FROM runs").fetchall()
    assert f"run r  {said}" in printed(summary)


def test_rows_of_several_types_add_up_before_the_readers_eyes(log: Log) -> None:
    log.insert("commands", type="pause", run_id="r", at_us=at(25), group="default")

    text = printed(log.summary(), width=300)

    assert "commands 2 (1 merge, 1 pause)" in text
    assert "merges 6 (2 accepted, 2 finished, 2 started)" in text


def test_a_failure_names_the_part_its_last_words_and_its_log(log: Log) -> None:
    failure = PartError("stream", "ended with exit code 3", ["no space left"], None)
    summary = msgspec.structs.replace(log.summary(status="failed", failure=failure), logs="/logs")

    assert problem_lines(summary) == [
        "slackwater: stream ended with exit code 3",
        "  stream: no space left",
        "  logs of all parts: /logs",
    ]


def test_a_run_that_never_made_a_log_still_has_a_summary(tmp_path: Path) -> None:
    db = tmp_path / "none.duckdb"
    failure = PartError("the broker", "did not start", [], None)
    with closed_log(db) as query:
        summary = summarize(
            Plan(run_id="r", db=db, regime="constant"), Outcome("failed", failure, {}, None),
            query, 1.0,
        )  # fmt: skip

    assert summary.merges is None
    assert summary.next == []
    assert not db.exists()


def test_the_table_for_people_tells_the_same_numbers(log: Log) -> None:
    text = printed(log.summary())

    assert "1 violations of 1 requests (100.0 %)" in text
    assert "1 commanded, 1 finished by every learner" in text


def test_commands_to_type_next_stand_on_a_line_of_their_own_and_are_quoted(
    filled: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    summary = Log(Path(shutil.copy(filled, folder / "r.duckdb"))).summary()

    lines = printed(summary, width=40).splitlines()

    for name in ("slo", "timeline", "late_merges"):
        assert f"{program()} sql {name} --db '{folder}/r.duckdb'" in lines


def test_the_summary_is_json_with_a_schema_version(log: Log) -> None:
    found = msgspec.json.decode(msgspec.json.encode(log.summary()))

    assert found["schema_version"] == 1
    assert found["options"]["regime"] == "constant"


def shown(log: Log, speed: float) -> tuple[str, Status]:
    """The screen of a run at this speed, and what it was drawn from."""
    with closed_log(log.path) as query:
        assert query is not None
        seen = snapshot.take(query, speed)
    status = Status(
        Plan(run_id="r", db=log.path, regime="constant", speed=speed), Phase.RUNNING, 22.0, 30.0,
        seen, at(23.0),
    )  # fmt: skip
    return drawn(status, 80), status


def drawn(status: Status, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(screen.picture(status))
    return console.export_text()


def test_the_screen_shows_what_the_log_holds(log: Log) -> None:
    text, status = shown(log, 1.0)
    seen = status.snapshot
    assert seen is not None

    assert "1 commanded, 1 accepted, 1 finished, 0 skipped, 0 under way" in text
    assert "9.0 s merge because_merge" in text
    assert "changes only, newest first" in text
    assert "SLO 1 s" in text
    assert "H_min 128, end H_max 512" in text
    assert "1.0 s behind" in text
    assert "22 of 90 s" in text
    assert "event s" not in text
    assert "3 requests" in plain.line(status)
    assert seen.arrivals_per_s[-3] == 1.0
    assert seen.forecast_per_s[-14] == 3.0
    assert seen.arrivals_per_s[0] is None


def test_where_event_time_is_not_wall_time_the_screen_says_which_it_shows(log: Log) -> None:
    text, status = shown(log, 20.0)

    assert "1 wall s = 20 event s" in text
    assert "22 of 90 wall s" in text
    assert "took over 1 event s" in text
    assert "finished by 2 of 2 in 1.00 event s" in text
    assert "wall s behind" in text
    assert "event time since the stream job began" in text
    assert "/event s" in plain.line(status)


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_the_screen_fits_a_small_terminal_uncut(log: Log, speed: float) -> None:
    for second in range(13, 18):
        log.insert("decisions", run_id="r", at_us=at(second), group="default", policy="slack",
                   active=True, action="wait", reason=f"load_not_learned_{second}", window_s=8.0,
                   learners=2, rate_per_s=33.3, rate_sd=1.1, gap_steps=190, in_flight=12.0,
                   signal_age_s=0.25, stale=["sidecar-1"])  # fmt: skip

    text, status = shown(log, speed)
    lines, uncut = text.splitlines(), drawn(status, 200).splitlines()

    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert [line.strip("│ ") for line in lines[2:-1]] == [line.strip("│ ") for line in uncut[2:-1]]
    assert "1 silent: stale" in text


def test_before_anything_is_logged_the_screen_shows_unknown_and_not_zero(empty_log: Path) -> None:
    with closed_log(empty_log) as query:
        assert query is not None
        seen = snapshot.take(query, 20.0)

    assert seen.decision is None
    assert set(seen.arrivals_per_s) == {None}
    plan = Plan(run_id="r", db=empty_log, regime="constant")
    status = Status(plan, Phase.RUNNING, 1.0, 30.0, seen, ORIGIN_US)
    assert plain.line(status) == "   30 s  running"


def test_what_is_acknowledged_and_what_is_logged_are_counted_over_the_same_events(log: Log) -> None:
    with closed_log(log.path) as query:
        assert query is not None
        counts = snapshot.take(query, 1.0).counts

    assert acknowledged(SAID) == logged(counts) == 17
