"""One policy at work in one run: its decider, a learner of its own and the merge it is in.

The learner's inner step is one cell long and ends as the cell begins: a command with no lead
opens its window in the very cell at whose start it was decided. H_max forces as it does live; and
as a run's end is known beforehand, a merge that H_max would force where its window no longer fits
is forced before that: every schedule made here is one that the matched random control may draw.
"""

from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt

from calibration.placement.corridor import Corridor
from controller.decider import Decider, Outcome, switchback_of
from controller.harm import HarmLedger
from controller.learners import LearnerState
from controller.outlook import Outlook
from controller.policies import Policy
from controller.settings import ControllerSettings
from controller.signals import Load
from controller.view import View, cost_of, timing_of
from slackwater.events import Finished, Step

TOKENS_PER_STEP = 1000
LEARNER = "learner-0"
RUN_ID = "simulated"
LEFT_TO_LEARNERS = "h_max_left_to_learners"


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy under a name of its own, with the settings it runs by."""

    name: str
    policy: Policy
    settings: ControllerSettings


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge that a policy placed.

    Attributes:
        start_cell: cell of the run at which the window opens.
        reason: why, in the decision's own word.
        forecast: expected overlap cost at the decision, requests; None where unknown.
    """

    start_cell: int
    reason: str
    forecast: float | None


class Seen:
    """What every policy sees alike at one tick."""

    def __init__(self, tick: int, tick_us: int, outlook: Outlook) -> None:
        self.tick, self.tick_us, self.outlook = tick, tick_us, outlook
        self.load: Load = outlook.load(tick_us)
        self.cost = cost_of(self.load, outlook.window_s)


class Contender:
    """A policy within one run, tick after tick; the run begins as if a merge had just been made.

    Args:
        entrant: the policy and its settings, whose corridor is that of the run.
        corridor: the run's cells, window and gaps.
        start_us: time of the run's cell 0 on the clock of the ticks.
    """

    def __init__(self, entrant: Entrant, corridor: Corridor, start_us: int) -> None:
        self.entrant = entrant
        self._corridor = corridor
        self._open = open_starts(corridor)
        coins = switchback_of(entrant.settings, f"{RUN_ID}:{start_us}")
        self._decider = Decider(entrant.policy, coins)
        self._learner = LearnerState(0, 0, start_us, start_us, start_us)
        self._harm = HarmLedger(entrant.settings.burden_half_life_s)
        self._settings = self._until_next(0)
        self._merge: Merge | None = None

    def tick(self, cell: int, seen: Seen) -> tuple[Outcome, Merge | None] | None:
        """Decide at the start of a cell, from 1 on.

        None while a merge is on its way or under way, and once no window fits the run any more.
        """
        if self._merge is not None:
            self._open_window(cell, seen)
            if cell < self._merge.start_cell + self._corridor.window_cells:
                return None
            self._finish(self._merge, seen)
        view = self._view(cell, seen)
        if self._over(view):
            return None
        outcome = self._decider.decide(view)
        self._merge = self._placed(outcome, seen)
        self._open_window(cell, seen)
        return outcome, self._merge

    def _open_window(self, cell: int, seen: Seen) -> None:
        """Count the harm of a window from its first cell on."""
        if self._merge is not None and self._merge.start_cell == cell:
            window_s = self._settings.window_s
            self._harm.open(f"cell {cell}", LEARNER, seen.tick_us, seen.load, window_s)

    def _view(self, cell: int, seen: Seen) -> View:
        settings = self._settings
        self._learner.observe(self._step(cell - 1, seen.tick_us))
        learners = {LEARNER: self._learner}
        lead_s = settings.command_lead_s
        return View(
            tick_us=seen.tick_us,
            tick_index=seen.tick,
            settings=settings,
            learners=learners,
            enough=True,
            lead_s=lead_s,
            timing=timing_of(learners, seen.tick_us, lead_s, settings),
            merging=False,
            load=seen.load,
            window_s=seen.outlook.window_s,
            cost=seen.cost,
            costs=seen.outlook.costs,
            flights=seen.outlook.flights,
            harm=self._harm,
            season=seen.outlook.season,
        )

    def _over(self, view: View) -> bool:
        """True when no command would be in time for this run, and none is needed to end it."""
        run, timing = self._corridor, view.timing
        late = timing is None or timing.first_reachable_step > run.last_start
        return late and self._learner.last_merge_step + run.max_gap_cells >= run.cells

    def _step(self, step: int, at_us: int) -> Step:
        """The last step done; tokens come evenly, the score's scale of them in a fixed period."""
        settings = self._settings
        per_step = settings.weights.tokens_scale / settings.fixed_steps
        since = step - self._learner.last_merge_step
        return Step(
            run_id=RUN_ID,
            at_us=at_us,
            learner=LEARNER,
            step=step,
            tokens=round(per_step),
            step_time_s=settings.tick_s,
            steps_since_merge=since,
            tokens_since_merge=round(since * per_step),
        )

    def _placed(self, outcome: Outcome, seen: Seen) -> Merge | None:
        """What comes of a decision: a merge at the step ordered, or the learner's own at H_max."""
        if outcome.order is not None:
            wanted = outcome.order.step
        elif outcome.choice.reason == LEFT_TO_LEARNERS:
            wanted = self._learner.last_merge_step + self._settings.max_gap_steps
        else:
            return None
        later = np.flatnonzero(self._open[wanted:])
        if not len(later):
            return None
        return Merge(wanted + int(later[0]), outcome.choice.reason, seen.cost)

    def _finish(self, merge: Merge, seen: Seen) -> None:
        pending = self._decider.pending
        self._decider.observe_report(
            Finished(
                run_id=RUN_ID,
                at_us=seen.tick_us,
                group=self._settings.group,
                learner=LEARNER,
                merge_id=pending.merge_id if pending else LEFT_TO_LEARNERS,
                step=merge.start_cell,
                seconds=self._settings.window_s,
                bytes_exchanged=0,
            )
        )
        self._learner.merge(merge.start_cell, seen.tick_us)
        self._harm.end(f"cell {merge.start_cell}", LEARNER)
        self._harm.count(seen.tick_us, seen.load, {LEARNER})
        self._settings = self._until_next(merge.start_cell)
        self._merge = None

    def _until_next(self, last: int) -> ControllerSettings:
        """The settings up to the next merge, H_max brought forward where the run's end asks it."""
        settings, run = self.entrant.settings, self._corridor
        if last + run.max_gap_cells >= run.cells:
            return settings
        gaps = np.flatnonzero(self._open[last : last + run.max_gap_cells + 1])
        forced = int(gaps[-1])
        if forced == settings.max_gap_steps:
            return settings
        return msgspec.structs.replace(settings, max_gap_steps=forced)


@cache
def open_starts(corridor: Corridor) -> npt.NDArray[np.bool_]:
    """[cells] where a merge may start so that its window and the rest of the run still fit.

    What is left of a run after a merge is a run of its own, with that merge at its cell 0.
    """
    cells = corridor.cells
    fits = [
        cell <= corridor.last_start
        and bool(
            Corridor(
                cells - cell,
                corridor.window_cells,
                corridor.min_gap_cells,
                corridor.max_gap_cells,
            ).budgets()
        )
        for cell in range(cells)
    ]
    return np.array(fits, np.bool_)
