"""Observations in, decisions out, in event time: the same code live and offline.

Observations may be given in any order and any batches. They are sorted by the time from which
they could be known, and every tick sees exactly those at or before it; so the decisions depend on
what was observed, never on when or how it was delivered. The caller says up to where the
observations are complete (`advance`).
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import count

from controller.audit import decision_of
from controller.decider import Decider, Order, switchback_of
from controller.harm import HarmLedger
from controller.lead import CommandLead
from controller.learners import Learners, settled
from controller.outlook import Outlook, OutlookSettings
from controller.policies import Policy
from controller.settings import ControllerSettings
from controller.view import View, cost_of, timing_of
from slackwater.clock import US_PER_S
from slackwater.events import (
    Accepted,
    BinRow,
    Decision,
    Finished,
    Heartbeat,
    MergeCommand,
    MergeNow,
    MergeReport,
    Pause,
    Resume,
    Skipped,
    Started,
    Step,
)

Observation = BinRow | Step | Heartbeat | MergeReport | Pause | Resume | MergeNow
Key = tuple[int, int, str, int]

# Without any observation for so long, no tick is decided until the next one.
QUIET_US = 60 * US_PER_S

PHASES: tuple[type[MergeReport], ...] = (Accepted, Started, Finished, Skipped)


class Engine:
    """Decisions of one merge group; the first policy is active, the others only watch.

    Every policy sees the same learners and load, and remembers its own orders: a watching policy
    is told what the learners really did. A switchback is the active policy's alone.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        policies: Sequence[Policy],
        *,
        run_id: str,
        bin_s: float = 0.25,
    ) -> None:
        self.settings = settings
        self.run_id = run_id
        self._bin_s = bin_s
        self._tick_us = round(settings.tick_s * US_PER_S)
        self._heap: list[tuple[Key, int, Observation]] = []
        self._arrival = count()
        self._next_tick_us: int | None = None
        self._newest_us = 0
        self._outlook = Outlook(OutlookSettings.of(settings), bin_s)
        self._learners = Learners(settings.min_gap_steps)
        self._harm = HarmLedger(settings.burden_half_life_s)
        self._lead = CommandLead(settings.command_lead_s)
        self._deciders = [Decider(policy) for policy in policies]
        self._deciders[0].switchback = switchback_of(settings, run_id)
        self.late_observations = 0

    def observe(self, observation: Observation) -> None:
        """Take one observation; it counts from its own time on, or from the next tick if late."""
        key = self._key(observation)
        if self._next_tick_us is not None and key[0] <= self._next_tick_us - self._tick_us:
            self.late_observations += 1
        heapq.heappush(self._heap, (key, next(self._arrival), observation))

    def advance(self, watermark_us: int) -> Iterator[tuple[Decision, MergeCommand | None]]:
        """Decide every tick up to `watermark_us`, up to where the observations are complete.

        Yields each policy's decision at each tick, with the command where the active one merges.
        """
        if self._next_tick_us is None:
            if not self._heap or self._heap[0][0][0] > watermark_us:
                return
            self._next_tick_us = self._tick_at_or_after(self._heap[0][0][0])
        while self._next_tick_us <= watermark_us:
            if self._next_tick_us - self._newest_us > QUIET_US and not self._skip_quiet(
                watermark_us
            ):
                return
            yield from self._tick(self._next_tick_us)
            self._next_tick_us += self._tick_us

    def _skip_quiet(self, watermark_us: int) -> bool:
        """Go to the next observation, after a minute in which there was none; False if none is.

        Whatever time may have passed (a clock that jumped, a host that slept), there is nothing
        to decide on before it.
        """
        if not self._heap or self._heap[0][0][0] > watermark_us:
            return False
        self._next_tick_us = self._tick_at_or_after(self._heap[0][0][0])
        return True

    def _tick_at_or_after(self, us: int) -> int:
        return max(self._next_tick_us or 0, -(-us // self._tick_us) * self._tick_us)

    def _tick(self, tick_us: int) -> Iterator[tuple[Decision, MergeCommand | None]]:
        while self._heap and self._heap[0][0][0] <= tick_us:
            key, _, observation = heapq.heappop(self._heap)
            self._newest_us = max(self._newest_us, key[0])
            self._apply(observation)
        view = self._view(tick_us)
        for index, decider in enumerate(self._deciders):
            outcome = decider.decide(view)
            active = index == 0
            decision = decision_of(view, decider.policy.name, outcome, self.run_id, active=active)
            command = self._command(view, outcome.order, decision) if active else None
            yield decision, command
        self._outlook.remember(tick_us, view.load)

    def _view(self, tick_us: int) -> View:
        learners = self._learners.present(tick_us, self.settings.learner_stale_s)
        outlook, load = self._outlook, self._outlook.load(tick_us)
        if self.settings.measure_window:
            outlook.follow_window(self._learners.window_s)
        self._harm.count(tick_us, load, learners)
        lead_s = self._lead.lead_s(learners.values(), self.settings.max_gap_steps)
        return View(
            tick_us=tick_us,
            tick_index=tick_us // self._tick_us,
            settings=self.settings,
            learners=learners,
            enough=self._enough(len(learners)),
            lead_s=lead_s,
            timing=timing_of(learners, tick_us, lead_s, self.settings),
            merging=self._learners.merging(learners),
            load=load,
            window_s=outlook.window_s,
            cost=cost_of(load, outlook.window_s),
            costs=outlook.costs,
            flights=outlook.flights,
            harm=self._harm,
            season=outlook.season,
        )

    def _enough(self, present: int) -> bool:
        """True when so many learners may merge; at first all that are expected, then a quorum."""
        complete_once = self._learners.most_present >= self.settings.expect_learners
        return complete_once and present >= max(1, self.settings.needed_learners)

    def _command(self, view: View, order: Order | None, decision: Decision) -> MergeCommand | None:
        if order is None:
            return None
        self._lead.ordered(order.merge_id, view.tick_us)
        return MergeCommand(
            run_id=self.run_id,
            at_us=view.tick_us,
            group=self.settings.group,
            merge_id=order.merge_id,
            at_step=order.at_step,
            moment_us=order.moment_us,
            deadline_us=order.deadline_us,
            window_s=view.window_s,
            reason=decision.reason,
            participants=list(order.participants),
            epoch=order.epoch,
        )

    def _apply(self, observation: Observation) -> None:
        match observation:
            case BinRow():
                self._outlook.observe(observation)
            case Step():
                self._learners.observe_step(observation)
            case Heartbeat():
                self._learners.observe_heartbeat(observation)
            case MergeReport():
                self._learners.observe_report(observation)
                self._lead.observe(observation)
                self._book(observation)
                for decider in self._deciders:
                    decider.observe_report(observation)
            case Pause() | Resume():
                for decider in self._deciders:
                    decider.paused = isinstance(observation, Pause)
            case MergeNow():
                for decider in self._deciders:
                    decider.merge_now = True

    def _book(self, report: MergeReport) -> None:
        """Book a window that really opened, for whatever reason: it counts for all policies."""
        if isinstance(report, Started):
            load, window_s = self._outlook.load(report.at_us), self._outlook.window_s
            self._harm.open(report.merge_id, report.learner, report.at_us, load, window_s)
        elif settled(report):
            self._harm.end(report.merge_id, report.learner)

    def _key(self, observation: Observation) -> Key:
        """Total order of observations: by the time they could be known, then by source."""
        match observation:
            case BinRow():
                end_us = observation.start_us + round(self._bin_s * US_PER_S)
                return end_us, 0, observation.sidecar, observation.start_us
            case Step():
                return observation.at_us, 1, observation.learner, observation.step
            case Heartbeat():
                return observation.at_us, 2, observation.learner, int(observation.final)
            case MergeReport():
                who = f"{observation.learner}/{observation.merge_id}"
                return observation.at_us, 3, who, PHASES.index(type(observation))
        return observation.at_us, 4, type(observation).__name__, 0
