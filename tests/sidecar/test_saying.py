"""Where a measurement says that it is: seldom, and never without what is new."""

import io

import pytest
from rich.console import Console

from slackwater.cli import saying


@pytest.fixture
def clock_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(saying.time, "monotonic", lambda: now[0])
    return now


def test_lines_come_at_a_new_stage_and_else_seconds_apart(clock_s: list[float]) -> None:
    out = io.StringIO()
    say = saying.Saying(Console(file=out, width=30), wants_plain=False)
    say.word("starting vLLM: up to a minute")
    say.word("starting vLLM: 1 s")
    for count in range(25):
        say.progress(f"merges; {count} requests [and a line longer than the console]", "merges")
        clock_s[0] += 1.0
    say.progress("nothing; 0 requests", "nothing")
    say.end()
    said = [line.partition(" [")[0] for line in out.getvalue().splitlines()]
    assert said == [
        "starting vLLM: up to a minute",
        "merges; 0 requests",
        "merges; 10 requests",
        "merges; 20 requests",
        "nothing; 0 requests",
    ]


def test_a_live_line_is_one_and_words_that_matter_stay_above_it(clock_s: list[float]) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True)
    say = saying.Saying(console, wants_plain=False)
    assert say._status is not None
    say.word("starting vLLM: 1 s")
    assert say._status.status == "starting vLLM: 1 s"
    clock_s[0] += 1.0
    say.progress("run 1", 1)
    say.progress("run 1, too soon", 1)
    assert say._status.status == "run 1"
    say.word("run 1 failed: why")
    clock_s[0] += 1.0
    say.progress("run 1 again", 1)
    assert say._status.status == "run 1 again"
    say.end()
    assert "run 1 failed: why" in out.getvalue()
