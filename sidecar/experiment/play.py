"""Plays the blocks of a design: load on the server, learners as the arm wants them, merges."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from sidecar.experiment.design import Design, Planned
from sidecar.experiment.merging import MergeError, Merging
from sidecar.experiment.record import WARM_UP, Merge, PlayedBlock, Record
from sidecar.load import (
    MIN_ANSWERED,
    Account,
    Anchor,
    Endpoint,
    Limits,
    LoadReport,
    LoadThread,
    Outcome,
    start_open_loop,
)
from slackwater.clock import US_PER_S
from slackwater.errors import SlackwaterError
from slackwater.testbed.signals import Interrupted

WAIT_S = 0.05
SHOW_S = 0.5
GIVE_UP_S = 5.0
LONGEST_WARM_UP_S = 600.0
REFUSED_IN_A_ROW = 3
GONE_REQUESTS = 5
"""So many at a block's end that fail, all of them: the server has gone."""
MOST_LAG_S = 1.0
"""A client that is later has been stopped: what it measures is itself."""
MOST_STANDSTILLS = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an experiment is.

    Attributes:
        what: in words.
        left_s: of the design.
        requests, merges: so far, in all blocks; merges of the warm-up left out.
    """

    what: str
    left_s: float
    requests: int
    merges: int


@dataclass
class Experiment:
    """One run of what is left of a design; call `run` once.

    Attributes:
        record: what was played is added here.
        endpoint: the server.
        merging: who merges; started already.
        anchor: the clock of everything.
        stopping: true once a person wants the end.
        show: told where it is.
        limits: of the load client.
        hastening: true once a person wants no answer waited for any more.
        say: told in words what is waited for.
    """

    record: Record
    endpoint: Endpoint
    merging: Merging
    anchor: Anchor
    stopping: Callable[[], bool]
    show: Callable[[Progress], None]
    limits: Limits
    hastening: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._requests = self._merges = 0
        self._left_s = 0.0
        self._last_s = 0.0
        self._refused = self._stood = 0
        self._arm = ""
        self._began_s = self._shown_s = time.monotonic()

    @property
    def design(self) -> Design:
        """What is played."""
        return self.record.set_up.design

    def run(self) -> bool:
        """Play every block that is not complete; false when a person ended it before that.

        Raises `SlackwaterError` when the server or the learners fail; what was played is recorded.
        """
        todo = [block for block in self.design.planned() if block.number not in self.record.played]
        if not todo:
            return True
        self._left_s = len(todo) * self.design.length_s
        try:
            self._warm_up()
            for number, block in enumerate(todo):
                self._left_s = (len(todo) - number) * self.design.length_s
                while block.number not in self.record.played:
                    self._play(block)
        except Interrupted:
            return False
        return True

    def _warm_up(self) -> None:
        """First requests and first merges run slow, whatever the arms: they are discarded."""
        self.merging.train(self.check)
        # Any generator will do: nothing of it is measured.
        rng = np.random.default_rng(self.design.seed)
        planned = Planned(number=-1, round=-1, arm="merges")
        load = self.design.arrivals(rng, LONGEST_WARM_UP_S)
        block = _Block(self, planned, load, WARM_UP)

        def merges() -> None:
            self._sleep(self.design.warm_up_s)
            while sum(merge.done for merge in block.merges) < self.design.discarded:
                block.merges.append(self._merge(f"warm-up-{len(block.merges)}"))
                self._sleep(self.design.pause_s[0])
            block.load.stop()

        block.play(merges)

    def _play(self, planned: Planned) -> None:
        if planned.arm == "nothing":
            self.merging.rest(self.check)
        else:
            self.merging.train(self.check)
        block = _Block(self, planned, self.design.schedule(planned), planned.arm)
        block.play(lambda: self._merges_of(block) if planned.arm == "merges" else None)

    def _merges_of(self, block: "_Block") -> None:
        """Merges at random moments: one at least, then none that could not end in time.

        How long one takes is taken from the last: the first ones run slow.
        """
        end_s = block.began_s + self.design.length_s
        self._sleep(self.design.settle_s)
        for pause_s in self.design.pauses(block.planned):
            if block.merges and time.monotonic() + pause_s + self._last_s > end_s:
                return
            self._sleep(pause_s)
            name = f"b{block.planned.number}m{len(block.merges)}"
            merge = self._merge(name)
            block.merges.append(merge)

    def _merge(self, name: str) -> Merge:
        merge = self.merging.merge(name, self.check)
        self._last_s = (merge.end_us - merge.start_us) / US_PER_S
        self._merges += merge.done and self._arm != WARM_UP
        self._refused = 0 if merge.done else self._refused + 1
        if self._refused >= REFUSED_IN_A_ROW:
            msg = f"{self._refused} merges in a row were not made: {merge.reason}"
            raise MergeError(msg)
        return merge

    def _sleep(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self.check()
            time.sleep(min(WAIT_S, left_s))

    def check(self) -> None:
        """Show where it is, every half second; raises `Interrupted` once a person wants the end."""
        if self.stopping():
            raise Interrupted
        now_s = time.monotonic()
        if now_s - self._shown_s >= SHOW_S:
            self._shown_s = now_s
            played_s = 0.0 if self._arm == WARM_UP else now_s - self._began_s
            left_s = max(0.0, self._left_s - played_s)
            self.show(Progress(self._arm, left_s, self._requests, self._merges))

    def begin(self, arm: str) -> float:
        """A block begins; returns when."""
        self._arm, self._began_s = arm, time.monotonic()
        return self._began_s

    def take(self, block: PlayedBlock) -> None:
        """Record a block, as whole where it can be measured by.

        Raises `SlackwaterError` when most of its requests found no answer, or the last ones none.
        """
        gone = block.complete and unanswered(block.requests)
        late_s = longest_lag_s(block.requests)
        measured = block.complete and block.arm != WARM_UP
        stood = measured and not gone and late_s > MOST_LAG_S
        self.record.add(msgspec.structs.replace(block, complete=False) if gone or stood else block)
        self._requests += len(block.requests)
        if gone:
            errors = [one.error or one.status for one in block.requests if one.status != "ok"]
            said = max(set(errors), key=errors.count)
            msg = (
                f"{len(errors)} of {len(block.requests)} requests of a block found no answer: "
                f"{said}; is the server well? --resume {self.record.path} plays the block anew"
            )
            raise SlackwaterError(msg)
        if stood:
            self._stood += 1
            self.say(f"the client was {late_s:.1f} s late: the block is played anew")
            if self._stood > MOST_STANDSTILLS:
                msg = (
                    f"the client was late in {self._stood} blocks, by {late_s:.1f} s now: "
                    "nothing can be measured from here; give this machine less to do, then "
                    f"--resume {self.record.path}"
                )
                raise SlackwaterError(msg)


def unanswered(requests: Sequence[Outcome]) -> bool:
    """Whether most found no answer, or the server was gone at the end."""
    answered = sum(one.status == "ok" for one in requests)
    last = sorted(requests, key=lambda one: one.scheduled_us)[-GONE_REQUESTS:]
    gone = len(last) == GONE_REQUESTS and all(one.status == "error" for one in last)
    return gone or answered < MIN_ANSWERED * len(requests)


def longest_lag_s(requests: Sequence[Outcome]) -> float:
    """How late the client was at the most; 0 where it sent nothing."""
    return max((one.lag_s for one in requests if one.lag_s is not None), default=0.0)


def waiting(answers: int, *, again: bool) -> str:
    """What a person is told who wants the end while requests are in flight."""
    return f"waiting for answers: {answers} to come; Ctrl-C {'again' if again else 'twice'} ends it"


class _Block:
    """One block under way."""

    def __init__(self, owner: Experiment, planned: Planned, schedule: list, arm: str) -> None:  # type: ignore[type-arg]
        self._owner = owner
        self.planned = planned
        self._arm = arm
        self._schedule = schedule
        self.merges: list[Merge] = []
        self._outcomes: list[Outcome] = []
        self._account = Account()
        self.load: LoadThread
        self.began_s = 0.0

    def play(self, merges: Callable[[], None]) -> None:
        """Send the load, do `merges` beside it, wait for the last answer and record it all."""
        owner = self._owner
        self.load = start_open_loop(
            owner.endpoint,
            self._schedule,
            on_outcome=self._outcomes.append,
            anchor=owner.anchor,
            limits=owner.limits,
            account=self._account,
        )
        self.began_s = owner.begin(self._arm)
        began_us = owner.anchor.now_us()
        complete = False
        try:
            merges()
            while self.load.is_alive():
                owner.check()
                self.load.join(WAIT_S)
            complete = True
        finally:
            self.load.stop()
            report = self._ended()
            began_us = began_us if report is None else report.started_us
            self._record(complete, began_us, 0.0 if report is None else report.client_cpu_s)

    def _ended(self) -> LoadReport | None:
        """What the client did, once the last answer is there; None where those were given up."""
        owner = self._owner
        until_s = time.monotonic() + owner.limits.timeout_s + 10
        while self.load.is_alive() and time.monotonic() < until_s:
            if answers := self._account.in_flight:
                owner.say(waiting(answers, again=owner.stopping()))
            if owner.hastening():
                self.load.abort()
                self.load.join(GIVE_UP_S)
                return None
            self.load.join(WAIT_S)
        return self.load.result(GIVE_UP_S)

    def _record(self, complete: bool, began_us: int, client_cpu_s: float) -> None:
        owner, design = self._owner, self._owner.design
        owner.take(
            PlayedBlock(
                number=self.planned.number,
                round=self.planned.round,
                arm=self._arm,  # type: ignore[arg-type]
                began_us=began_us,
                start_us=began_us + round(design.settle_s * US_PER_S),
                end_us=began_us + round(design.length_s * US_PER_S),
                complete=complete,
                client_cpu_s=client_cpu_s,
                merges=self.merges,
                requests=self._outcomes,
            )
        )
