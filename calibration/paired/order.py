"""What a later place in a block is worth: a control comes after its policy, and servers drift.

Violations are laid out as block + arm + slope * place, by least squares over every run. The slope
is known from arms that stood at other places in other blocks, not from that of a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.gate import ALPHA, MIN_RUNS, Step
from calibration.paired.outcome import RunOutcome
from calibration.signflip import interval, sign_flip

NAME = "order"
UNTOLD = (
    "the control comes after its policy, and too few runs of other arms tell what a later place in "
    "a block adds; keep a baseline (--baselines fixed_h)"
)
Floats = NDArray[np.float64]
Pair = tuple[RunOutcome, RunOutcome]


@dataclass(frozen=True, slots=True)
class Drift:
    """Violations that one place later in the block adds, percentage points.

    Attributes:
        slope_pp: by least squares.
        interval_pp: 95%, from leaving out each block in turn; None under 6 blocks.
    """

    slope_pp: float
    interval_pp: tuple[float, float] | None


def drift_of(outcomes: Sequence[RunOutcome], rng: np.random.Generator) -> Drift | None:
    """The slope; None where places are unknown, or arms stood at too few of them to tell."""
    known = [(one, float(one.place)) for one in outcomes if one.place is not None]
    slope_pp = _slope(known)
    if slope_pp is None:
        return None
    blocks = sorted({one.block for one, _ in known})
    without = [_slope([(one, at) for one, at in known if one.block != out]) for out in blocks]
    several = [value for value in without if value is not None]
    if len(several) < max(MIN_RUNS, len(blocks)):
        return Drift(slope_pp, None)
    # Pseudo-values of the jackknife: about independent, their mean is the slope.
    n = len(blocks)
    return Drift(slope_pp, interval([n * slope_pp - (n - 1) * value for value in several], rng=rng))


def order_step(found: Drift | None, runs: Sequence[Pair], rng: np.random.Generator) -> Step:
    """Is there a gain left once what the control's later place explains is taken off each pair?"""
    later = [_places(ours, control) for ours, control in runs]
    places = [place for place in later if place is not None]
    if found is None or len(places) < len(later):
        return Step(NAME, None, {}, UNTOLD)
    gains = [
        control.violations_pp - ours.violations_pp - found.slope_pp * place
        for (ours, control), place in zip(runs, places, strict=True)
    ]
    test = sign_flip(gains, "two-sided", rng)
    figures: dict[str, float | int | str | None] = {
        "slope_pp": found.slope_pp,
        "slope_low_pp": None if found.interval_pp is None else found.interval_pp[0],
        "slope_high_pp": None if found.interval_pp is None else found.interval_pp[1],
        "places_later": float(np.mean(places)),
        "gain_pp": test.mean,
        "p_value": test.p_value,
    }
    within = (
        ""
        if found.interval_pp is None
        else f" (95% interval {found.interval_pp[0]:.2f} to {found.interval_pp[1]:.2f})"
    )
    reason = (
        f"one place later in a block adds {found.slope_pp:.2f} pp{within}, and the control stood "
        f"{np.mean(places):.1f} later: {test.mean:.2f} pp of the gain are left, "
        f"p = {test.p_value:.4f}"
    )
    return Step(NAME, test.mean > 0 and test.p_value <= ALPHA, figures, reason)


def _places(ours: RunOutcome, control: RunOutcome) -> int | None:
    if ours.place is None or control.place is None:
        return None
    return control.place - ours.place


def _slope(runs: Sequence[tuple[RunOutcome, float]]) -> float | None:
    """Of violations by place, beside an effect of each block and arm; None if it is not known."""
    if not runs:
        return None
    blocks = sorted({one.block for one, _ in runs})
    arms = sorted({one.arm for one, _ in runs})
    # One arm has no column: its effect is in those of the blocks.
    columns = [
        np.array([one.block for one, _ in runs])[:, None] == blocks,
        np.array([one.arm for one, _ in runs])[:, None] == arms[1:],
        np.array([[at] for _, at in runs]),
    ]
    table: Floats = np.hstack(columns).astype(np.float64)
    if len(runs) <= table.shape[1]:
        return None
    values = np.array([one.violations_pp for one, _ in runs])
    found, _, rank, _ = np.linalg.lstsq(table, values)
    return float(found[-1]) if rank == table.shape[1] else None
