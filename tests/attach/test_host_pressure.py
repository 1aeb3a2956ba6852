"""Pressure of the host by the real psutil, and how a trainer's own figures win over it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from slackwater.attach import Attachment, Corridor, HostPressure
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.events import Step
from slackwater.settings import RunSettings


def test_rates_are_unknown_at_the_first_look_and_memory_is_known_at_once() -> None:
    network, disk, memory = HostPressure(network_bytes_per_s=1.0, disk_bytes_per_s=1.0).read()
    assert (network, disk) == (None, None)
    assert memory is not None
    assert 0 < memory < 1


def test_what_nobody_says_the_network_can_carry_is_unknown_and_not_zero() -> None:
    now_s = [0.0]
    pressure = HostPressure(monotonic=lambda: now_s[0])
    pressure.read()
    now_s[0] = 1.0
    assert pressure.read()[0] is None


def test_rates_are_shares_of_what_is_possible_and_looked_at_once_a_second(tmp_path: Path) -> None:
    now_s = [0.0]
    given = {"network_bytes_per_s": 1e15, "disk_bytes_per_s": 1e15}
    pressure = HostPressure(**given, monotonic=lambda: now_s[0])
    first = pressure.read()
    with (tmp_path / "checkpoint").open("wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    now_s[0] = 0.9
    assert pressure.read() is first
    now_s[0] = 1.0
    network, disk, _ = pressure.read()
    # A counter that this kernel does not keep stays unknown.
    has_nic = any(nic != "lo" for nic in psutil.net_io_counters(pernic=True))
    assert (network is None) is not has_nic
    assert network is None or 0 <= network < 1e-3
    assert (disk is None) is (psutil.disk_io_counters() is None)
    assert disk is None or 0 <= disk < 1e-3


def test_no_more_than_all_of_it_is_used() -> None:
    now_s = [0.0]
    pressure = HostPressure(disk_bytes_per_s=1e-9, monotonic=lambda: now_s[0])
    pressure.read()
    now_s[0] = 1.0
    assert pressure.read()[1] in {None, 0.0, 1.0}


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        HostPressure(network_bytes_per_s=rate)


@pytest.mark.kafka
def test_steps_carry_the_hosts_pressure_unless_the_trainer_gives_its_own(
    settings: RunSettings, controller: Any
) -> None:
    with Attachment(
        settings, "a", ["a"], Corridor(5, 1000), RunClock.real(), pressure=HostPressure()
    ) as learner:
        learner.on_step(1, 1.0, 8)
        learner.on_step(2, 1.0, 8, memory_pressure=0.25, network_pressure=0.0)
        said = controller.hears(lambda said: sum(isinstance(e, Step) for e in said) == 2)
    by_step = {e.step: e for e in said if isinstance(e, Step)}
    assert by_step[1].network_pressure is None
    assert 0 < by_step[1].memory_pressure < 1
    assert (by_step[2].memory_pressure, by_step[2].network_pressure) == (0.25, 0.0)


def test_psutil_is_imported_only_where_it_is_asked_for() -> None:
    code = "import sys, slackwater.attach as a; b = 'psutil' in sys.modules; a.HostPressure(); "
    code += "print(b, 'psutil' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


def test_where_the_kernel_shows_no_disks_the_rest_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exists = os.path.exists
    hidden = {"/proc/diskstats", "/sys/block"}
    monkeypatch.setattr(os.path, "exists", lambda path: path not in hidden and exists(path))
    with pytest.raises(NotImplementedError):
        psutil.disk_io_counters()
    pressure = HostPressure(network_bytes_per_s=1e15, disk_bytes_per_s=1.0)
    _, disk, memory = pressure.read()
    assert disk is None
    assert memory is not None


def test_a_pressure_that_cannot_be_read_costs_no_step(caplog: pytest.LogCaptureFixture) -> None:
    pressure = HostPressure(monotonic=lambda: 1 / 0)
    settings = RunSettings(bootstrap="127.0.0.1:9")
    learner = Attachment(
        settings, "a", ["a"], Corridor(5, 1000), RunClock.real(), pressure=pressure
    )
    learner.on_step(1, 1.0, 8)
    learner.on_step(2, 1.0, 8)
    steps = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    assert [(step.step, step.memory_pressure) for step in steps] == [(1, None), (2, None)]
    assert learner.summary().errors == 2
    assert len(caplog.records) == 1


class OfAFailedAccelerator:
    def __float__(self) -> float:
        msg = "CUDA error: unspecified launch failure"
        raise RuntimeError(msg)


def test_a_step_with_a_number_that_cannot_be_read_is_counted_and_the_next_is_reported() -> None:
    settings = RunSettings(bootstrap="127.0.0.1:9")
    learner = Attachment(settings, "a", ["a"], Corridor(5, 1000), RunClock.real())
    learner.on_step(1, OfAFailedAccelerator(), 8)  # type: ignore[arg-type]
    learner.on_step(2, 1.0, 8)
    steps = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    assert [step.step for step in steps] == [2]
    assert (learner.summary().errors, learner.summary().dropped) == (1, 1)
