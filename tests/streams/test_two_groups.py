"""Two merge groups of one run on one broker: each has its own job, log, learners and commands."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from learner_fleet import end, learners, rows, until_logged
from processes import command, environment, stop, stream

from slackwater.broker import EmbeddedBroker, free_port
from slackwater.codec import Codec
from slackwater.events import Request
from slackwater.topics import COMMANDS, REQUESTS
from slackwater.transport import make_topics, reader

# Names of learners are a group's own: the same ones in both must not be mixed up.
PACES_S = {"learner-0": 0.1, "learner-1": 0.1}
PERIODS = {"a": 30, "b": 40}
CORRIDOR = ("--min-gap-steps", "10", "--max-gap-steps", "200", "--expect-learners", "2")
GROUPED = ("learner_steps", "heartbeats", "bins", "decisions", "commands", "merges")
MERGED = "FROM merge_windows WHERE commanded IS NOT NULL AND complete"


class Fleet:
    """The logs and environments of both groups."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        env = environment(bootstrap, "r")
        self.env = {group: env | {"SLACKWATER_GROUP": group} for group in PERIODS}
        self.log = {group: folder / f"{group}.duckdb" for group in PERIODS}

    def job(self, group: str) -> Any:
        policy = ("--policy", "fixed_h", "--set", f"controller.fixed_steps={PERIODS[group]}")
        log = ("--db", str(self.log[group]))
        return stream(self.env[group], self.folder, *log, *policy, *CORRIDOR)

    def learners(self, group: str, port: int) -> Any:
        patient = ("--join-timeout", "300", "--seed", str(PERIODS[group]))
        return learners(self.env[group], PACES_S, *patient, meeting_port=port)

    def until_merged(self, group: str, more: int) -> None:
        """Until the group has done so many more commanded merges."""
        [(done,)] = rows(self.log[group], f"SELECT count(*) {MERGED}")
        until_logged(self.log[group], f"SELECT count(*) >= {done + more} {MERGED}")

    def ask(self, *arguments: str, variable: str) -> str:
        """`slackwater ARGUMENTS` with this SLACKWATER_GROUP."""
        done = subprocess.run(
            command(*arguments), env=self.env[variable], capture_output=True, text=True, check=True
        )
        return done.stdout


@contextmanager
def meeting_place(folder: Path) -> Iterator[int]:
    port, ready = free_port(), folder / "meeting"
    arguments = ("group", "serve", "--port", str(port), "--ready-file", str(ready))
    process = subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.kafka
