"""The place where learners meet: torch's TCP store, in a process that trains nothing.

A store that lives in a learner dies with it. `slackwater group serve` runs one by itself: it may be
killed and started again, and the learners find each other there anew. torchrun's own store does
as well. Without either, learner 0 serves, and while it is away nobody can merge.
"""

import contextlib
import queue
import socket
import threading
from dataclasses import dataclass, field
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from slackwater.errors import InputError
from trainer.shelf import Shelf, ShelfError

CONNECT_S = 1.0
MAX_PORT = 65535


@dataclass
class Meeting:
    """An address, and the part of its store that is one group's.

    Attributes:
        host, port: where the store listens.
        room: names run and group; what others lay down there is not seen.
        timeout_s: an answer that takes longer is none.
        serves: true to listen there when nobody does.
    """

    host: str
    port: int
    room: str = "default"
    timeout_s: float = 5.0
    serves: bool = False
    _server: Store | None = field(default=None, init=False)
    # A connection that nobody answered in time; the host may answer it yet.
    _stuck: threading.Thread | None = field(default=None, init=False)

    def open(self) -> Shelf:
        """A new connection; raises `ShelfError` when nobody answers."""
        return Shelf(self.store(), self.timeout_s)

    def store(self) -> Store:
        """The same for gloo, which waits in it at length; raises `ShelfError`."""
        if self.serves and self._server is None and not answers(self.host, self.port):
            self._server = serve(self.host, self.port)
        if self._stuck is not None and self._stuck.is_alive():
            raise self._silence()
        if not answers(self.host, self.port):
            msg = f"nothing listens at {self.host}:{self.port}"
            raise ShelfError(msg)
        return PrefixStore(f"slackwater/{self.room}", self._connected())

    def _connected(self) -> TCPStore:
        # torch's own time-out does not hold while the host is frozen, so another thread waits.
        found: queue.SimpleQueue[TCPStore | RuntimeError] = queue.SimpleQueue()

        def connect() -> None:
            try:
                store = TCPStore(
                    self.host,
                    self.port,
                    is_master=False,
                    timeout=timedelta(seconds=self.timeout_s),
                    wait_for_workers=False,
                )
            except RuntimeError as error:
                found.put(error)
            else:
                found.put(store)

        thread = threading.Thread(target=connect, name="connect store", daemon=True)
        thread.start()
        try:
            store = found.get(timeout=self.timeout_s)
        except queue.Empty:
            self._stuck = thread
            raise self._silence() from None
        if isinstance(store, RuntimeError):
            raise ShelfError(str(store).partition("\n")[0][:120]) from store
        return store

    def _silence(self) -> ShelfError:
        return ShelfError(f"no answer for {self.timeout_s:g} s")

    def own_address(self) -> str:
        """The address by which others reach this host; that of the way to the store."""
        if is_loopback(self.host):
            return "127.0.0.1"
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
            probe.connect((self.host, self.port))
            return str(probe.getsockname()[0])
        return socket.gethostname()


def serve(host: str, port: int) -> TCPStore:
    """A store at this address alone (torch by itself would listen on every interface).

    It serves as long as the object lives. Raises `InputError` when it cannot listen there.
    """
    if not 0 <= port <= MAX_PORT:
        msg = f"cannot listen at port {port}; it must be from 0 to {MAX_PORT}"
        raise InputError(msg)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        msg = f"cannot listen at {host}:{port}: {error.strerror}; choose another port"
        raise InputError(msg) from None
    listener.listen()
    return TCPStore(
        host,
        listener.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def answers(host: str, port: int) -> bool:
    """True when something listens there."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """True for an address that this host alone can reach."""
    return host == "localhost" or host.startswith("127.")
