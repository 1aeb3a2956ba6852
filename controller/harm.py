"""Who bears the harm of merges, by the harm expected of each; and the bound on it.

A sidecar's *burden* is its share of the expected harm over its share of the requests, both over a
trailing memory: 1 is its due. Where a window's harm is unknown for any sidecar it is booked for
none: a share of which a part is missing would be wrong for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controller.estimators import Fading
from controller.overlap import expected_overlap
from controller.signals import Load

# Nothing is judged before the windows remembered weigh as much as so many fresh ones: one window's
# shares are those of its moment.
MIN_WINDOWS = 3.0
# A sidecar is judged once so many harmed requests would be its due: of a few, a share says nothing.
MIN_DUE_REQUESTS = 16.0


@dataclass(frozen=True, slots=True)
class Burden:
    """The worst-off sidecar if the window were taken, and the worst burden if not.

    `now` is None where no harm is remembered.
    """

    sidecar: str
    then: float
    now: float | None

    def within(self, bound: float) -> bool:
        """True when the window keeps to the bound, or leaves the worst-off better off."""
        return self.then <= bound or (self.now is not None and self.then < self.now)


class HarmLedger:
    """Expected harm of the windows of one group's merges, by sidecar.

    Args:
        half_life_s: a window counts half after so long.
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._harm: dict[str, Fading] = {}
        self._windows = Fading(half_life_s)
        self._last_id: str | None = None

    def book(self, merge_id: str, at_us: int, load: Load, window_s: float) -> None:
        """Book the window that opened at `at_us`, once a merge; unknown harm is not booked."""
        if merge_id == self._last_id:
            return
        self._last_id = merge_id
        harm = expected_harm(load, window_s)
        if harm is None:
            return
        self._windows.add(at_us, 1.0)
        for sidecar, requests in harm.items():
            if sidecar not in self._harm:
                self._harm[sidecar] = Fading(self._half_life_s)
            self._harm[sidecar].add(at_us, requests)

    def burden(self, now_us: int, load: Load, window_s: float) -> Burden | None:
        """What a window now would make of the worst burden; None where that cannot be judged."""
        coming = expected_harm(load, window_s)
        if coming is None or self._windows.at(now_us) < MIN_WINDOWS:
            return None
        requests = {part.sidecar: part.requests for part in load.parts}
        borne = {s: self._harm[s].at(now_us) if s in self._harm else 0.0 for s in coming}
        then = {s: borne[s] + coming[s] for s in coming}
        judged = [s for s, due in _dues(then, requests).items() if due >= MIN_DUE_REQUESTS]
        if not judged:
            return None
        worst, worst_then = _worst(then, requests, judged)
        now = _worst(borne, requests, judged)[1] if sum(borne.values()) > 0 else None
        return Burden(worst, worst_then, now)


def expected_harm(load: Load, window_s: float) -> dict[str, float] | None:
    """Requests that a window now is expected to harm, by sidecar; None while any is unknown."""
    if load.stale or not load.parts:
        return None
    harm = {}
    for part in load.parts:
        if part.in_flight is None or part.rate_per_s is None:
            return None
        harm[part.sidecar] = expected_overlap(part.in_flight, part.rate_per_s, window_s)
    return harm


def _dues(harm: Mapping[str, float], requests: Mapping[str, float]) -> dict[str, float]:
    """The harm that would be each sidecar's due: its share of the requests, of all harm."""
    sent, total = sum(requests.values()), sum(harm.values())
    return {s: total * requests[s] / sent if sent > 0 else 0.0 for s in harm}


def _worst(
    harm: Mapping[str, float], requests: Mapping[str, float], judged: list[str]
) -> tuple[str, float]:
    dues = _dues(harm, requests)
    burdens = {s: harm[s] / dues[s] for s in judged}
    worst = max(judged, key=burdens.__getitem__)
    return worst, burdens[worst]
