from pathlib import Path

from slackwater.events import Accepted, Event, Finished, Request, Started
from streams.runlog import RunLog

T0 = 1_750_000_000_000_000
SECOND_US = 1_000_000


def merge(at_s: int, learner: str = "a", merge_id: str = "hmax-512") -> list[Event]:
    about = {"run_id": "r", "group": "g", "learner": learner, "merge_id": merge_id, "step": 512}
    start_us = T0 + at_s * SECOND_US
    return [
        Accepted(at_us=start_us, **about),
        Started(at_us=start_us, **about),
        Finished(at_us=start_us + SECOND_US, seconds=1.0, bytes_exchanged=400, **about),
    ]


def request() -> Request:
    return Request(
        run_id="r", at_us=T0 + SECOND_US, sidecar="s", id="x", arrival_us=T0, status="ok", e2e_s=1.0
    )


def fill(log: RunLog, *messages: list[Event]) -> None:
    for offset, events in enumerate(messages):
        log.append(events, topic="t", partition=0, offset=offset, late=None)
    log.commit()


def test_merges_of_one_id_an_hour_apart_are_two_windows(log_path: Path) -> None:
    with RunLog(log_path, "r") as log:
        fill(log, merge(0), merge(0, "b"), merge(3600), merge(3600, "b"))
        rows = log.rows(
            "SELECT (finished_us - started_us) / 1e6, finished, bytes_exchanged FROM stg_windows"
        )
    assert rows == [(1.0, 2, 800), (1.0, 2, 800)]


def test_report_that_was_sent_twice_counts_once(log_path: Path) -> None:
    with RunLog(log_path, "r") as log:
        fill(log, merge(0), merge(0))
        assert log.rows("SELECT finished, bytes_exchanged FROM stg_windows") == [(1, 400)]


def test_request_that_came_again_late_counts_once(log_path: Path) -> None:
    with RunLog(log_path, "r") as log:
        log.append([request()], topic="t", partition=0, offset=0, late=())
        log.append([request()], topic="t", partition=0, offset=1, late={0})
        log.commit()
        assert log.rows("SELECT late FROM stg_requests") == [(False,)]
        assert log.rows("SELECT count(*) FROM requests") == [(2,)]
