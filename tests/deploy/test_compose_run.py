"""What docker-compose.yml starts works together: merges are commanded, done and in the run log."""

import time

import duckdb
import psutil
import pytest
from compose_run import ComposeRun

from slackwater.broker import EmbeddedBroker, free_port
from slackwater.codec import Codec
from slackwater.events import Finished, MergeCommand
from slackwater.topics import COMMANDS, MERGES
from slackwater.transport import reader

REPLAY_S = 30
MERGE_TIMEOUT_S = 90
LEARNERS = {"learner-0", "learner-1"}
FILLED = ["runs", "requests", "loads", "learner_steps", "bins", "decisions", "commands", "merges"]
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compose")
    env = {"SLACKWATER_DURATION": str(REPLAY_S), "SLACKWATER_RUN_ID": "as-processes"}
    with (
        EmbeddedBroker(log_path=folder / "kafka.log") as broker,
        ComposeRun(folder, broker.bootstrap, env, free_port) as run,
    ):
        run.start("topics")
        assert run.ended("topics", 60) == 0, run.log("topics")
        for name in ("stream", "counter", "learner-0", "learner-1"):
            run.start(name)
        run.wait_until_healthy("stream")
        run.wait_until_healthy("counter")
        run.start("replay")
        run.merged = wait_for_a_commanded_merge(broker.bootstrap)
        run.replay_code = run.ended("replay", REPLAY_S + 60)
        run.codes = {
            name: run.stop(name) for name in ("learner-0", "learner-1", "counter", "stream")
        }
        yield run


def wait_for_a_commanded_merge(bootstrap):
    """The id of the first merge that was commanded and that both learners finished, or None."""
    consumer = reader(bootstrap, [COMMANDS, MERGES], from_start=True)
    codecs = {topic.name(): Codec(topic) for topic in (COMMANDS, MERGES)}
    commanded, finished = set(), {}
    deadline = time.monotonic() + MERGE_TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            for partition, records in consumer.poll(timeout_ms=1000).items():
                for record in records:
                    for event in codecs[partition.topic].decode(record.value).events:
                        if isinstance(event, MergeCommand):
                            commanded.add(event.merge_id)
                        elif isinstance(event, Finished):
                            finished.setdefault(event.merge_id, set()).add(event.learner)
            done = {merge for merge in commanded if finished.get(merge) == LEARNERS}
            if done:
                return min(done)
    finally:
        consumer.close()
    return None


@pytest.fixture(scope="module")
def run_log(run):
    with duckdb.connect(str(run.data("stream") / "run.duckdb"), read_only=True) as connection:
        yield connection


def test_a_merge_is_commanded_and_finished_by_every_learner(run):
    assert run.merged is not None, run.log("stream")[-2000:] + run.log("learner-0")[-2000:]


def test_replay_ends_by_itself_and_the_rest_when_told_to(run):
    assert run.replay_code == 0, run.log("replay")[-2000:]
    failed = {name: run.log(name)[-2000:] for name, code in run.codes.items() if code != 0}
    assert failed == {}


@pytest.mark.parametrize("table", FILLED)
def test_run_log_has_rows_of_this_run_in_every_table(run_log, table):
    (rows,) = run_log.execute(
        f"select count(*) from {table} where run_id = 'as-processes'"  # noqa: S608
    ).fetchone()
    assert rows > 0


def test_commanded_merge_was_done_where_it_was_commanded_with_equal_weights(run, run_log):
    rows = run_log.execute(
        """
        select merge_id, any_value(at_step), list(learner order by learner),
               list(distinct step), count(distinct digest), min(bytes_exchanged)
        from merges join commands using (merge_id)
        where merges.type = 'finished' group by merge_id
        """
    ).fetchall()
    done = {merge: figures for merge, *figures in rows}
    at_step, learners, steps, digests, exchanged = done[run.merged]
    assert learners == sorted(LEARNERS)
    # Learners that did not start together count unequal steps, and are told a moment instead.
    assert at_step is None or steps == [at_step]
    assert digests == 1
    assert exchanged > 0


def test_nothing_is_lost_between_replay_and_run_log(run_log):
    assert run_log.execute("select count(*) from dead_letters").fetchone() == (0,)
    ids, rows = run_log.execute("select count(distinct id), count(*) from requests").fetchone()
    assert ids == rows


def test_learners_leave_a_checkpoint_on_their_volume(run):
    for name in sorted(LEARNERS):
        assert list((run.data(name) / "checkpoints").iterdir())


def test_no_process_is_left(run):
    ours = {process.pid for process in run.running.values()}
    assert not [p for p in psutil.Process().children(recursive=True) if p.pid in ours]
