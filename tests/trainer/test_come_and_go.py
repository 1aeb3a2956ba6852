"""Loops inside `DiLoCo` that come late, fail and come back, and a group that stops and resumes."""

import functools
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from learners_in_threads import PATIENCE_S, equal, new_group, until
from torch import nn

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from trainer import outer
from trainer.diloco import DiLoCo
from trainer.join import Place
from trainer.peers import Peers

NAMES = ["learner-0", "learner-1", "learner-2"]
ROOMS = itertools.count()
NOWHERE = RunSettings(bootstrap="127.0.0.1:9")


class BrokenError(Exception):
    """What a training loop dies of."""


class Loop:
    """One learner in a thread of its own: it steps until it is told to end, or breaks."""

    def __init__(
        self,
        port: int,
        room: str,
        rank: int,
        names: list[str] = NAMES,
        *,
        last: int | None = None,
        start: Path | None = None,
        breaks: bool = False,
        join_timeout_s: float = 60.0,
    ) -> None:
        self.model = nn.Linear(3, 2)
        with torch.no_grad():
            self.model.weight.fill_(1.0)
            self.model.bias.fill_(2.0)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.data = torch.Generator().manual_seed(rank)
        self.rank, self.last, self.breaks = rank, last, breaks
        place = Place(rank, len(names), ("127.0.0.1", port), hosted=True)
        self.attachment = Attachment(
            RunSettings(bootstrap="127.0.0.1:9"),
            names[rank],
            names,
            Corridor(5, 20),
            RunClock.real(),
        )
        peers = Peers(names, place, room=room, timeout_s=8.0, join_timeout_s=join_timeout_s)
        self.diloco = DiLoCo(
            self.model,
            self.optimizer,
            self.attachment,
            peers,
            compression="int8",
            stateful={"data": self},
        )
        if start is not None:
            self.diloco.load(start)
        self.first_step: int | None = None
        self.merged: dict[int, str] = {}
        self.told_to_end = threading.Event()
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.data.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.data.set_state(state["order"])

    def _run(self) -> None:
        try:
            with self.diloco:
                self.first_step = self.diloco.steps
                # The wait stands for a model that takes longer.
                while not self.told_to_end.wait(0.002) and self.diloco.steps != self.last:
                    self._step()
                if self.breaks:
                    raise BrokenError
        except Exception as failure:
            self.failure = failure

    def _step(self) -> None:
        x = torch.randn(4, 3, generator=self.data)
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        self.diloco.report(tokens=4)
        before = self.diloco.counts.forced
        self.optimizer.step()
        if self.diloco.counts.forced > before:
            self.merged[self.diloco.epoch] = self.diloco.outer.digest()

    def join(self) -> "Loop":
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        return self

    def end(self) -> "Loop":
        self.told_to_end.set()
        return self.join()


def together(loops: list[Loop]) -> bool:
    """True once all have been through the same merge."""
    return bool(set.intersection(*(set(one.merged) for one in loops)))


def test_a_loop_that_comes_late_breaks_and_comes_back_merges_with_the_others(
    meeting_port: int,
) -> None:
    start = functools.partial(Loop, meeting_port, f"go-{next(ROOMS)}")
    first = [start(rank, join_timeout_s=1.0) for rank in (0, 1)]
    # Long enough for what they say of themselves, four times a second, to be of after a merge.
    until(lambda: all(max(one.merged, default=0) >= 10 for one in first))
    late = start(2, breaks=True)
    until(lambda: together([*first, late]))
    late.end()
    assert isinstance(late.failure, BrokenError)
    # The others go on without it.
    gone = max(late.merged)
    until(lambda: all(max(one.merged) > gone for one in first))
    back = start(2)
    until(lambda: together([*first, back]))
    for one in [back, *first]:
        one.end()
        assert one.failure is None
    for one in (late, back):
        assert one.first_step is not None
        # Its steps are counted from where the group was, and its weights are the group's.
        assert one.first_step > 0
        assert one.diloco.caught_up >= 1
        for other in first:
            both = one.merged.keys() & other.merged.keys()
            assert both
            assert {e: one.merged[e] for e in both} == {e: other.merged[e] for e in both}
    assert min(back.merged) > gone


def test_a_group_that_stopped_between_merges_resumes_as_if_it_had_not(
    meeting_port: int, tmp_path: Path
) -> None:
    names = NAMES[:2]
    files = [tmp_path / f"{name}.safetensors" for name in names]

    def group(last: int, starts: list[Path | None]) -> list[Loop]:
        start = functools.partial(Loop, meeting_port, f"go-{next(ROOMS)}", names=names, last=last)
        loops = [start(rank, start=given) for rank, given in enumerate(starts)]
        for one in loops:
            one.join()
            assert one.failure is None
        return loops

    through = group(65, [None, None])
    for loop, file in zip(group(47, [None, None]), files, strict=True):
        assert loop.diloco.epoch == 2
        loop.diloco.save(file)
    again = group(65, list(files))
    for one, other in zip(again, through, strict=True):
        assert (one.first_step, one.diloco.caught_up) == (47, 0)
        assert other.merged.keys() == {1, 2, 3}
        mine, theirs = one.diloco.state_dict(), other.diloco.state_dict()
        # All threads draw first weights from one generator.
        del mine["random"], theirs["random"]
        assert equal(mine, theirs)


def test_a_quorum_that_cannot_be_is_refused(meeting_port: int) -> None:
    place = Place(0, 3, ("127.0.0.1", meeting_port), hosted=True)
    shared: Any = None
    for quorum in (0, 4):
        with pytest.raises(InputError, match=f"quorum is {quorum}; it must be from 1 to"):
            Peers(NAMES, place, quorum=quorum).join(shared)


def test_telling_the_group_waits_for_nobody(meeting_port: int) -> None:
    group = new_group(meeting_port, f"go-{next(ROOMS)}", "learner-0", quorum=1)
    until(lambda: group.pulse._link is not None)
    link = group.pulse.link()
    link.shelf.put("call", "0")
    until(lambda: group.called(0.0))
    answers = threading.Event()
    # As when the store's host is frozen: the pulse is in the middle of a call that nobody answers.
    link.shelf._calls.put(answers.wait)
    beats = group.pulse.own.beats
    until(lambda: group.pulse.own.beats > beats)
    stuck = group.pulse.own.beats
    for step in range(1, 1001):
        group.tell(step, 0, 0, "d")
        assert group.newer() is None
        assert group.called(0.0)
        # Its own H_max is near.
        assert not group.called(1.0)
    assert (group.pulse.own.step, group.pulse.own.beats) == (1000, stuck)
    assert group.pulse.link() is link
    answers.set()
    group.leave()


def test_weights_are_hashed_once_a_merge(
    in_group: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = []
    true = outer.hashlib.blake2b

    def counted(*given: Any, **options: Any) -> Any:
        hashed.append(threading.current_thread())
        return true(*given, **options)

    monkeypatch.setattr(outer.hashlib, "blake2b", counted)

    def role(group: Any) -> int:
        model = nn.Linear(3, 2)
        model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(2)})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        attachment = Attachment(
            NOWHERE, NAMES[group.rank], NAMES[:2], Corridor(1, 10), RunClock.real()
        )
        with DiLoCo(model, optimizer, attachment, group) as diloco:
            for _ in range(40):
                model(torch.ones(1, 3)).sum().backward()
                optimizer.step()
        assert diloco.epoch == 4
        return hashed.count(threading.current_thread())

    # One of the first weights.
    assert in_group([role, role]) == [5, 5]
