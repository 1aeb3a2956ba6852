"""What a calibration profile says to the controller: how long a merge harms, and if it does."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.measurement import Measurement
    from calibration.profile import Effect, Profile

HARMLESS = 1.1
"""A p95 that was shown to rise by less than a tenth: no merge is worth a delay for it."""


def read_measured(path: Path, option: str) -> "tuple[Profile, Measurement]":
    """A profile and what it rests on; raises `InputError` for one that nobody measured."""
    profile = read_profile(path, option)
    assert profile is not None  # noqa: S101 - there is a path
    if profile.measurement is None:
        msg = f"{option} {path} has no measurement; give what `slackwater calibrate` wrote"
        raise InputError(msg)
    return profile, profile.measurement


def read_profile(path: Path | None, option: str = "--profile") -> "Profile | None":
    """The profile that an option names; raises `InputError` when it is none."""
    from calibration.profile import decode_profile
    from slackwater.cli.evaluate_figures import read_file

    return None if path is None else decode_profile(read_file(path, option), f"{option} {path}")


def calibrated(path: Path | None, speed: float, window_s: float | None) -> dict[str, Any]:
    """The controller's settings by a profile, in event time.

    Args:
        path: of the profile; None for none.
        speed: seconds of event time in one of wall time, which a profile is measured in.
        window_s: given by an option; event time.
    """
    profile = read_profile(path)
    given = {} if window_s is None else {"window_s": window_s}
    if profile is None:
        return given
    found: dict[str, Any] = {
        "window_s": profile.window_s * speed,
        "spill_over_s": profile.spill_over_s * speed,
    }
    if profile.effect is not None and harmless(profile.effect):
        found["weights"] = {"serving_sync": 0.0}
    return {**found, **given}


def harmless(effect: "Effect") -> bool:
    """Whether merges were shown to change nothing that matters; too few merges show nothing."""
    from calibration.profile import MIN_MERGES

    return effect.merges >= MIN_MERGES and effect.p95_ratio_high < HARMLESS
