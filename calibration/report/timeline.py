"""The timeline's picture: a run's traffic, and a lane with the windows of each policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibration.report.axis import Axis
from calibration.report.rows import Fields, Policy

SHOWN_RUNS = 24
FORCED = "h_max"
LEAST_PX_PER_S = 0.5
HEIGHT = 100


@dataclass(frozen=True, slots=True)
class Lane:
    """The windows of one policy; `chosen` and `forced` are SVG paths of height 1, time in s."""

    policy: str
    chosen: str
    forced: str
    windows: tuple[tuple[float, str], ...]
    cost: float

    @property
    def forced_number(self) -> int:
        """How many windows H_max forced."""
        return sum(is_forced(reason) for _, reason in self.windows)


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run; `area` is an SVG path of the request rate, `HEIGHT` high."""

    run: str
    axis: Axis
    seconds: float
    width_px: int
    area: str
    peak_per_s: float
    mean_per_s: float
    step_s: float
    requests: int
    lanes: tuple[Lane, ...]


def timelines(
    policies: Sequence[Policy], window_s: float, most: int = SHOWN_RUNS
) -> tuple[Timeline, ...]:
    """The first runs, in order."""
    names = list(dict.fromkeys(run["run"] for policy in policies for run in policy.runs))
    traffic = policies[0].traffic
    shown = [name for name in names if name in traffic][:most]
    return tuple(_timeline(traffic[name], policies, window_s) for name in shown)


def is_forced(reason: str) -> bool:
    """Did H_max make this merge?"""
    return reason.startswith(FORCED)


def _timeline(one: Fields, policies: Sequence[Policy], window_s: float) -> Timeline:
    rates = [count / one["step_s"] for count in one["counts"]]
    own = one.get("window_s", window_s)
    here = [(p.name, run) for p in policies for run in p.runs if run["run"] == one["run"]]
    return Timeline(
        run=one["run"],
        axis=Axis(0.0, one["seconds"]),
        seconds=one["seconds"],
        width_px=round(one["seconds"] * LEAST_PX_PER_S),
        area=_area(rates, one["step_s"]),
        peak_per_s=max(rates),
        mean_per_s=sum(one["counts"]) / one["seconds"],
        step_s=one["step_s"],
        requests=sum(one["counts"]),
        lanes=tuple(_lane(name, run, own) for name, run in here),
    )


def _lane(policy: str, run: Fields, window_s: float) -> Lane:
    windows = tuple(zip(run["starts_s"], run["reasons"], strict=True))
    return Lane(
        policy=policy,
        chosen=_path([at for at, reason in windows if not is_forced(reason)], window_s),
        forced=_path([at for at, reason in windows if is_forced(reason)], window_s),
        windows=windows,
        cost=run["cost"],
    )


def _path(starts_s: Sequence[float], window_s: float) -> str:
    return "".join(f"M{at:g} 0h{window_s:g}v1h{-window_s:g}z" for at in starts_s)


def _area(rates: Sequence[float], step_s: float) -> str:
    """Steps of the rate as a closed path, from the bottom up."""
    tallest = max(rates) or 1.0
    levels = [f"V{HEIGHT - HEIGHT * rate / tallest:.4g}h{step_s:g}" for rate in rates]
    return f"M0 {HEIGHT}{''.join(levels)}V{HEIGHT}z"
