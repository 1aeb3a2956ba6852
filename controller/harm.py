"""Who bears the harm of merges, and the bound on it.

A sidecar's *burden* is its share of the harm over its share of the requests, both over a trailing
memory: 1 is its due. Where a window's harm is unknown for any sidecar it is booked for none: a
share of which a part is missing would be wrong for all.
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
    """The sidecar that would be worst off if the window were taken.

    Attributes:
        sidecar: its name.
        then: its burden with the window counted in, as expected.
        window: its burden by the window alone.
        now: its burden as it is; None where no harm is remembered.
    """

    sidecar: str
    then: float
    window: float
    now: float | None

    def within(self, bound: float) -> bool:
        """True when the window keeps to the bound, or brings the worst-off back towards it.

        Beyond the bound it is not enough that a window lowers the burden a little: policies that
        look for calm would go on at almost the burden that they have.
        """
        return self.then <= bound or self.window <= bound


class HarmLedger:
    """Harm of the windows of one group's merges, by sidecar, as it was seen to happen.

    A window's harm is counted once it is over: who was in flight as it opened, and who arrived
    until it ended. The forecast that a policy chose it by would be wrong the same way each time:
    whoever looks for calm finds it where the forecast is too low.

    Args:
        half_life_s: a window counts half after so long.
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._harm: dict[str, Fading] = {}
        self._windows = Fading(half_life_s)
        self._open: dict[str, float] | None = None
        self._open_id: str | None = None
        self._ended = False

    def open(self, merge_id: str, load: Load) -> None:
        """A window opens under this load; the first word of a merge counts."""
        if merge_id == self._open_id:
            return
        self._open_id, self._ended = merge_id, False
        flights = {p.sidecar: (p.in_flight, p.arrived) for p in load.parts}
        self._open = None
        if flights and not load.stale:
            # What was there, less what had arrived: with what has arrived at the end, the harm.
            known = {s: flying - n for s, (flying, n) in flights.items() if flying is not None}
            self._open = known if len(known) == len(flights) else None

    def end(self, merge_id: str) -> None:
        """The window of this merge is over; it is counted at the next tick."""
        if merge_id == self._open_id:
            self._ended = True

    def count(self, now_us: int, load: Load) -> None:
        """At a tick: book the window that has ended; unknown harm is booked for nobody."""
        if not self._ended:
            return
        opened, self._open, self._ended = self._open, None, False
        arrived = {p.sidecar: p.arrived for p in load.parts}
        if opened is None or load.stale or not opened.keys() <= arrived.keys():
            return
        self._windows.add(now_us, 1.0)
        for sidecar, before in opened.items():
            if sidecar not in self._harm:
                self._harm[sidecar] = Fading(self._half_life_s)
            self._harm[sidecar].add(now_us, max(0.0, before + arrived[sidecar]))

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
        burdens = _burdens(then, requests)
        worst = max(judged, key=burdens.__getitem__)
        alone, so_far = _burdens(coming, requests)[worst], _burdens(borne, requests).get(worst)
        return Burden(worst, burdens[worst], alone, so_far)


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


def _burdens(harm: Mapping[str, float], requests: Mapping[str, float]) -> dict[str, float]:
    """Share of harm over share of requests, of those who have a share of both to speak of."""
    return {s: harm[s] / due for s, due in _dues(harm, requests).items() if due > 0}
