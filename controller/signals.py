"""What is known of each sidecar's load at a moment, from its closed bins."""

from dataclasses import dataclass

from controller.estimators import EwMean, EwRate, Fading
from slackwater.clock import US_PER_S
from slackwater.events import BinRow


class SidecarSignal:
    """Arrival rate and requests in flight of one sidecar, and how old that knowledge is.

    Arrivals become visible by load samples: the change of running + waiting, plus what finished
    in between. A sidecar that sends no samples is judged by its finished requests alone, and its
    requests in flight by Little's law. An interval longer than `stale_after_s` between two looks
    is a gap in the data and counts for nothing. `arrived_in_sight` counts the arrivals between two
    looks that near; `arrived_ever` also those that came to light after a gap.
    """

    def __init__(
        self, bin_s: float, half_life_s: float, stale_after_s: float, burden_half_life_s: float
    ) -> None:
        self._bin_us = round(bin_s * US_PER_S)
        self._stale_us = round(stale_after_s * US_PER_S)
        self._rate = EwRate(half_life_s)
        self._e2e = EwMean(half_life_s)
        self._requests = Fading(burden_half_life_s)
        self.arrived_ever = 0
        self._in_system: int | None = None
        self._unsampled_finishes = 0
        self._seen_us: int | None = None
        self._binned_us = 0
        self.arrived_in_sight = 0

    def observe(self, row: BinRow) -> None:
        """Take one closed bin; rows come in order of time, and one that came before is ignored."""
        if row.start_us < self._binned_us:
            return
        self._binned_us = row.start_us + self._bin_us
        self._requests.add(self._binned_us, row.finished)
        served = row.finished - row.failed
        if served:
            self._e2e.update(row.e2e_sum_s / served, self._bin_us / US_PER_S)
        if row.in_system is not None and row.sample_us is not None:
            self._observe_sample(row, row.in_system, row.sample_us)
        elif self._in_system is not None:
            self._unsampled_finishes += row.finished
        else:
            self._look(self._binned_us, row.finished)

    def _observe_sample(self, row: BinRow, in_system: int, sample_us: int) -> None:
        after = row.finished_after_sample or 0
        finished = self._unsampled_finishes + row.finished - after
        self._unsampled_finishes = after
        before, self._in_system = self._in_system, in_system
        if before is None:
            self._seen_us = sample_us
            return
        self._look(sample_us, max(0, in_system - before + finished))

    def _look(self, now_us: int, arrivals: int) -> None:
        self.arrived_ever += arrivals
        before, self._seen_us = self._seen_us, now_us
        if before is not None and 0 < now_us - before <= self._stale_us:
            self._rate.update(arrivals, (now_us - before) / US_PER_S)
            self.arrived_in_sight += arrivals

    def age_s(self, now_us: int) -> float | None:
        """Seconds since the sidecar was last seen; None if never."""
        return None if self._seen_us is None else (now_us - self._seen_us) / US_PER_S

    def stale(self, now_us: int) -> bool:
        """True when its load is unknown now: never seen, or not for `stale_after_s`."""
        return self._seen_us is None or now_us - self._seen_us > self._stale_us

    def requests(self, now_us: int) -> float:
        """Requests that ended here, older ones counting less: half after `burden_half_life_s`."""
        return self._requests.at(now_us)

    @property
    def rate_per_s(self) -> float | None:
        """Forecast arrivals per second; None before there is any."""
        return self._rate.per_s

    @property
    def rate_sd(self) -> float | None:
        """Spread of the arrival rate over the last minutes, per second."""
        return self._rate.sd

    @property
    def rate_error_sd(self) -> float | None:
        """How far the forecast rate may be off as it stands, per second."""
        return self._rate.error_sd

    @property
    def in_flight(self) -> float | None:
        """Requests running and waiting at the last look; None where it cannot be told."""
        if self._in_system is not None:
            return float(self._in_system)
        if self._rate.per_s is None or self._e2e.mean is None:
            return None
        return self._rate.per_s * self._e2e.mean


@dataclass(frozen=True, slots=True)
class Part:
    """One fresh sidecar's part of the load.

    `requests` is what it served lately, fading; `arrived_ever` counts every arrival so far,
    those that came to light after a gap included.
    """

    sidecar: str
    rate_per_s: float | None
    in_flight: float | None
    requests: float
    arrived_ever: int


@dataclass(frozen=True, slots=True)
class Load:
    """The group's load at one moment: sums over its fresh sidecars, None where unknown.

    `stale` names the sidecars whose load is unknown; `age_s` is the age of the oldest look, that
    at a stale one included. `parts` are the fresh sidecars', in order of name.
    """

    rate_per_s: float | None
    rate_sd: float | None
    rate_error_sd: float | None
    in_flight: float | None
    age_s: float | None
    stale: tuple[str, ...]
    parts: tuple[Part, ...] = ()


def group_load(signals: dict[str, SidecarSignal], now_us: int) -> Load:
    """Add up the sidecars of a group; rates of different sidecars vary independently."""
    stale = tuple(name for name in sorted(signals) if signals[name].stale(now_us))
    ages = [a for s in signals.values() if (a := s.age_s(now_us)) is not None]
    names = [name for name in sorted(signals) if name not in stale]
    fresh = [signals[name] for name in names]
    parts = tuple(
        Part(name, s.rate_per_s, s.in_flight, s.requests(now_us), s.arrived_ever)
        for name, s in zip(names, fresh, strict=True)
    )
    return Load(
        rate_per_s=_total([part.rate_per_s for part in parts]),
        rate_sd=_root_total([s.rate_sd for s in fresh]),
        rate_error_sd=_root_total([s.rate_error_sd for s in fresh]),
        in_flight=_total([part.in_flight for part in parts]),
        age_s=max(ages, default=None),
        stale=stale,
        parts=parts,
    )


def _total(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _root_total(values: list[float | None]) -> float | None:
    squares = _total([None if v is None else v * v for v in values])
    return None if squares is None else squares**0.5
