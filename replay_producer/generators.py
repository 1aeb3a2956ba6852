"""Traces by regime: Poisson arrivals under a rate that is constant, waves, or comes in bursts.

Every regime has the same mean rate for the same `rate_per_s`, so that regimes differ in shape
alone. Arrivals are drawn by inverting the integral of the rate, which is exact, and token lengths
from a random stream of their own: the i-th request asks for the same in every regime.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from replay_producer.trace import Floats, Ints, Objects, Trace
from slackwater.clock import US_PER_S
from slackwater.errors import InputError

UNEVEN = "uneven"
WAVE_STEP_S = 0.1
DAY_S = 86_400.0
MAX_REQUESTS = 50_000_000

Positive = Annotated[float, Meta(gt=0)]


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the regimes and of the requests' lengths.

    Attributes:
        ratio: rate in a burst divided by the rate outside.
        period_s: seconds from one periodic burst's start to the next one's.
        burst_s: seconds that a periodic burst lasts; the first starts at 0.
        quiet_s: mean seconds of quiet between aperiodic bursts (exponential).
        busy_s: mean seconds of an aperiodic burst (exponential).
        wave_s: seconds of one wave of the ordinary regime.
        wave_share: how far the ordinary rate swings about its mean, as a share of it.
        prompt_median: median prompt tokens.
        output_median: median output tokens.
        sigma: standard deviation of the logarithm of both lengths.
    """

    ratio: Positive = 3.0
    period_s: Positive = 120.0
    burst_s: Positive = 30.0
    quiet_s: Positive = 6.0
    busy_s: Positive = 3.0
    wave_s: Positive = 600.0
    wave_share: Annotated[float, Meta(ge=0, lt=1)] = 0.3
    prompt_median: Positive = 512.0
    output_median: Positive = 64.0
    sigma: Annotated[float, Meta(ge=0)] = 0.35

    def within(self, duration_s: float) -> "Shape":
        """This shape with periods and waves short enough for four of them in `duration_s`."""
        scale = min(1.0, duration_s / (4 * self.period_s))
        return msgspec.structs.replace(
            self,
            period_s=self.period_s * scale,
            burst_s=self.burst_s * scale,
            wave_s=min(self.wave_s, duration_s),
        )


# A rate as (times_s, rate_per_s): rate[i] holds from times[i] to times[i + 1].
Profile = tuple[Floats, Floats]


def _constant(duration_s: float, shape: Shape, rng: np.random.Generator) -> Profile:
    del shape, rng
    return np.array([0.0, duration_s]), np.array([1.0])


