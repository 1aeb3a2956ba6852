"""The thread that keeps a member known, and the one that gives its weights, through what fails."""

import contextlib
import itertools
import socket
import threading
import time
from typing import Any, NoReturn

import pytest
from learners_in_threads import NOTHING, until

from slackwater.errors import InputError
from trainer.handover import Handover, HandoverError, SharedState, fetch
from trainer.meeting import Meeting
from trainer.pulse import Link, Pulse
from trainer.roster import Member, Roster
from trainer.rounds import Round
from trainer.shelf import Shelf, ShelfError
from trainer.wire import WireError, connect

ROOMS = itertools.count()


def member(name: str, epoch: int) -> Member:
    return Member(name=name, nonce=name, epoch=epoch, digest=f"d{epoch}", training=True)


def test_a_state_that_cannot_be_read_once_is_given_the_next_time() -> None:
    failures = [MemoryError("no room for a copy")]

    def read() -> SharedState:
        if failures:
            raise failures.pop()
        return NOTHING

    handover = Handover("127.0.0.1", read)
    handover.start()
    with pytest.raises(HandoverError):
        fetch("127.0.0.1", handover.port, 5.0)
    assert fetch("127.0.0.1", handover.port, 5.0).digest == NOTHING.digest
    handover.close()
    handover.join(5.0)
    assert not handover.is_alive()


class Short(socket.socket):
    """A listener that is short of files once."""

    failures = 1

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(24, "Too many open files")
        return super().accept()


def test_a_listener_that_is_short_of_files_hears_the_next_that_asks() -> None:
    handover = Handover("127.0.0.1", lambda: NOTHING)
    handover._listener = Short(fileno=handover._listener.detach())
    handover.start()
    assert fetch("127.0.0.1", handover.port, 5.0).digest == NOTHING.digest
    handover.close()
    handover.join(5.0)
    assert not handover.is_alive()


def test_who_gave_nothing_is_asked_after_the_others() -> None:
    roster = Roster(member("own", 0), 9.0)
    for slot, name in enumerate("abc"):
        roster.see(slot, member(name, 1), 0.0)
    asked = []
    for _ in range(4):
        found = roster.ahead(1.0)
        assert found is not None
        asked.append(found.name)
        roster.in_vain(found)
    assert asked == ["a", "b", "c", "a"]


class Occupied(Meeting):
    """Its second opening comes while another process takes the address."""

    openings = 0
    fails_at = 2

    def open(self) -> Shelf:
        self.openings += 1
        if self.openings == self.fails_at:
            msg = "cannot listen at this address"
            raise InputError(msg)
        return super().open()


def pulse_at(meeting: Meeting) -> Pulse:
    pulse = Pulse(meeting, member("own", 0), 9.0)
    pulse.start()
    return pulse


def linked(pulse: Pulse) -> bool:
    return pulse._link is not None


def test_an_address_that_is_taken_ends_the_pulse_at_the_start_and_never_later(
    meeting_port: int,
) -> None:
    pulse = pulse_at(Occupied("127.0.0.1", meeting_port, f"pulse-{next(ROOMS)}"))
    until(lambda: linked(pulse))
    first = pulse.link()
    pulse.lose(first)
    until(lambda: linked(pulse) or not pulse.is_alive())
    assert pulse.link().slot == 2
    with pytest.raises(ShelfError, match="closed"):
        first.shelf.get("slots")
    pulse.stop()
    meeting = Occupied("127.0.0.1", meeting_port, f"pulse-{next(ROOMS)}")
    meeting.fails_at = 1
    pulse = pulse_at(meeting)
    pulse.join(5.0)
    assert isinstance(pulse.failure, InputError)


def test_a_word_that_cannot_be_read_does_not_end_the_pulse(meeting_port: int) -> None:
    pulse = pulse_at(Meeting("127.0.0.1", meeting_port, f"pulse-{next(ROOMS)}"))
    until(lambda: linked(pulse))
    shelf = pulse._meeting.open()
    slot = shelf.add("slots", 1)
    shelf.put(f"member/{slot}", "no member")
    until(lambda: not linked(pulse))
    with pytest.raises(ShelfError, match="DecodeError"):
        pulse.link()
    shelf.put(f"member/{slot}", '{"name":"other","nonce":"n"}')
    until(lambda: linked(pulse) or not pulse.is_alive())
    assert pulse.is_alive()
    shelf.close()
    pulse.stop()


class Asked:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def test_a_donor_that_trickles_is_given_up_at_one_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, contextlib.suppress(OSError):
            while True:
                peer.sendall(b" ")
        ended.set()

    monkeypatch.setattr("trainer.handover.time.monotonic", Asked())
    # No end of line within so many bytes: only a deadline ends it.
    monkeypatch.setattr("trainer.handover.MAX_HEADER_BYTES", 1 << 40)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        with pytest.raises(HandoverError, match="it took too long"):
            fetch("127.0.0.1", listener.getsockname()[1], 20.0)
        assert ended.wait(20.0)


class Silent(Meeting):
    """Its host accepts and does not answer, until the test is over."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 1, timeout_s=0.05)
        self.opened, self.over = threading.Event(), threading.Event()

    def open(self) -> Shelf:
        self.opened.set()
        self.over.wait()
        msg = "over"
        raise ShelfError(msg)


def test_a_learner_leaves_though_its_meeting_place_does_not_answer() -> None:
    meeting = Silent()
    pulse = pulse_at(meeting)
    assert meeting.opened.wait(20.0)
    pulse.stop()
    assert pulse.is_alive()
    meeting.over.set()
    pulse.join(20.0)
    assert not pulse.is_alive()


def test_whatever_fails_in_connecting_ends_the_wait_for_it() -> None:
    class Broken(Meeting):
        def store(self) -> NoReturn:
            msg = "cannot listen at this address"
            raise InputError(msg)

    shelf: Any = None  # Connecting asks nothing of it.
    current = Round(
        number=0,
        link=Link(shelf, 1),
        slots=(1, 2),
        names=("a", "b"),
        generation=1,
        cards=[],
        deadline_s=time.monotonic() + 60.0,
    )
    with pytest.raises(WireError, match="connecting: cannot listen at this address"):
        connect(Broken("127.0.0.1", 1), current, 60.0, lambda: False)
