"""The figures that runs are scored by, each with where it came from: option, profile or default."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.profile import Effect, Profile
    from calibration.serving import ServingModel

# The overlap model without the requests in service as the window opens.
ARRIVALS = "arrivals"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure and its origin: `default`, `profile NAME`, or the option that gave it."""

    name: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What a window costs and how long it is.

    Attributes:
        model: the serving model.
        slo_s: a request that takes longer violates.
        window_s: length of a merge window.
        effect: effect transfer of the profile; None without one.
        profile: the profile's name; None without one.
        profile_sha256: hex digest of its file.
        used: every figure used, in order.
        remark: what a reader must know of the profile besides; None for nothing.
    """

    model: "ServingModel"
    slo_s: float
    window_s: float
    effect: "Effect | None"
    profile: str | None
    profile_sha256: str | None
    used: tuple[Figure, ...]
    remark: str | None = None

    def line(self) -> str:
        """The figures by their origin, for people."""
        told: dict[str, list[str]] = {}
        for figure in self.used:
            told.setdefault(figure.origin, []).append(f"{figure.name} {_shown(figure.value)}")
        parts = [f"{', '.join(names)} ({origin})" for origin, names in told.items()]
        line = f"{self.model.name} model: {'; '.join(parts)}"
        return line if self.remark is None else f"{line}\n{self.remark}"


def figures(
    serving: str,
    profile: Path | None,
    assignments: Sequence[str],
    slo_s: float | None,
    window_s: float | None,
) -> Figures:
    """Options first, then the profile, then the defaults.

    Args:
        serving: name of a serving model, or `arrivals`.
        profile: file of a calibration profile.
        assignments: `NAME=VALUE`, figures of that model.
        slo_s: the objective in seconds; None where no option gave it.
        window_s: length of a window in seconds, likewise.

    Raises `InputError` for a file that cannot be used, and for a figure that is unknown or out of
    range, naming where it came from.
    """
    from calibration.profile import Profile, check_profile, decode_profile
    from calibration.serving import MODELS, serving_model

    if serving not in {ARRIVALS, *MODELS}:
        known = ", ".join([ARRIVALS, *MODELS])
        msg = f"--serving {serving} is not known; it must be one of {known}"
        raise InputError(msg)
    text = None if profile is None else read_file(profile, "--profile")
    base = Profile() if text is None else decode_profile(text, f"--profile {profile}")
    kind = "overlap" if serving == ARRIVALS else serving
    held = {} if text is None else msgspec.json.decode(text)
    origin = {True: f"profile {base.name}", False: DEFAULT}
    inside = held.get(kind, {})
    given = {
        field: Figure(field, value, origin[field in inside])
        for field, value in msgspec.to_builtins(getattr(base, kind)).items()
    }
    if kind == "queue" and "slots" not in inside:
        from replay_producer.sidecar import ServiceSettings

        given["slots"] = Figure("slots", ServiceSettings().slots, "a replayed sidecar's")
    if serving == ARRIVALS:
        given["counting"] = Figure("counting", "arriving", f"--serving {ARRIVALS}")
    for assignment in assignments:
        figure = _assigned(assignment, kind, given)
        if serving == ARRIVALS and figure.name == "counting":
            msg = f"--model {assignment}: --serving {ARRIVALS} counts what arrives; leave one out"
            raise InputError(msg)
        given[figure.name] = figure
    slo = _either("slo_s", slo_s, "--slo", base.slo_s, origin["slo_s" in held])
    window = _window(window_s, base.window_s, origin["window_s" in held])
    changed = _changed(base, kind, given, slo.value, window.value)
    where = "--model, --slo, --window" if text is None else f"--profile {profile} and options"
    checked = check_profile(changed, where)
    try:
        model = serving_model(kind, checked)
    except InputError as error:
        msg = f"serving model {kind}: {error}"
        raise InputError(msg) from None
    return Figures(
        model=model,
        slo_s=checked.slo_s,
        window_s=checked.window_s,
        effect=base.effect,
        profile=None if text is None else base.name,
        profile_sha256=None if text is None else hashlib.sha256(text).hexdigest(),
        used=(*given.values(), slo, window),
        remark=_remark(base),
    )


def _remark(profile: "Profile") -> str | None:
    if profile.measurement is None or profile.effect is not None:
        return None
    return (
        f"profile {profile.name}: its {profile.measurement.merges} measured merges were too few to "
        "say whether merges slow requests at all; its figures are a guess"
    )


def read_file(path: Path, option: str) -> bytes:
    """The bytes of a file that an option names; raises `InputError` when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"cannot read {option} {path}: {error.strerror}; give a file that can be read"
        raise InputError(msg) from None


def _assigned(assignment: str, kind: str, known: dict[str, Figure]) -> Figure:
    name, equals, text = assignment.partition("=")
    if not equals or name not in known:
        msg = (
            f"--model {assignment!r}: give NAME=VALUE with a figure of the {kind} model: "
            f"{', '.join(known)}"
        )
        raise InputError(msg)
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    return Figure(name, value, "--model")


def _either(name: str, option: float | None, said: str, profile: float, measured: str) -> Figure:
    return Figure(name, profile, measured) if option is None else Figure(name, option, said)


def _window(option: float | None, profile: float, measured: str) -> Figure:
    """A measured window is no whole number of cells: the nearest one that is, said as such."""
    from calibration.simulate import CELL_S

    whole = max(1, round(profile / CELL_S)) * CELL_S
    if option is None and not math.isclose(whole, profile):
        said = f"{measured}, measured {profile:.3g} s, to whole cells of {CELL_S:g} s"
        return Figure("window_s", whole, said)
    return _either("window_s", option, "--window", profile, measured)


def _changed(
    base: "Profile", kind: str, given: dict[str, Figure], slo_s: float, window_s: float
) -> "Profile":
    values = {name: figure.value for name, figure in given.items()}
    try:
        part = msgspec.convert(values, type(getattr(base, kind)))
    except msgspec.ValidationError as error:
        msg = f"--model: {error}; the {kind} model's figures are {', '.join(given)}"
        raise InputError(msg) from None
    return msgspec.structs.replace(base, slo_s=slo_s, window_s=window_s, **{kind: part})


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list | tuple) and value:
        ends = [_shown(part) for part in (value[0], value[-1])]
        return ends[0] if len(value) == 1 else f"{ends[0]} to {ends[1]} in {len(value)} parts"
    return "none" if value is None else str(value)
