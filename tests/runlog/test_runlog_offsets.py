"""Rows and offsets: each message once, whatever is delivered, committed or interrupted."""

import pytest
from handmade import request

from streams.runlog import Run, RunLog

SOURCE = ("t", 0)


def put(log, *offsets, partition=0, topic="t"):
    return [
        log.append([request(f"o{o}", 1, 1, "ok")], topic=topic, partition=partition, offset=o)
        for o in offsets
    ]


def logged(log):
    found = log.rows("SELECT topic_offset FROM requests ORDER BY ALL")
    return [offset for (offset,) in found]


def test_nothing_is_in_the_log_before_a_commit(log):
    put(log, 0, 1)
    assert logged(log) == []
    assert log.commit() == 2
    assert logged(log) == [0, 1]
    assert log.stored_offsets() == {SOURCE: 2}


def test_reopening_goes_on_at_the_stored_offsets_and_leaves_repeats_out(path):
    with RunLog(path) as log:
        put(log, 0, 1, 2)
        log.commit()
    with RunLog(path) as log:
        assert log.stored_offsets() == {SOURCE: 3}
        assert put(log, 1, 2, 3) == [False, False, True]
        log.commit()
        assert logged(log) == [0, 1, 2, 3]


def test_messages_out_of_order_are_each_in_the_log_once(log):
    put(log, 5)
    log.commit({SOURCE: 6})
    put(log, 9, 6)
    log.commit({SOURCE: 7})
    assert logged(log) == [5, 6]
    assert put(log, 6, 7, 8, 9) == [False, True, True, False]
    log.commit({SOURCE: 10})
    assert logged(log) == [5, 6, 7, 8, 9]


def test_what_lies_above_the_committed_offset_is_not_in_the_log_after_a_crash(path):
    with RunLog(path) as log:
        put(log, 0, 1, 2)
        log.commit({SOURCE: 1})
    with RunLog(path) as log:
        assert log.stored_offsets() == {SOURCE: 1}
        assert logged(log) == [0]


def test_offsets_never_move_backwards(log):
    put(log, 0, 1, 2)
    log.commit()
    put(log, 5)
    log.commit({SOURCE: 1})
    assert log.stored_offsets() == {SOURCE: 3}
    assert logged(log) == [0, 1, 2]


def test_partitions_and_topics_have_offsets_of_their_own(log):
    put(log, 7)
    put(log, 2, partition=1)
    put(log, 4, topic="u")
    log.commit({SOURCE: 8, ("t", 1): 3})
    assert log.stored_offsets() == {SOURCE: 8, ("t", 1): 3}
    assert logged(log) == [2, 7]
    log.commit()
    assert log.stored_offsets()["u", 0] == 5


def test_a_message_without_events_moves_the_offset(log):
    log.append([], topic="t", partition=0, offset=0)
    assert log.commit() == 0
    assert log.stored_offsets() == {SOURCE: 1}


def test_another_run_starts_at_offset_0_of_a_new_broker(path):
    with RunLog(path, "first") as log:
        put(log, 0, 1)
        log.commit()
    with RunLog(path, "second") as log:
        assert log.stored_offsets() == {}
        assert put(log, 0) == [True]


def test_a_write_that_nobody_noted_is_not_written_again(log):
    put(log, 0, 1)
    log.write(log.take())
    put(log, 2)
    assert log.commit() == 3
    assert logged(log) == [0, 1, 2]


def test_appending_while_a_batch_is_being_written_loses_nothing(log):
    put(log, 0)
    batch = log.take()
    put(log, 1)
    log.write(batch)
    log.written(batch)
    log.commit()
    assert logged(log) == [0, 1]


def status(log):
    return dict(log.rows("SELECT run_id, status FROM runs"))


def test_a_run_whose_writer_died_is_failed_for_the_next_one_and_goes_on_under_its_own_name(path):
    with RunLog(path, "r") as log:
        log.start_run(Run(run_id="r", created_us=1))
    with RunLog(path, "r") as log:
        assert status(log) == {"r": "running"}
    with RunLog(path, "next") as log:
        assert status(log) == {"r": "failed"}


@pytest.mark.parametrize("outcome", ["complete", "failed"])
def test_a_run_is_complete_only_when_it_is_said_to_be(log, outcome):
    log.start_run(Run(run_id="r", created_us=1, seed=7, settings={"slo_s": 2}))
    assert status(log) == {"r": "running"}
    log.finish_run("r", outcome, 5, "why")
    assert log.rows("SELECT status, finished_us, status_reason, seed FROM runs") == [
        (outcome, 5, "why", 7)
    ]
    assert log.rows("SELECT slo_s FROM stg_runs") == [(2.0,)]


def test_a_run_that_starts_again_has_one_row(log):
    for created in (1, 2):
        log.start_run(Run(run_id="r", created_us=created))
    assert log.rows("SELECT created_us FROM runs") == [(2,)]
