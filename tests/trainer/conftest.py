"""Learners of a group as threads with real gloo between them, or as real processes."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from learners_in_threads import PATIENCE_S, new_group, until

from slackwater.broker import free_port
from slackwater.settings import RunSettings
from trainer.group import GlooGroup
from trainer.meeting import serve

ROOMS = itertools.count()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """For models this small more of them only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def meeting_port() -> Iterator[int]:
    """One meeting place for a whole process of tests."""
    store = serve("127.0.0.1", 0)
    yield store.port
    del store


@pytest.fixture
def in_group(meeting_port: int) -> Callable[..., list[Any]]:
    """Run one function a learner, at once, each with its own `GlooGroup`; returns their results."""

    def run(
        roles: Sequence[Callable[[GlooGroup], Any]],
        *,
        timeout_s: float = 30.0,
        quorum: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Any]:
        room = f"room-{next(ROOMS)}"
        results: list[Any] = [None] * len(roles)
        together = threading.Barrier(len(roles))

        def one(rank: int) -> None:
            group = new_group(
                meeting_port,
                room,
                f"learner-{rank}",
                quorum=quorum or len(roles),
                timeout_s=timeout_s,
                stopping=stopping,
            )
            group.rank = rank
            group.tell(0, 0, 0, "")
            try:
                until(lambda: len(group.pulse.alive()) == len(roles))
                together.wait()
                results[rank] = roles[rank](group)
            except Exception as error:
                results[rank] = error
            # Who leaves too early would end what the others are in the middle of.
            together.wait()
            group.leave()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(roles))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        return results

    return run


class Process:
    """One `slackwater trainer` process."""

    def __init__(self, folder: Path, learner: str, options: Sequence[str], env: dict[str, str]):
        self.name = learner
        self._ready = folder / f"{learner}.ready"
        command = [sys.executable, "-m", "slackwater", "trainer", "--learner", learner, *options]
        self.process = subprocess.Popen(
            [*command, "--ready-file", str(self._ready), "--json"],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready.exists():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def summary(self) -> dict[str, Any]:
        """Its last words, once it has ended well."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err
        return dict(json.loads(out))


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., list[Process]]]:
    """Start a group of learners and wait until they have met."""
    started: list[Process] = []

    def start(settings: RunSettings, *options: str, learners: int = 2) -> list[Process]:
        names = [f"learner-{rank}" for rank in range(learners)]
        port = str(free_port())
        for rank, name in enumerate(names):
            env = {
                "RANK": str(rank),
                "WORLD_SIZE": str(learners),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap,
                "SLACKWATER_TOPIC_PREFIX": settings.prefix,
                "SLACKWATER_RUN_ID": settings.run_id,
            }
            given = ["--participants", ",".join(names), *options]
            started.append(Process(tmp_path, name, given, env))
        for one in started:
            one.until_ready()
        return started

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()
