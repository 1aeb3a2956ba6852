"""The shared state from a member to one that comes late: a plain socket beside the training.

What all members hold alike between two merges is all that a newcomer needs: shared weights and
outer momentum, with the epoch they are of. A member hands them over from a thread and trains on.
One header line of JSON, then the raw bytes of each tensor.
"""

import contextlib
import hashlib
import io
import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import torch

MAX_HEADER_BYTES = 1 << 20
SEND_TIMEOUT_S = 60.0
# A slower way than this is none for training together.
LEAST_BYTES_PER_S = 10e6
RETRY_S = 0.3

log = logging.getLogger("trainer.group")


class HandoverError(Exception):
    """The state did not arrive, or not whole."""


class _Tensor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    shape: list[int]
    bits: Literal[32, 64] = 32


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    step: int
    last_merge_step: int
    digest: str
    tensors: list[_Tensor]
    check: str


class SharedState(msgspec.Struct, frozen=True, kw_only=True):
    """What all members hold alike, and where the one that gives it stands.

    Attributes:
        epoch: merges that the weights have been through.
        step, last_merge_step: of the giver.
        digest: of the shared weights.
        tensors: float32 or float64, by name.
    """

    epoch: int
    step: int
    last_merge_step: int
    digest: str
    tensors: dict[str, Any]


class Handover(threading.Thread):
    """Gives the shared state to whoever asks at `port`.

    Args:
        host: address to listen at.
        read: a copy of the state, consistent; called in this thread.
    """

    def __init__(self, host: str, read: Callable[[], SharedState]) -> None:
        super().__init__(name="handover", daemon=True)
        self._listener = socket.create_server((host, 0))
        self._read = read
        self._closing = threading.Event()
        self.port: int = self._listener.getsockname()[1]

    def run(self) -> None:
        """One after another: two newcomers at once are rare, and this host also serves traffic."""
        while not self._closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError as error:
                # Closed, as the learner ends; or short of something, such as files to open.
                if not self._closing.wait(RETRY_S):
                    log.warning("cannot hear who asks for the shared state: %s", error)
                continue
            with peer:
                peer.settimeout(SEND_TIMEOUT_S)
                try:
                    self._give(peer)
                except OSError:
                    continue  # The newcomer went away; it asks again if it comes back.
                except Exception:
                    # It asks another member; this one is to be there for the next.
                    log.exception("the shared state could not be given")

    def close(self) -> None:
        """Give no more."""
        self._closing.set()
        # A thread in `accept` is woken by a shutdown, not by a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _give(self, peer: socket.socket) -> None:
        state = self._read()
        raws = {name: tensor.contiguous().numpy().data for name, tensor in state.tensors.items()}
        header = _Header(
            epoch=state.epoch,
            step=state.step,
            last_merge_step=state.last_merge_step,
            digest=state.digest,
            tensors=[_described(name, tensor) for name, tensor in state.tensors.items()],
            check=_check(raws),
        )
        peer.sendall(msgspec.json.encode(header) + b"\n")
        for raw in raws.values():
            peer.sendall(raw)


def fetch(host: str, port: int, timeout_s: float) -> SharedState:
    """The shared state of the member that listens there; raises `HandoverError`.

    Within `timeout_s` all must be there, and what is large in as much more as it takes at
    `LEAST_BYTES_PER_S`: a caller's training waits meanwhile.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as peer:
            arriving = _Arriving(peer, deadline_s)
            file = io.BufferedReader(arriving)
            header = msgspec.json.decode(file.readline(MAX_HEADER_BYTES), type=_Header)
            arriving.deadline_s += sum(map(_size_bytes, header.tensors)) / LEAST_BYTES_PER_S
            tensors = {one.name: _receive(file, one) for one in header.tensors}
    except (OSError, msgspec.DecodeError) as error:
        msg = f"the shared state did not arrive from {host}:{port}: {error}"
        raise HandoverError(msg) from error
    if _check({name: tensor.numpy().data for name, tensor in tensors.items()}) != header.check:
        msg = f"the shared state from {host}:{port} arrived damaged"
        raise HandoverError(msg)
    return SharedState(
        epoch=header.epoch,
        step=header.step,
        last_merge_step=header.last_merge_step,
        digest=header.digest,
        tensors=tensors,
    )


class _Arriving(io.RawIOBase):
    """What a peer sends; raises `TimeoutError` once a monotonic time has come."""

    def __init__(self, peer: socket.socket, deadline_s: float) -> None:
        self._peer = peer
        self.deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            msg = "it took too long"
            raise TimeoutError(msg)
        self._peer.settimeout(left_s)
        return self._peer.recv_into(buffer)


def _size_bytes(about: _Tensor) -> int:
    return math.prod(about.shape) * about.bits // 8


def _described(name: str, tensor: torch.Tensor) -> _Tensor:
    return _Tensor(
        name=name, shape=list(tensor.shape), bits=64 if tensor.dtype == torch.float64 else 32
    )


def _receive(file: Any, about: _Tensor) -> torch.Tensor:
    tensor = torch.empty(about.shape, dtype=torch.float64 if about.bits == 64 else torch.float32)
    view = tensor.numpy().reshape(-1).data.cast("B")
    got = 0
    while got < len(view):
        count = file.readinto(view[got:])
        if not count:
            msg = "it ended too early"
            raise OSError(msg)
        got += count
    return tensor


def _check(raws: dict[str, memoryview]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, raw in raws.items():
        digest.update(name.encode())
        digest.update(raw)
    return digest.hexdigest()
