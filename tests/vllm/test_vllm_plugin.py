"""The class that vLLM loads: it works by `record` alone, and without it the server goes on.

vLLM is not here: its base class stands in, with the abstract methods that the real one has. The
real one is in `test_real_vllm.py`.
"""

import abc
import atexit
import importlib
import logging
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from vllm_statistics import finished, iteration, scheduler

from slackwater.broker import free_port
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from slackwater.vllm.environment import source_of

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "slackwater.vllm.plugin"


class StatLoggerBase(abc.ABC):
    @abc.abstractmethod
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

    @abc.abstractmethod
    def record(self, scheduler_stats: Any, iteration_stats: Any) -> None: ...

    @abc.abstractmethod
    def log_engine_initialized(self) -> None: ...


def config(**parallel: int) -> SimpleNamespace:
    return SimpleNamespace(parallel_config=SimpleNamespace(**parallel))


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics", "vllm.v1.metrics.loggers"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["vllm.v1.metrics.loggers"].StatLoggerBase = StatLoggerBase  # type: ignore[attr-defined]
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "SLACKWATER_SIDECAR", "SLACKWATER_CLOCK"):
        monkeypatch.delenv(name, raising=False)
    module = importlib.import_module(PLUGIN)
    yield module
    for sender in module._senders.values():
        sender.close(timeout_s=20)
        atexit.unregister(sender.close)
    del sys.modules[PLUGIN]


def test_the_entry_point_names_the_class(plugin: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = project["entry-points"]["vllm.stat_logger_plugins"]
    assert group == {"slackwater": f"{PLUGIN}:StatLogger"}
    assert issubclass(plugin.StatLogger, StatLoggerBase)


def test_without_a_broker_s_name_nothing_is_started(
    plugin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logger = plugin.StatLogger(config(), 0)
    logger.record(scheduler(), iteration(finished()))
    assert plugin._senders == {}
    assert "KAFKA_BOOTSTRAP_SERVERS is not set" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_BOOTSTRAP_SERVERS", "nonsense"),
        ("SLACKWATER_CLOCK", "0,0,20.0"),
        ("SLACKWATER_SIDECAR", "x" * 151),
        ("SLACKWATER_SIDECAR", "left\udcff"),
        ("SLACKWATER_RUN_ID", "x" * 201),
        ("SLACKWATER_RUN_ID", "r\udcff"),
    ],
)
def test_settings_that_cannot_be_used_are_said_and_the_server_goes_on(
    plugin: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setenv(name, value)
    logger = plugin.StatLogger(config(), 0)
    logger.record(scheduler(), iteration(finished()))
    assert plugin._senders == {}
    assert "reports nothing of this server" in caplog.text


def test_arguments_that_a_release_adds_are_taken(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{free_port()}")
    logger = plugin.StatLogger(config(), 0, "more", added=1)
    logger.record(scheduler(), iteration(finished()), None, 0, "more", added=1)
    logger.record(engine_idx=0, scheduler_stats=None, iteration_stats=iteration(finished()))
    logger.record(scheduler(), None)
    logger.log_engine_initialized("more", added=1)
    (sender,) = plugin._senders.values()
    (reporter,) = sender.reporters.values()
    assert reporter.counts().recorded >= 3
    assert reporter.counts().faults == 0


def test_a_sender_that_could_not_start_is_not_the_next_engines(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_sender: Any) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{free_port()}")
    with monkeypatch.context() as ill:
        ill.setattr(plugin.Sender, "start", full)
        plugin.StatLogger(config(), 0).record(scheduler(), iteration(finished()))
    assert plugin._senders == {}
    plugin.StatLogger(config(), 0)
    (sender,) = plugin._senders.values()
    assert sender.is_alive()


def test_engines_of_one_server_share_a_sender_and_have_a_name_each(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("SLACKWATER_SIDECAR", "left")
    for engine in (0, 1, 1):
        plugin.StatLogger(config(data_parallel_size=2), engine)
    (sender,) = plugin._senders.values()
    assert list(sender.reporters) == ["left-engine1", "left-engine0"]


@pytest.mark.parametrize(
    ("engine", "parallel", "name", "shared"),
    [
        (0, {}, "left", False),
        (1, {}, "left-engine1", False),
        (0, {"data_parallel_size": 2}, "left-engine0", False),
        (0, {"_api_process_count": 3, "_api_process_rank": 2}, "left-api2", True),
    ],
)
def test_servers_and_engines_are_told_apart(
    engine: int, parallel: dict[str, int], name: str, shared: bool
) -> None:
    settings = RunSettings(bootstrap="127.0.0.1:9")
    source = source_of(config(**parallel), engine, settings, {"SLACKWATER_SIDECAR": "left"})
    assert (source.sidecar, source.shared) == (name, shared)


def test_a_server_without_a_name_has_one_that_no_other_process_has() -> None:
    settings = RunSettings(bootstrap="127.0.0.1:9")
    assert source_of(None, 0, settings, {}).sidecar.endswith(f"-{os.getpid()}")


def test_a_run_faster_than_the_wall_has_no_real_server() -> None:
    with pytest.raises(InputError, match="speed 20"):
        source_of(None, 0, RunSettings(bootstrap="h:1"), {"SLACKWATER_CLOCK": "0,0,20.0"})
