"""Who bears the harm of merges, and the bound on it.

A sidecar's *burden* is its share of the harm over its share of the requests, both over a trailing
memory: 1 is its due. Where a window's harm is unknown for any sidecar it is booked for none: a
share of which a part is missing would be wrong for all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.estimators import Fading
from controller.overlap import expected_overlap
from controller.signals import Load
from slackwater.clock import US_PER_S

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


@dataclass(slots=True)
class Window:
    """One merge's window, from its first learner's start until all that started have ended.

    Attributes:
        merge_id: the merge.
        planned_us: when it should be over; stands in for the end where a learner tells of none.
        before: by sidecar, requests in flight as it opened less all that had arrived by then: with
            all that has arrived at the end, the harm. None where unknown.
        started: when each learner started.
        inside: those of them that have not ended.
        harm: by sidecar, up to the latest end that is known; None where unknown.
        measured: whether `harm` is known to be that, or to be unknown.
        booked: whether it has been counted.
    """

    merge_id: str
    planned_us: int
    before: dict[str, float] | None
    started: dict[str, int]
    inside: set[str]
    harm: dict[str, float] | None = None
    measured: bool = False
    booked: bool = False

    def measure(self, load: Load) -> None:
        """Take this moment for the end."""
        arrived = {p.sidecar: p.arrived_ever for p in load.parts}
        self.measured, self.harm = True, None
        if self.before is None or load.stale or not self.before.keys() <= arrived.keys():
            return
        self.harm = {s: max(0.0, n + arrived[s]) for s, n in self.before.items()}


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
        self._window: Window | None = None

    def open(self, merge_id: str, learner: str, at_us: int, load: Load, window_s: float) -> None:
        """A learner starts a merge under this load; the first to start opens the window.

        A learner that starts anew what it had started before makes another merge of that name.
        `window_s` is the length expected.
        """
        last = self._window
        if last is not None and last.merge_id == merge_id:
            if learner not in last.started:
                last.started[learner] = at_us
                last.inside.add(learner)
            if at_us <= last.started[learner]:
                return
        if last is not None and not last.booked:
            # Where another begins, this one is over, whatever its learners have yet to tell.
            self._book(last, at_us, load)
        planned_us = at_us + round(window_s * US_PER_S)
        started = {learner: at_us}
        self._window = Window(merge_id, planned_us, _before(load), started, {learner})

    def end(self, merge_id: str, learner: str) -> None:
        """A learner's part is over; one that had not started ends nothing."""
        window = self._window
        if window is not None and window.merge_id == merge_id and learner in window.inside:
            window.inside.discard(learner)
            window.measured = False

    def count(self, now_us: int, load: Load, present: Collection[str]) -> None:
        """At a tick: book the window once it has ended; unknown harm is booked for nobody.

        Where nobody who has yet to end it is `present` any more, it ended as planned, or with the
        last who told of an end if that was later.
        """
        window = self._window
        if window is None or window.booked:
            return
        if window.inside and now_us < window.planned_us:
            return
        if not window.measured:
            window.measure(load)
        if window.inside.isdisjoint(present):
            self._book(window, now_us, load)

    def _book(self, window: Window, now_us: int, load: Load) -> None:
        if not window.measured:
            window.measure(load)
        window.booked = True
        if window.harm is None:
            return
        self._windows.add(now_us, 1.0)
        for sidecar, harm in window.harm.items():
            if sidecar not in self._harm:
                self._harm[sidecar] = Fading(self._half_life_s)
            self._harm[sidecar].add(now_us, harm)

    def burden(self, now_us: int, load: Load, window_s: float) -> Burden | None:
        """What a window now would make of the worst burden.

        None where that cannot be judged, and where the window would harm nobody at all.
        """
        coming = expected_harm(load, window_s)
        if not coming or not any(coming.values()) or self._windows.at(now_us) < MIN_WINDOWS:
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


def _before(load: Load) -> dict[str, float] | None:
    """By sidecar, requests in flight less all arrivals so far; None while any is unknown."""
    if load.stale or not load.parts:
        return None
    before = {}
    for part in load.parts:
        if part.in_flight is None:
            return None
        before[part.sidecar] = part.in_flight - part.arrived_ever
    return before


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
