"""How the learners of a group find each other at the start."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from slackwater.errors import InputError, SlackwaterError
from trainer.group import GlooGroup
from trainer.shelf import Shelf, ShelfError

STORE_TIMEOUT_S = 5.0
LOOK_AGAIN_S = 0.01


class JoinError(SlackwaterError):
    """The group did not come together."""


class StoppedError(Exception):
    """This process was told to end before the group was together."""


@dataclass(frozen=True, slots=True)
class Place:
    """This process's place among the learners, as torchrun's environment variables give it.

    Attributes:
        rank: 0 to world_size - 1.
        world_size: how many learners there are.
        address: host and port where the ranks meet.
        hosted: True when torchrun itself listens there, else rank 0 does.
    """

    rank: int = 0
    world_size: int = 1
    address: tuple[str, int] = ("127.0.0.1", 29500)
    hosted: bool = False

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Place":
        """RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; raises `InputError` when they are odd.

        Without WORLD_SIZE the learner is alone.
        """
        world_size = _whole(env, "WORLD_SIZE", "1")
        if world_size == 1:
            return cls()
        rank, port = _whole(env, "RANK"), _whole(env, "MASTER_PORT")
        if world_size < 1 or not 0 <= rank < world_size or not 0 < port < 65536:
            msg = (
                f"RANK={rank} WORLD_SIZE={world_size} MASTER_PORT={port}: "
                "RANK must be below WORLD_SIZE and the port from 1 to 65535"
            )
            raise InputError(msg)
        hosted = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return cls(rank, world_size, (env.get("MASTER_ADDR", "127.0.0.1"), port), hosted)


def join(
    place: Place,
    names: Sequence[str],
    start: str,
    *,
    timeout_s: float,
    join_timeout_s: float,
    stopping: Callable[[], bool],
) -> GlooGroup:
    """Meet the other ranks; returns once all are connected.

    Args:
        place: where, and as which rank.
        names: all learners' names, by rank.
        start: what all must have in common, the digest of the first weights.
        timeout_s: how long a peer may be silent, later on; wall time, as all here.
        join_timeout_s: how long to wait for the others now.
        stopping: true once this process should end.

    Raises `JoinError` when they do not come or start from something else, `InputError` when rank
    0 cannot listen at the address, `StoppedError` when `stopping` came first.
    """
    deadline = time.monotonic() + join_timeout_s
    store = _open_store(place, deadline, stopping)
    shelf = Shelf(store, STORE_TIMEOUT_S)
    try:
        shelf.put(f"start/{place.rank}", start)
        while absent := [n for r, n in enumerate(names) if not shelf.has(f"start/{r}")]:
            _check_time(deadline, stopping, f"{', '.join(absent)} did not come")
            time.sleep(LOOK_AGAIN_S)
        starts = [shelf.get(f"start/{rank}") for rank in range(place.world_size)]
    except ShelfError as error:
        msg = f"the learner that the others meet at is gone: {error}; start the group again"
        raise JoinError(msg) from error
    for name, other in zip(names, starts, strict=True):
        if other != start:
            msg = f"{name} starts from other weights; give all learners the same --seed and size"
            raise JoinError(msg)
    if _is_loopback(place.address[0]):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = PrefixStore("gloo", store)
    timeout = timedelta(seconds=timeout_s)
    try:
        gloo: Any = dist.ProcessGroupGloo(meeting, place.rank, place.world_size, timeout)
    except RuntimeError as error:
        msg = f"the learners could not connect: {str(error).partition(chr(10))[0]}"
        raise JoinError(msg) from error
    return GlooGroup(shelf, gloo, place.rank, names, timeout_s, stopping)


def _open_store(place: Place, deadline: float, stopping: Callable[[], bool]) -> Store:
    host, port = place.address
    timeout = timedelta(seconds=STORE_TIMEOUT_S)
    if place.rank == 0 and not place.hosted:
        listener = _listen(host, port)
        return TCPStore(
            host,
            port,
            is_master=True,
            timeout=timeout,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
    while not _answers(host, port):
        _check_time(deadline, stopping, f"nothing listens at {host}:{port}")
        time.sleep(LOOK_AGAIN_S)
    return TCPStore(host, port, is_master=False, timeout=timeout, wait_for_workers=False)


def _listen(host: str, port: int) -> socket.socket:
    """Listen at this address alone; torch by itself would on every interface."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        msg = f"cannot listen at MASTER_ADDR:MASTER_PORT {host}:{port}: {error.strerror}"
        raise InputError(msg) from None
    listener.listen()
    return listener


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _check_time(deadline: float, stopping: Callable[[], bool], what: str) -> None:
    if stopping():
        raise StoppedError(what)
    if time.monotonic() > deadline:
        msg = f"{what} in time; start all learners of the group"
        raise JoinError(msg)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.")


def _whole(env: Mapping[str, str], name: str, default: str | None = None) -> int:
    text = env.get(name, default)
    if text is None or not text.isdigit():
        msg = f"{name} is {text!r}; it must be a whole number, as torchrun sets it"
        raise InputError(msg)
    return int(text)
