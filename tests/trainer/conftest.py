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
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore

from slackwater.broker import EmbeddedBroker, free_port
from slackwater.codec import Codec
from slackwater.events import MergeCommand
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES
from slackwater.transport import BatchProducer, make_topics, reader
from trainer.group import GlooGroup
from trainer.shelf import Shelf

PATIENCE_S = 40.0
NUMBERS = itertools.count()


@pytest.fixture
def in_group() -> Callable[..., list[Any]]:
    """Run one function a rank, at once, each with its own `GlooGroup`; returns their results."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"

    def run(
        roles: Sequence[Callable[[GlooGroup], Any]],
        *,
        timeout_s: float = 30.0,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Any]:
        store = HashStore()
        names = [f"learner-{rank}" for rank in range(len(roles))]
        results: list[Any] = [None] * len(roles)

        def one(rank: int) -> None:
            meeting = PrefixStore("gloo", store)
            patience = timedelta(seconds=timeout_s)
            gloo: Any = dist.ProcessGroupGloo(meeting, rank, len(roles), patience)
            group = GlooGroup(Shelf(store, 5.0), gloo, rank, names, timeout_s, stopping)
            try:
                results[rank] = roles[rank](group)
            except Exception as error:
                results[rank] = error

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


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def settings(broker: EmbeddedBroker) -> RunSettings:
    prefix = f"trainer{next(NUMBERS)}"
    make_topics(broker.bootstrap, prefix, partitions=1)
    return RunSettings(bootstrap=broker.bootstrap, prefix=prefix, run_id="run-1")


class Controller:
    """Commands merges, and reads what learners say."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._producer = BatchProducer(settings.bootstrap, settings.prefix)
        self._consumer = reader(
            settings.bootstrap, (LEARNERS, MERGES), settings.prefix, from_start=True
        )
        self.said: list[Any] = []

    def merge(self, merge_id: str, at_step: int, participants: list[str]) -> None:
        now_us = time.time_ns() // 1000
        command = MergeCommand(
            run_id=self._settings.run_id,
            at_us=now_us,
            group=self._settings.group,
            merge_id=merge_id,
            at_step=at_step,
            deadline_us=now_us + 60_000_000,
            window_s=8.0,
            reason="score",
            participants=participants,
        )
        self._producer.send(COMMANDS, self._settings.group, command)
        assert self._producer.flush()

    def hears(self, wanted: Callable[[list[Any]], Any]) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(self.said):
            assert time.monotonic() < deadline, self.said[-20:]
            for partition, records in self._consumer.poll(timeout_ms=20).items():
                merges = partition.topic == MERGES.name(self._settings.prefix)
                for record in records:
                    self.said += Codec(MERGES if merges else LEARNERS).decode(record.value).events
        return self.said

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


@pytest.fixture
def controller(settings: RunSettings) -> Iterator[Controller]:
    speaking = Controller(settings)
    yield speaking
    speaking.close()