def test_two_groups_share_a_broker_and_nothing_else(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, meeting_place(tmp_path) as port:
        make_topics(broker.bootstrap, partitions=4)
        fleet = Fleet(tmp_path, broker.bootstrap)
        with (
            fleet.learners("a", port) as group_a,
            fleet.learners("b", port) as group_b,
            fleet.job("a") as job_a,
            fleet.job("b") as job_b,
        ):
            replay = ("replay", "--regime", "aperiodic", "--rate", "12", "--sidecars", "3")
            traffic = subprocess.Popen(
                command(*replay, "--duration", "20", "--json"),
                env=fleet.env["a"],
                stdout=subprocess.DEVNULL,
            )
            for group in PERIODS:
                fleet.until_merged(group, 2)
            check_orders(fleet)
            job_a.kill()
            job_a.wait()
            fleet.until_merged("b", 2)
            with fleet.job("a") as job_a_again:
                fleet.until_merged("a", 2)
                assert traffic.wait(120) == 0
                sent = requests_on_topic(broker.bootstrap)
                for group in PERIODS:
                    until_logged(fleet.log[group], f"FROM requests SELECT count(*) >= {len(sent)}")
                summaries = {"a": end(group_a), "b": end(group_b)}
                told = {"a": stop(job_a_again), "b": stop(job_b)}
        assert commanded_groups(broker.bootstrap) == set(PERIODS)
    for group in PERIODS:
        assert told[group]["group"] == group
        assert told[group]["dead_letters"] == {}
        check_log(fleet.log[group], group, sent)
        check_learners(summaries[group])
    assert len({one["learner-0"]["digest"] for one in summaries.values()}) == 2
    check_sql(fleet)


def check_orders(fleet: Fleet) -> None:
    """What a person asks of one group, by option or variable, is nothing to the other."""
    fleet.ask("group", "pause", "--group", "a", variable="b")
    paused = "SELECT count(*) > 0 FROM decisions WHERE reason = 'paused'"
    until_logged(fleet.log["a"], paused)
    status = {
        group: json.loads(fleet.ask("group", "status", "--json", variable=group))
        for group in PERIODS
    }
    assert {group: one["paused"] for group, one in status.items()} == {"a": True, "b": False}
    assert all(sorted(one["members"]) == sorted(PACES_S) for one in status.values())
    fleet.until_merged("b", 2)
    assert rows(fleet.log["b"], paused) == [(False,)]
    fleet.ask("group", "resume", variable="a")
    fleet.ask("group", "merge-now", "--no-wait", "--group", "b", variable="a")
    asked = "SELECT count(*) > 0 FROM commands WHERE type = '{}'"
    until_logged(fleet.log["a"], asked.format("resume"))
    until_logged(fleet.log["b"], asked.format("merge_now"))
    fleet.until_merged("a", 1)


def check_log(log: Path, group: str, sent: Counter[tuple[str, str]]) -> None:
    """Nothing of another group is in the log, and every request once."""
    for table in GROUPED:
        assert rows(log, f'FROM {table} SELECT DISTINCT "group"') == [(group,)], table
    asked = dict(rows(log, "SELECT type, count(*) FROM commands WHERE type <> 'merge' GROUP BY 1"))
    assert asked == ({"pause": 1, "resume": 1} if group == "a" else {"merge_now": 1})
    stray = (
        "SELECT m.merge_id FROM merges AS m ANTI JOIN commands AS c USING (merge_id) "
        "WHERE m.merge_id NOT LIKE 'hmax-%'"
    )
    assert rows(log, stray) == []
    merges = rows(log, f"SELECT learners_finished, same_digest {MERGED}")
    assert len(merges) >= 5
    assert set(merges) == {(2, True)}
    assert Counter(rows(log, "SELECT sidecar, id FROM requests")) == sent


def check_learners(summaries: dict[str, Any]) -> None:
    """Each merged by its own controller's commands, with its own peer alone."""
    assert {name: one["attach_errors"] for name, one in summaries.items()} == dict.fromkeys(
        PACES_S, 0
    )
    assert all(one["merges"]["commanded"] >= 5 for one in summaries.values())
    assert len({one["digest"] for one in summaries.values()}) == 1


def check_sql(fleet: Fleet) -> None:
    """One question to both logs, and the same one to each."""
    alone = [
        json.loads(
            fleet.ask(
                *("sql", "SELECT count(*) AS n FROM merge_windows", "--json"),
                *("--db", str(log)),
                variable="a",
            )
        )[0]["n"]
        for log in fleet.log.values()
    ]
    both = (
        f"ATTACH '{fleet.log['b']}' AS b (READ_ONLY); "
        "FROM (FROM merge_windows UNION ALL BY NAME FROM b.merge_windows) "
        "SELECT merge_group, count(*) AS n GROUP BY ALL ORDER BY ALL"
    )
    found = json.loads(fleet.ask("sql", both, "--json", "--db", str(fleet.log["a"]), variable="a"))
    assert [(one["merge_group"], one["n"]) for one in found] == list(zip("ab", alone, strict=True))


def on_topic(bootstrap: str, topic: Any) -> Iterator[Any]:
    """Every event that is on the topic now."""
    consumer, codec = reader(bootstrap, [topic], from_start=True), Codec(topic)
    while batch := consumer.poll(timeout_ms=1000):
        for message in (m for messages in batch.values() for m in messages):
            yield from codec.decode(message.value).events
    consumer.close()


def requests_on_topic(bootstrap: str) -> Counter[tuple[str, str]]:
    found = on_topic(bootstrap, REQUESTS)
    return Counter((event.sidecar, event.id) for event in found if isinstance(event, Request))


def commanded_groups(bootstrap: str) -> set[str]:
    return {event.group for event in on_topic(bootstrap, COMMANDS)}
