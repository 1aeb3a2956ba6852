"""What a testbed run is to do: every option in one frozen struct, checked as it is made."""

import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.errors import InputError
from slackwater.policies import NO_POLICY
from slackwater.settings import check_bootstrap

RUNS_DIR = Path("runs")
DEFAULT_REGIME = "aperiodic"
SLO_S = 1.0
"""The latency objective, seconds of event time."""

Positive = Annotated[float, Meta(gt=0, lt=1e9)]
NotNegative = Annotated[float, Meta(ge=0, lt=1e9)]
AtLeastOne = Annotated[int, Meta(ge=1)]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of one run.

    Attributes:
        run_id: carried by every event; names the run log too.
        db: the run log.
        trace: file to replay, None for a generated regime.
        regime: generated traffic, None with a trace.
        rate: mean arrivals of the regime, requests per second; None for the regime's own.
        duration_s: wall seconds that the replay lasts.
        speed: seconds of event time per second of wall time.
        policy: name of the policy that commands.
        no_merges: nobody merges, whatever the policy: the control of a run with merges.
        shadow: policies that decide beside it for the log, comma-separated.
        assignments: other settings of the stream job, each `NAME=VALUE`.
        learners, sidecars: how many of each.
        seed: of every random number.
        kafka: a broker that is there already, HOST:PORT; None for the embedded one.
        min_gap_steps, max_gap_steps: the corridor, inner steps.
        parameters: parameters of the learners' model, about.
        step_s: wall seconds that an inner step takes at least.
        profile: calibration profile that the stream job decides by; None for none.
        slowdown: how many times longer a sidecar's work takes in a window; None for the paper's.
    """

    run_id: str
    db: Path
    trace: Path | None = None
    regime: str | None = None
    rate: Positive | None = None
    duration_s: Positive = 90.0
    speed: Positive = 1.0
    policy: str = "wa_forecast"
    no_merges: bool = False
    shadow: str | None = None
    assignments: tuple[str, ...] = ()
    learners: Annotated[int, Meta(ge=1, le=64)] = 2
    sidecars: Annotated[int, Meta(ge=1, le=1000)] = 2
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    kafka: str | None = None
    min_gap_steps: AtLeastOne = 128
    max_gap_steps: AtLeastOne = 512
    parameters: Annotated[int, Meta(ge=1, le=10**12)] = 8_000_000
    step_s: NotNegative = 0.03
    profile: Path | None = None
    slowdown: Annotated[float, Meta(ge=1, lt=1e6)] | None = None

    def __post_init__(self) -> None:
        if self.min_gap_steps > self.max_gap_steps:
            msg = (
                f"--min-gap-steps {self.min_gap_steps} is above --max-gap-steps "
                f"{self.max_gap_steps}; the corridor needs min <= max"
            )
            raise InputError(msg)
        if self.kafka is not None:
            check_bootstrap(self.kafka)

    @property
    def partitions(self) -> int:
        """Partitions of the requests topic: more than sidecars would stay empty."""
        return min(self.sidecars, 4)

    @property
    def prefix(self) -> str:
        """Topic names are the run's own: a throw-away broker and a cluster serve many runs."""
        return f"slackwater-{self.run_id}"

    @property
    def commander(self) -> str:
        """The policy that commands merges, `none` where there are to be none."""
        return NO_POLICY if self.no_merges else self.policy

    @property
    def source(self) -> str:
        """What is replayed, for people."""
        return self.trace.name if self.trace else str(self.regime)

    def learner_names(self) -> list[str]:
        """`learner-0`, `learner-1`, ..."""
        return [f"learner-{rank}" for rank in range(self.learners)]


def make_plan(now: datetime, db: Path | None = None, **options: object) -> Plan:
    """The plan for the options of the command line; `None` means the default.

    Raises `InputError` that names the option and what it may be.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "trace" not in given:
        given.setdefault("regime", DEFAULT_REGIME)
    run_id = new_run_id(now, Path(str(given.get("trace", given.get("regime")))).stem)
    try:
        return msgspec.convert(
            {"run_id": run_id, "db": db or RUNS_DIR / f"{run_id}.duckdb", **given}, Plan
        )
    except msgspec.ValidationError as error:
        raise InputError(option_message(str(error), given)) from None


def new_run_id(now: datetime, source: str) -> str:
    """A name that sorts by time, says what is replayed and is no other run's."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-")[:40] or "run"
    return f"{now:%Y%m%d-%H%M%S}-{word}-{secrets.token_hex(2)}"


def option_message(error: str, given: dict[str, object]) -> str:
    """What msgspec says about a field, in the words of the command line."""
    found = re.fullmatch(r"(.*) - at `\$\.(\w+)`", error)
    if not found:
        return error
    what, field = found.groups()
    option = f"--{field.removesuffix('_s').replace('_', '-')}"
    option = {"--step": "--step-s"}.get(option, option)
    words = {"Expected `float`": "must be a number", "Expected `int`": "must be a whole number"}
    for theirs, ours in words.items():
        what = what.replace(theirs, ours)
    return f"{option} is {given[field]}; it {what.removesuffix('.0')}"
