"""The load of a group and what windows cost under it, now and in the past: the same for all."""

from dataclasses import dataclass
from typing import Self

from controller.history import CostHistory, OverlapHistory
from controller.season import Season
from controller.settings import ControllerSettings
from controller.signals import Load, SidecarSignal, group_load
from controller.skill import SeasonalSkill
from slackwater.events import BinRow

# How far the measured window may drift from the one in use before that follows.
WINDOW_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class OutlookSettings:
    """All of the controller's settings that an outlook depends on, under their names there.

    Policies whose settings agree in these may share one outlook.
    """

    tick_s: float
    window_s: float
    spill_over_s: float
    half_life_s: float
    history_s: float
    stale_after_s: float
    sidecar_gone_s: float
    burden_half_life_s: float

    @classmethod
    def of(cls, settings: ControllerSettings) -> Self:
        """Those of one group."""
        return cls(**{name: getattr(settings, name) for name in cls.__slots__})


class Outlook:
    """Every sidecar's signal, and the costs that the past loads would have led to.

    Args:
        settings: the half-life, memory and staleness limits; `window_s` until one is measured.
        bin_s: width of the bins observed.
    """

    def __init__(self, settings: OutlookSettings, bin_s: float) -> None:
        self.window_s = settings.window_s + settings.spill_over_s
        self.flights = CostHistory(settings.history_s)
        self._settings = settings
        self._bin_s = bin_s
        self._signals: dict[str, SidecarSignal] = {}
        self._overlaps = OverlapHistory(settings.history_s, self.window_s)
        self._skill = SeasonalSkill(settings.tick_s, settings.history_s)

    @property
    def costs(self) -> CostHistory:
        """Expected overlap costs of the past, for windows of `window_s`."""
        return self._overlaps.costs

    @property
    def season(self) -> Season | None:
        """The seasonal forecast of arrivals while it does better than the EWMA, else None."""
        return self._skill.season

    def observe(self, row: BinRow) -> None:
        """Take one closed bin of one sidecar; the first one makes the sidecar known."""
        signal = self._signals.get(row.sidecar)
        if signal is None:
            signal = self._signals[row.sidecar] = SidecarSignal(
                self._bin_s,
                self._settings.half_life_s,
                self._settings.stale_after_s,
                self._settings.burden_half_life_s,
            )
        signal.observe(row)

    def load(self, now_us: int) -> Load:
        """The group's load as it is known at `now_us`, by the sidecars that belong to it then."""
        return group_load(
            {n: s for n, s in self._signals.items() if self._belongs(s, now_us)}, now_us
        )

    def _belongs(self, signal: SidecarSignal, now_us: int) -> bool:
        """False once a sidecar has been silent for so long that it must have gone for good."""
        age_s = signal.age_s(now_us)
        return age_s is None or age_s <= self._settings.sidecar_gone_s

    def remember(self, now_us: int, load: Load) -> None:
        """Add a tick's load to the past, once it has decided: ranks are among earlier costs."""
        arrived = sum(signal.arrived_in_sight for signal in self._signals.values())
        rate_per_s = None if load.stale else load.rate_per_s
        self._skill.observe(now_us, arrived, rate_per_s, self.window_s)
        if load.stale or load.in_flight is None:
            return
        self.flights.add(now_us, load.in_flight)
        if load.rate_per_s is not None:
            self._overlaps.add(now_us, load.in_flight, load.rate_per_s)

    def follow_window(self, measured_s: float | None) -> None:
        """Follow the measured merges, in steps: each new length makes the past costs anew."""
        if not measured_s:
            return
        felt_s = measured_s + self._settings.spill_over_s
        if abs(felt_s / self.window_s - 1) > WINDOW_TOLERANCE:
            self.window_s = felt_s
            self._overlaps.resize(felt_s)