def _ordinary(duration_s: float, shape: Shape, rng: np.random.Generator) -> Profile:
    steps = max(1, round(duration_s / WAVE_STEP_S))
    edges = np.linspace(0.0, duration_s, steps + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    phase = rng.uniform(0, 2 * np.pi)
    return edges, 1 + shape.wave_share * np.sin(2 * np.pi * middle / shape.wave_s + phase)


def _bursty(duration_s: float, shape: Shape, rng: np.random.Generator) -> Profile:
    del rng
    if shape.burst_s >= shape.period_s:
        msg = (
            f"bursts of {shape.burst_s:g} s do not fit a period of {shape.period_s:g} s; "
            "burst_s must be below period_s"
        )
        raise InputError(msg)
    starts = np.arange(0.0, duration_s, shape.period_s)
    edges = np.stack([starts, starts + shape.burst_s], axis=1).ravel()
    return _alternate(edges, duration_s, shape.ratio, 1.0)


def _aperiodic(duration_s: float, shape: Shape, rng: np.random.Generator) -> Profile:
    return _telegraph(duration_s, shape.quiet_s, shape.busy_s, shape.ratio, rng)


def _telegraph(
    duration_s: float, quiet_s: float, busy_s: float, ratio: float, rng: np.random.Generator
) -> Profile:
    """Quiet and bursts in turn, of exponential lengths with these means."""
    edges = [0.0]
    while edges[-1] < duration_s:
        mean_s = quiet_s if len(edges) % 2 else busy_s
        edges.append(edges[-1] + rng.exponential(mean_s))
    return _alternate(np.array(edges), duration_s, 1.0, ratio)


def _uneven(duration_s: float, shape: Shape, rng: np.random.Generator) -> Profile:
    """A steady half, and a half in long bursts of `ratio` squared at no regular times."""
    edges, relative = _telegraph(
        duration_s, shape.period_s - shape.burst_s, shape.burst_s, shape.ratio**2, rng
    )
    return edges, relative + np.average(relative, weights=np.diff(edges))


def _split_uneven(profile: Profile, arrival_us: Ints, rng: np.random.Generator) -> Objects:
    """Which sidecar each request of `uneven` is of, so that each one's arrivals are Poisson."""
    edges, relative = profile
    steady = np.average(relative, weights=np.diff(edges)) / 2
    now = relative[np.searchsorted(edges, arrival_us / US_PER_S, side="right") - 1]
    is_steady = rng.random(len(arrival_us)) < steady / now
    return np.where(is_steady, "steady", "bursty").astype(object)


def _alternate(edges: Floats, duration_s: float, even: float, odd: float) -> Profile:
    inside = edges[edges < duration_s]
    rates = np.where(np.arange(len(inside)) % 2 == 0, even, odd)
    return np.append(inside, duration_s), rates


REGIMES: dict[str, Callable[[float, Shape, np.random.Generator], Profile]] = {
    "ordinary": _ordinary,
    "high_pressure": _constant,
    "constant": _constant,
    "bursty": _bursty,
    "aperiodic": _aperiodic,
    UNEVEN: _uneven,
}

# Requests a second for two sidecars of four slots, which serve about 17 a second at the most.
DEFAULT_RATE_PER_S = {
    "ordinary": 6.0,
    "high_pressure": 20.0,
    "constant": 8.0,
    "bursty": 8.0,
    "aperiodic": 8.0,
    UNEVEN: 5.0,
}


def check_regime(name: str) -> str:
    """Return `name` when it is a regime; raises `InputError` otherwise."""
    if name not in REGIMES:
        msg = f"regime {name!r} is not known; it must be one of {', '.join(REGIMES)}"
        raise InputError(msg)
    return name


def generate(
    regime: str,
    duration_s: float,
    rate_per_s: float | None = None,
    seed: int = 0,
    shape: Shape = Shape(),  # noqa: B008 - frozen
) -> Trace:
    """A trace of one regime; equal arguments give an equal trace.

    Args:
        regime: `ordinary` (one gentle wave), `high_pressure` (saturated at its default rate),
            `constant` (Poisson), `bursty` (periodic bursts), `aperiodic` (Markov-modulated) or
            `uneven` (two sidecars with as many requests: one steady, one in long bursts).
        duration_s: length in seconds.
        rate_per_s: mean requests a second, None for the regime's default.
        seed: of the random numbers, 0 or more.
        shape: parameters of the regimes.

    Raises:
        InputError: for an unknown regime, or a duration, rate or seed out of range.
    """
    make = REGIMES[check_regime(regime)]
    rate = DEFAULT_RATE_PER_S[regime] if rate_per_s is None else rate_per_s
    _check_range(duration_s, rate, seed)
    arrivals, lengths = (np.random.default_rng([seed, stream]) for stream in (0, 1))
    edges, relative = make(duration_s, shape, arrivals)
    arrival_us = _draw(edges, relative, rate, arrivals)
    if not len(arrival_us):
        msg = (
            f"{rate:g} requests/s for {duration_s:g} s gave no request with seed {seed}; "
            "ask for a longer duration or a higher rate"
        )
        raise InputError(msg)
    trace = _trace(regime, arrival_us, round(duration_s * US_PER_S), lengths, shape)
    if regime != UNEVEN:
        return trace
    sidecars = _split_uneven((edges, relative), arrival_us, np.random.default_rng([seed, 2]))
    return replace(trace, sidecar=sidecars)


def peak_over_mean(regime: str, shape: Shape = Shape()) -> float:  # noqa: B008 - frozen
    """The rate within a regime's bursts over its mean rate, over a day of it."""
    rng = np.random.default_rng(0)
    edges, relative = REGIMES[check_regime(regime)](DAY_S, shape, rng)
    return float(relative.max() / np.average(relative, weights=np.diff(edges)))


def _check_range(duration_s: float, rate_per_s: float, seed: int) -> None:
    for name, value, unit in (("duration", duration_s, "s"), ("rate", rate_per_s, "requests/s")):
        if not 0 < value < np.inf:
            msg = f"{name} is {value:g} {unit}; it must be a number above 0"
            raise InputError(msg)
    if duration_s * rate_per_s > MAX_REQUESTS:
        msg = (
            f"{rate_per_s:g} requests/s for {duration_s:g} s are too many requests; "
            f"at most {MAX_REQUESTS} are made: lower the rate, the duration or the speed"
        )
        raise InputError(msg)
    if seed < 0:
        msg = f"seed is {seed}; it must be 0 or more"
        raise InputError(msg)


def _draw(edges: Floats, relative: Floats, rate_per_s: float, rng: np.random.Generator) -> Ints:
    hazard = np.concatenate([[0.0], np.cumsum(np.diff(edges) * relative)])
    hazard *= rate_per_s * edges[-1] / hazard[-1]
    count = rng.poisson(hazard[-1])
    times_s = np.interp(np.sort(rng.uniform(0, hazard[-1], count)), hazard, edges)
    arrival_us: Ints = (times_s * US_PER_S).astype(np.int64)
    return arrival_us


def _trace(
    regime: str, arrival_us: Ints, duration_us: int, rng: np.random.Generator, shape: Shape
) -> Trace:
    count = len(arrival_us)
    lengths = rng.lognormal(0.0, shape.sigma, (count, 2))
    prompt, output = (lengths * [shape.prompt_median, shape.output_median]).round().T
    unknown = np.full(count, np.nan)
    return Trace(
        name=regime,
        format="generated",
        arrival_us=arrival_us,
        prompt_tokens=np.maximum(1, prompt).astype(np.int64),
        output_tokens=np.maximum(1, output).astype(np.int64),
        e2e_s=unknown,
        ttft_s=unknown,
        status=np.full(count, "ok", object),
        sidecar=np.full(count, None, object),
        tenant=np.full(count, None, object),
        duration_us=duration_us,
    )
