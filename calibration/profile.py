"""The calibration profile: what was measured on a real sidecar, as a versioned JSON document.

Reading and writing the file is the caller's; here are its form and its checks.
"""

import math
from typing import Literal

import msgspec

from calibration.measurement import Measurement
from slackwater.errors import InputError

SCHEMA_VERSION: Literal[1] = 1
MIN_MERGES = 10
"""Fewer merges than this say too little about a sidecar, in however many rounds of blocks."""


class OverlapFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The overlap model's: which requests count, and a harmed one's latency ratio (1 or more)."""

    counting: Literal["arriving", "in_service"] = "in_service"
    slowdown: float = 1.24 / 0.73


class BurstFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The concurrency schedule of a closed-loop client: requests at a time, and seconds."""

    quiet: int
    busy: int
    period_s: float
    burst_s: float
    phase_s: float = 0.0


class ClosedLoopFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The closed-loop model's: mean seconds of a batch without merges and inside a window.

    `scatter` and `slowed_scatter` are how batches lie about those means (`serving.ClosedLoop`).
    """

    batch_s: float = 0.73
    slowed_batch_s: float = 1.24
    schedule: BurstFigures | None = None
    scatter: tuple[float, ...] = (1.0,)
    slowed_scatter: tuple[float, ...] = (1.0,)


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue model's: slots, seconds of work a request, and slowdown inside a window."""

    slots: int = 1
    service_s: float = 0.1
    slowdown: float = 1.24 / 0.73


class Effect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether merges changed latency on the real sidecar: ratios with / without, 95% intervals.

    Attributes:
        merges: how many were measured.
        p95_ratio: 95th percentile of latency near merges over that away from them.
        p95_ratio_low: lower end of its interval.
        p95_ratio_high: upper end of its interval.
        odds_ratio: odds of a violation near merges over those away; None when undefined.
        odds_ratio_low: lower end of its interval.
        odds_ratio_high: upper end of its interval.
    """

    merges: int
    p95_ratio: float
    p95_ratio_low: float
    p95_ratio_high: float
    odds_ratio: float | None = None
    odds_ratio_low: float | None = None
    odds_ratio_high: float | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A calibration profile. The defaults of the models' figures are the paper's.

    Attributes:
        schema_version: of this document.
        name: what was calibrated, for people.
        slo_s: latency above which a request violates.
        window_s: length of a merge window.
        effect: the effect-transfer result; None when no real sidecar was measured.
        spill_over_s: how long a merge is felt after its window.
        measurement: where the figures come from; None when they were not measured by us.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str = "paper"
    slo_s: float = 1.0
    window_s: float = 8.0
    overlap: OverlapFigures = msgspec.field(default_factory=OverlapFigures)
    closed_loop: ClosedLoopFigures = msgspec.field(default_factory=ClosedLoopFigures)
    queue: QueueFigures = msgspec.field(default_factory=QueueFigures)
    effect: Effect | None = None
    spill_over_s: float = 0.0
    measurement: Measurement | None = None


class _Versioned(msgspec.Struct, frozen=True):
    """What every version has."""

    schema_version: int = SCHEMA_VERSION


def decode_profile(text: bytes | str, where: str = "profile") -> Profile:
    """Read a profile from JSON; `where` names the source in messages.

    Raises `InputError` for text that is no JSON, unknown fields, another version and figures out
    of range.
    """
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            msg = (
                f"{where}: a profile of schema_version {version}; this slackwater reads "
                f"{SCHEMA_VERSION}"
            )
            raise InputError(msg)
        profile = msgspec.json.decode(text, type=Profile)
    except msgspec.MsgspecError as error:
        msg = f"{where}: not a calibration profile of version {SCHEMA_VERSION}: {error}"
        raise InputError(msg) from None
    return check_profile(profile, where)


def encode_profile(profile: Profile) -> bytes:
    """The profile as indented JSON, every field written out, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"


def check_profile(profile: Profile, where: str = "profile") -> Profile:
    """Return the profile when its SLO, window, slowdown and intervals are possible.

    Raises `InputError`. The other figures are checked by the model that they make.
    """
    for name, value in (("slo_s", profile.slo_s), ("window_s", profile.window_s)):
        if not 0 < value < math.inf:
            msg = f"{where}: {name} is {value:g}; it must be above 0 s, and finite"
            raise InputError(msg)
    if not 0 <= profile.spill_over_s < math.inf:
        msg = f"{where}: spill_over_s is {profile.spill_over_s:g}; it must be 0 s or more, finite"
        raise InputError(msg)
    if not 1 <= profile.overlap.slowdown < math.inf:
        msg = (
            f"{where}: overlap.slowdown is {profile.overlap.slowdown:g}; it must be 1 or more, and "
            "finite"
        )
        raise InputError(msg)
    if profile.effect is not None:
        _check_effect(profile.effect, where)
    return profile


def _check_effect(effect: Effect, where: str) -> None:
    if effect.merges < 0:
        msg = f"{where}: effect.merges is {effect.merges}; it must be 0 or more"
        raise InputError(msg)
    _check_ratio(
        "p95_ratio", (effect.p95_ratio_low, effect.p95_ratio, effect.p95_ratio_high), where
    )
    odds = (effect.odds_ratio_low, effect.odds_ratio, effect.odds_ratio_high)
    known = tuple(figure for figure in odds if figure is not None)
    if not known:
        return
    if len(known) < len(odds):
        msg = (
            f"{where}: effect: odds_ratio, odds_ratio_low and odds_ratio_high go together; give "
            "all three or none"
        )
        raise InputError(msg)
    _check_ratio("odds_ratio", known, where)


def _check_ratio(name: str, interval: tuple[float, ...], where: str) -> None:
    """`interval` is low, ratio, high."""
    low, ratio, high = interval
    if not 0 < low <= ratio <= high < math.inf:
        msg = (
            f"{where}: effect.{name} is {ratio:g}, {name}_low {low:g}, {name}_high {high:g}; the "
            "ratio must lie in its interval, all three above 0 and finite"
        )
        raise InputError(msg)
