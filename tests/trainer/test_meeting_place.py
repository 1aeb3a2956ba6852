"""A place where learners meet that has stopped without closing its connections."""

import socket
import threading
from collections.abc import Iterator

import pytest
from learners_in_threads import PATIENCE_S, new_group, until

from trainer.meeting import Meeting
from trainer.shelf import ShelfError


@pytest.fixture
def frozen() -> Iterator[socket.socket]:
    """As the kernel keeps it for a process that is stopped: it connects, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def waiting() -> int:
    """Threads that wait for the answer of a meeting place."""
    return sum(thread.name == "connect store" for thread in threading.enumerate())


def test_a_frozen_meeting_place_is_given_up_and_one_connection_waits_for_it(
    frozen: socket.socket,
) -> None:
    meeting = Meeting("127.0.0.1", frozen.getsockname()[1], timeout_s=0.1)
    for _ in range(3):
        with pytest.raises(ShelfError, match="no answer for"):
            meeting.open()
    assert waiting() == 1
    frozen.close()
    until(lambda: waiting() == 0)
    with pytest.raises(ShelfError, match="nothing listens at"):
        meeting.open()


def test_a_learner_ends_while_the_meeting_place_is_frozen(frozen: socket.socket) -> None:
    group = new_group(frozen.getsockname()[1], "room", "learner-0", quorum=1)
    frozen.settimeout(PATIENCE_S)
    frozen.accept()[0].close()  # It is on its way in.
    leaving = threading.Thread(target=group.leave, daemon=True)
    leaving.start()
    leaving.join(PATIENCE_S)
    assert not leaving.is_alive()
