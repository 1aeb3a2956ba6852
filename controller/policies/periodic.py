"""Policies that look at the learners alone: fixed period, token target, random deferral."""

import random
from typing import ClassVar

from controller.policies.base import Choice
from controller.view import Timing, View


class FixedH:
    """`fixed_h`: merge every `fixed_steps` inner steps (DiLoCo's own rule)."""

    name: ClassVar[str] = "fixed_h"
    needs_load: ClassVar[bool] = False

    def choose(self, view: View, timing: Timing) -> Choice:
        """Merge when the period's step would be passed before the next tick."""
        target = timing.last_merge_step + view.settings.fixed_steps
        due = target <= timing.first_reachable_step + timing.steps_per_tick
        return Choice(
            due,
            "period_due" if due else "before_period",
            at_step=target if due else None,
            score=float(timing.gap_steps),
            threshold=float(view.settings.fixed_steps),
        )


class AdaptiveTokens:
    """`adaptive_tokens`: merge once the learners have seen enough tokens since the last merge."""

    name: ClassVar[str] = "adaptive_tokens"
    needs_load: ClassVar[bool] = False

    def choose(self, view: View, timing: Timing) -> Choice:  # noqa: ARG002
        """Compare the mean tokens a learner with the target."""
        states = list(view.learners.values())
        mean = sum(s.tokens_since_merge for s in states) / len(states)
        target = view.settings.tokens_target or self._middle(view)
        if target is None:
            return Choice(merge=False, reason="tokens_unknown", score=mean)
        due = mean >= target
        reason = "tokens_reached" if due else "tokens_short"
        return Choice(due, reason, score=mean, threshold=target)

    @staticmethod
    def _middle(view: View) -> float | None:
        """Tokens of the corridor's middle at the usual tokens a step; None while unknown."""
        usual = [s.tokens_per_step.mean for s in view.learners.values()]
        known = [tokens for tokens in usual if tokens]
        if not known:
            return None
        steps = (view.settings.min_gap_steps + view.settings.max_gap_steps) / 2
        return steps * sum(known) / len(known)


class RandomDeferral:
    """`random_deferral`: a coin at each tick; deployable, unlike the matched random control.

    The coin is a function of the seed and the tick's index, so that a run repeats exactly.
    """

    name: ClassVar[str] = "random_deferral"
    needs_load: ClassVar[bool] = False

    def choose(self, view: View, timing: Timing) -> Choice:
        """Merge when the tick's coin falls below the probability."""
        chance = view.settings.deferral_probability or self._even(view, timing)
        coin = random.Random(f"{view.settings.seed}:{view.tick_index}").random()  # noqa: S311
        merge = coin < chance
        reason = "coin_merge" if merge else "coin_wait"
        return Choice(merge, reason, score=coin, threshold=chance)

    @staticmethod
    def _even(view: View, timing: Timing) -> float:
        """A chance per tick whose mean wait is half of the corridor."""
        freedom_steps = view.settings.max_gap_steps - view.settings.min_gap_steps
        ticks = 0.5 * freedom_steps * timing.step_time_s / view.settings.tick_s
        return min(1.0, 1.0 / ticks) if ticks > 0 else 1.0
