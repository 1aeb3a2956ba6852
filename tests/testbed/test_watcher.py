"""How long an answer of the run log counts, by a clock that the test moves."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.testbed.snapshot import Query, Snapshot
from slackwater.testbed.watcher import Watcher


class SlowLog:
    """Takes `answer_s` on the test's clock to say how many merges are pending."""

    def __init__(self, answer_s: float) -> None:
        self.now_s, self.answer_s, self.answers = 100.0, answer_s, 0

    def take(self, _query: Query, _speed: float) -> Snapshot:
        self.answers += 1
        if self.answers == 1:
            self.now_s += self.answer_s
        counts: Any = SimpleNamespace(merge_counts={"pending": 0})
        return counts  # type: ignore[no-any-return]


@pytest.mark.parametrize(("answer_s", "later_s"), [(0.1, 4.0), (12.0, 4.0)])
def test_a_slow_answer_counts_from_when_it_came(answer_s: float, later_s: float) -> None:
    log = SlowLog(answer_s)
    watcher = Watcher(
        lambda sql: [], 1.0, lambda: None, lambda: log.now_s, log.take, every_s=0.001, fresh_s=5.0
    )
    assert watcher.pending_merges() is None
    watcher.hold_merges()
    watcher.start()
    deadline = time.monotonic() + 60
    while watcher.look is None:
        assert time.monotonic() < deadline
    watcher.stop()

    log.now_s += later_s
    assert watcher.pending_merges() == 0
    log.now_s += 1.5
    assert watcher.pending_merges() is None
    # An answer whose question was asked before merges were held says nothing of them.
    log.now_s -= 1.5
    watcher.hold_merges()
    assert watcher.pending_merges() is None
