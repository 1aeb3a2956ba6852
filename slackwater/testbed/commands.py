"""The command line and environment of every part, and the one clock that all of them share."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.clock import CLOCK_ENV, US_PER_S, RunClock
from slackwater.livequery import socket_paths
from slackwater.settings import BOOTSTRAP_ENV, GROUP_ENV, PREFIX_ENV, RUN_ID_ENV
from slackwater.testbed.parts import PartSpec
from slackwater.testbed.plan import Plan

GROUP = "default"
MAX_SOCKET_PATH_BYTES = 100
MEETING = "meeting-place"
RESTARTS = 5
NEVER_STEPS = 10**9
"""A gap that no learner of a run without merges comes to the end of."""


def wall_us() -> int:
    """Wall time in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


def new_clock(speed: float, now_us: int) -> RunClock:
    """A clock whose event time starts at this wall second; ticks fall on whole seconds."""
    origin_us = now_us // US_PER_S * US_PER_S
    return RunClock(origin_us, origin_us, speed)


def moved_origin(clock: RunClock, not_before_us: int) -> RunClock:
    """The same clock told from another point: the first whole event second after a wall time.

    Parts must know the clock before all of them are ready, and a trace starts at the clock's
    origin: so the replay gets the same line through a later point.
    """
    event_s = (not_before_us - clock.wall_origin_us) / US_PER_S * clock.speed
    shift_us = math.ceil(event_s) * US_PER_S
    return RunClock(
        clock.origin_us + shift_us,
        clock.wall_origin_us + round(shift_us / clock.speed),
        clock.speed,
        clock.wall_us,
    )


@dataclass(frozen=True, slots=True)
class Commands:
    """Builds the parts' commands for one run.

    Attributes:
        plan: what the run is to do.
        bootstrap: the broker's address.
        clock: event time, fixed before the stream job starts.
        scratch: directory for checkpoints.
        run_info: kept in the run log with the run.
        free_port: a loopback port that nobody uses.
    """

    plan: Plan
    bootstrap: str
    clock: RunClock
    scratch: Path
    run_info: dict[str, Any]
    free_port: Callable[[], int]

    def stream(self) -> PartSpec:
        """The stream job: counts, decides and writes the run log."""
        plan = self.plan
        options = {
            "--db": plan.db,
            "--policy": plan.commander,
            "--profile": plan.profile,
            "--shadow": None if plan.no_merges else plan.shadow,
            "--roles": "count,log" if plan.no_merges else None,
            "--partitions": plan.partitions,
            "--min-gap-steps": plan.min_gap_steps,
            "--max-gap-steps": plan.max_gap_steps,
            "--offset-reset": "earliest",
            "--expect-sidecars": plan.sidecars,
            "--expect-learners": plan.learners,
            "--seed": plan.seed,
            "--run-info": json.dumps(self.run_info),
        }
        settings = [word for given in plan.assignments for word in ("--set", given)]
        return PartSpec("stream", _command("stream", options, settings), self._env())

    def learners(self) -> list[PartSpec]:
        """The learners, one process each, and before them the place where they meet."""
        port = self.free_port()
        names = self.plan.learner_names()
        group = {
            "WORLD_SIZE": str(len(names)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            # It is not for the first learner to listen there.
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        meeting = _command("group", {"--port": port}, ["serve"])
        return [
            PartSpec(MEETING, meeting, self._env(), restarts=RESTARTS),
            *(
                PartSpec(
                    name,
                    self._learner(name),
                    {**self._env(), **group, "RANK": str(rank)},
                    restarts=RESTARTS,
                )
                for rank, name in enumerate(names)
            ),
        ]

    def replay(self, clock: RunClock) -> PartSpec:
        """The replay producer; the trace starts at this clock's origin."""
        plan = self.plan
        options = {
            "--duration": plan.duration_s,
            "--sidecars": plan.sidecars,
            "--seed": plan.seed,
            "--rate": plan.rate,
            "--regime": plan.regime,
            "--slowdown": plan.slowdown,
        }
        command = _command("replay", options, [str(plan.trace)] if plan.trace else [])
        env = {**self._env(), CLOCK_ENV: clock.encode()}
        return PartSpec("replay", command, env, leaves_by_itself=True)

    def _learner(self, name: str) -> list[str]:
        plan = self.plan
        options = {
            "--learner": name,
            "--participants": ",".join(plan.learner_names()),
            "--parameters": plan.parameters,
            "--step-s": plan.step_s,
            "--min-gap-steps": NEVER_STEPS if plan.no_merges else plan.min_gap_steps,
            "--max-gap-steps": NEVER_STEPS if plan.no_merges else plan.max_gap_steps,
            "--checkpoint-dir": self.scratch / name,
            "--seed": plan.seed,
        }
        return _command("trainer", options)

    def _env(self) -> dict[str, str]:
        return {
            BOOTSTRAP_ENV: self.bootstrap,
            PREFIX_ENV: self.plan.prefix,
            RUN_ID_ENV: self.plan.run_id,
            GROUP_ENV: GROUP,
            CLOCK_ENV: self.clock.encode(),
            "PYTHONUNBUFFERED": "1",
            **self._temporary(),
        }

    def _temporary(self) -> dict[str, str]:
        """Temporary files of parts go with the run's own, even of parts that are killed.

        Not where the run log's path is too long for a socket beside it: that socket is then in
        the temporary directory that everybody looks in.
        """
        beside, _ = socket_paths(self.plan.db)
        if len(os.fsencode(beside)) > MAX_SOCKET_PATH_BYTES:
            return {}
        return {"TMPDIR": str(self.scratch)}


def _command(
    name: str, options: Mapping[str, object], arguments: list[str] | None = None
) -> list[str]:
    given = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
    return [sys.executable, "-m", "slackwater", name, *(arguments or []), *given, "--json"]
