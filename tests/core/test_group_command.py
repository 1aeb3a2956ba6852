import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.attach import Attachment, Corridor
from slackwater.cli import group_status
from slackwater.cli.group_merge import Answer, ask_and_follow
from slackwater.cli.group_status import (
    GroupStatus,
    read_status,
    status_lines,
    unread_line,
    who_is_there,
)
from slackwater.clock import RunClock
from slackwater.codec import Codec
from slackwater.events import Accepted, Decision, Finished, Heartbeat, Pause, Skipped, Step
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES
from slackwater.transport import BatchProducer, make_topics, reader


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("word", "option", "variable"),
    [("pause", [], "g"), ("resume", ["--group", "g"], "h"), ("merge-now", ["--no-wait"], "g")],
)
def test_what_a_person_asks_reaches_the_commands_topic(
    run_command: Callable[..., Any], bootstrap: str, word: str, option: list[str], variable: str
) -> None:
    prefix = f"group-{word}"
    make_topics(bootstrap, prefix, 1)
    done = run_command(
        *("group", word, *option),
        KAFKA_BOOTSTRAP_SERVERS=bootstrap,
        SLACKWATER_TOPIC_PREFIX=prefix,
        SLACKWATER_RUN_ID="r",
        SLACKWATER_GROUP=variable,
    )
    assert done.returncode == 0, done.stderr
    consumer = reader(bootstrap, [COMMANDS], prefix, from_start=True)
    messages = [m for batch in consumer.poll(timeout_ms=5000).values() for m in batch]
    consumer.close()
    [event] = [e for m in messages for e in Codec(COMMANDS).decode(m.value).events]
    assert event.__struct_config__.tag == word.replace("-", "_")
    assert (event.run_id, event.group) == ("r", "g")
    assert "run r, group g" in done.stdout


@pytest.mark.kafka
def test_status_tells_the_members_of_this_group_alone(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(bootstrap, "group-status", 1)
    about = {"run_id": "r", "at_us": time.time_ns() // 1000}
    producer = BatchProducer(bootstrap, "group-status")
    for group, learner in (("g", "a"), ("g", "b"), ("h", "c")):
        step = Step(**about, learner=learner, step=70, steps_since_merge=10, epoch=3, group=group)
        producer.send(LEARNERS, learner, step)
    done = Finished(
        **about,
        group="g",
        learner="a",
        merge_id="m1",
        step=60,
        seconds=0.5,
        bytes_exchanged=8,
        digest="d1",
    )
    producer.send(MERGES, "g", done)
    skipped = Skipped(**about, group="g", learner="b", merge_id="m1", step=60, reason="absent: a")
    producer.send(MERGES, "g", skipped)
    producer.send(COMMANDS, "g", Pause(**about, group="g"))
    assert producer.flush()
    producer.close()

    run = RunSettings(bootstrap=bootstrap, prefix="group-status", run_id="r", group="g")
    found = read_status(run, 300.0)

    assert sorted(found.members) == ["a", "b"]
    first = found.members["a"]
    assert (first.step, first.gap_steps, first.epoch, first.digest) == (70, 10, 3, "d1")
    assert (found.members["b"].skipped, found.paused) == ("absent: a", True)
    lines = status_lines(found, about["at_us"] + 2_000_000)
    assert lines[1].split() == [
        "a",
        "70",
        "10",
        "3",
        "2.0",
        "s",
        "ago",
        "m1,",
        "2.0",
        "s",
        "ago",
        "d1",
    ]
    assert lines[-2:] == [
        "b skipped its last merge: absent: a",
        "merges are paused but for H_max",
    ]
    assert unread_line(found) is None
    monkeypatch.setattr(group_status, "READ_LIMIT_S", 0.0)
    partial = read_status(run, 300.0)
    assert partial.unread_messages > 0
    assert f"{partial.unread_messages} messages were not read" in (unread_line(partial) or "")


def test_an_empty_group_is_not_taken_for_another_one(run_command: Callable[..., Any]) -> None:
    done = run_command("group", "pause", "--group", "", "--kafka", "127.0.0.1:9")
    assert done.returncode == 2
    assert "--group is empty" in done.stderr


def test_no_broker_named_is_said_in_one_line() -> None:
    env = {k: v for k, v in os.environ.items() if k != "KAFKA_BOOTSTRAP_SERVERS"}
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "group", "pause"],
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.kafka
def test_merge_now_tells_what_each_learner_made_of_it(
    settings: RunSettings, controller: Any
) -> None:
    both = ["learner-0", "dead"]
    corridor, clock = Corridor(1, 1000), RunClock.real()
    with Attachment(settings, both[0], both, corridor, clock, commit_timeout_s=0.1) as learner:
        controller.hears(lambda said: any(isinstance(e, Heartbeat) for e in said))

        def ask() -> None:
            controller.merge("m1", 3, both)
            controller.hears(lambda said: any(isinstance(e, Accepted) for e in said))
            assert [learner.on_step(step, 1.0, 1) for step in (1, 2, 3)] == [None] * 3

        answer = ask_and_follow(settings, [both[0]], ask, 60.0)
    assert not answer.finished
    assert answer.lines(60.0) == [
        "m1 commanded at step 3 (score)",
        "learner-0: refused: no_commit: no word from dead",
        "dead: no answer",
    ]


def test_merge_now_is_answered_by_a_merge_without_a_command_as_well() -> None:
    about: dict[str, Any] = {"run_id": "r", "at_us": time.time_ns() // 1000, "group": "g"}
    report = {**about, "merge_id": "hmax-9", "step": 9}
    answer = Answer(["a", "b"])
    answer.hear(Skipped(**{**report, "merge_id": "hmax-5"}, learner="a", reason="quorum: 1 there"))
    assert (answer.merge_id, answer.settled) == (None, False)
    for name in ("a", "b"):
        answer.hear(Finished(**report, learner=name, seconds=0.5, bytes_exchanged=8))
        assert answer.settled is (name == "b")
    assert answer.finished
    assert answer.lines(60.0)[:2] == [
        "hmax-9 was made without a command",
        "a: finished at step 9, in 0.500 s",
    ]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "learners_missing",
            "no merge within 60 s, one may still come; the controller waits: lear",
        ),
        (None, "no merge within 60 s, one may still come; nothing is heard"),
        ("paused", "the group is paused and this is not done"),
    ],
)
def test_merge_now_in_vain_tells_what_the_controller_waits_for(
    reason: str | None, told: str
) -> None:
    answer = Answer(["a"])
    if reason is not None:
        decision = Decision(
            run_id="r",
            at_us=time.time_ns() // 1000,
            group="g",
            policy="slack",
            active=True,
            action="wait",
            reason=reason,
            window_s=8.0,
            learners=1,
        )
        answer.hear(decision)
    (line,) = answer.lines(60.0)
    assert line.startswith(told)
    assert (answer.paused, answer.finished) == (reason == "paused", False)


def test_who_has_left_or_fallen_silent_is_not_counted_on() -> None:
    now_us = time.time_ns() // 1000
    status = GroupStatus()
    for name, ago_s, final in (("a", 1, False), ("b", 60, False), ("c", 1, True)):
        at_us = now_us - ago_s * 1_000_000
        status.hear(Heartbeat(run_id="r", at_us=at_us, learner=name, final=final, group="g"))
    assert who_is_there(status, now_us) == (["a"], ["b"])
