"""The linear score of the paper: `wa_diloco` with raw pressure, `wa_forecast` calibrated."""

from typing import ClassVar

from controller.policies.base import Choice
from controller.policies.pressure import mean_known, relative_cost
from controller.policies.stopping import left_s, worth_rank
from controller.view import Timing, View
from slackwater.clock import US_PER_S


def _capped(value: float | None, scale: float) -> float | None:
    return None if value is None else min(1.0, max(0.0, value / scale))


def _learner_terms(view: View) -> dict[str, float | None]:
    """Each weighted term as its mean over the learners: the mean of linear scores."""
    w, states = view.settings.weights, list(view.learners.values())

    def term(weight: float, values: list[float | None]) -> float | None:
        mean = mean_known(values)
        return None if mean is None else weight * mean

    stale = [(view.tick_us - s.merged_us) / US_PER_S for s in states]
    return {
        "loss": term(w.loss, [_capped(s.loss_reduction, w.loss_scale) for s in states]),
        "tokens": term(w.tokens, [_capped(s.tokens_since_merge, w.tokens_scale) for s in states]),
        "network": term(-w.network, [_capped(s.network_pressure, 1.0) for s in states]),
        "checkpoint": term(-w.checkpoint, [_capped(s.checkpoint_pressure, 1.0) for s in states]),
        "staleness": term(
            w.staleness_sign * w.staleness, [_capped(s, w.staleness_scale_s) for s in stale]
        ),
    }


def _known(terms: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in terms.items() if value is not None}


def _score(view: View, name: str, serving: float | None) -> Choice:
    """Sum the known terms; without the serving term there is no score."""
    if serving is None:
        return Choice(merge=False, reason="load_not_learned")
    terms = _known(_learner_terms(view)) | {name: serving}
    score, threshold = sum(terms.values()), view.settings.weights.threshold
    merge = score > threshold
    reason = "score_above" if merge else "score_below"
    return Choice(merge, reason, None, score, threshold, terms)


class WaDiloco:
    """`wa_diloco`: progress minus pressure, serving pressure from the requests in flight now."""

    name: ClassVar[str] = "wa_diloco"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:  # noqa: ARG002
        """Merge when the mean score over the learners exceeds the threshold."""
        pressure = relative_cost(view.load.in_flight, view.flights)
        weight = -view.settings.weights.serving
        return _score(view, "serving", None if pressure is None else weight * pressure)


class WaForecast:
    """`wa_forecast`: the same score, with the calibrated cost in place of raw serving pressure.

    The cost is the expected overlap of the candidate window under the one-step EWMA of the
    request rate. It replaces the pressure term: counting the same requests twice would only add
    to their weight.
    """

    name: ClassVar[str] = "wa_forecast"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:  # noqa: ARG002
        """Merge when the mean score over the learners exceeds the threshold."""
        cost = relative_cost(view.cost, view.costs)
        weight = -view.settings.weights.serving_sync
        return _score(view, "serving_sync", None if cost is None else weight * cost)


class WaForecastCausal:
    """`wa_forecast_causal`: the score of `wa_forecast` against a threshold learned from the past.

    The threshold is the score that this moment's progress would have had at a past cost, the one
    whose rank is worth stopping at with the looks that are left (the rule of `slack`): it falls as
    H_max nears. Progress stands on both sides and decides nothing any more, whatever the weights;
    costs beyond twice the usual one count alike, as in the score.
    """

    name: ClassVar[str] = "wa_forecast_causal"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:
        """Merge when the mean score over the learners reaches the learned threshold."""
        worth = view.costs.quantile(worth_rank(view, left_s(view, timing)))
        weight = -view.settings.weights.serving_sync
        cost, bar = relative_cost(view.cost, view.costs), relative_cost(worth, view.costs)
        if cost is None or bar is None:
            return Choice(merge=False, reason="load_not_learned")
        terms = _known(_learner_terms(view)) | {"serving_sync": weight * cost}
        score = sum(terms.values())
        threshold = sum((terms | {"serving_sync": weight * bar}).values())
        merge = score >= threshold
        reason = "score_reached" if merge else "score_below"
        return Choice(merge, reason, None, score, threshold, terms)
