"""Policies by name: the one table of them."""

from controller.policies.base import Choice, Policy
from controller.policies.periodic import AdaptiveTokens, FixedH, RandomDeferral
from controller.policies.pressure import AdaptiveLoad, PressureGate
from controller.policies.scheduled import Scheduled
from controller.policies.score import WaDiloco, WaForecast, WaForecastCausal
from controller.policies.stopping import Slack, SlackMarkov, SlackSeasonal
from slackwater.errors import InputError

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        FixedH,
        AdaptiveTokens,
        AdaptiveLoad,
        PressureGate,
        RandomDeferral,
        WaDiloco,
        WaForecast,
        WaForecastCausal,
        Slack,
        SlackMarkov,
        SlackSeasonal,
    )
}

# What is no policy to choose or to compare: a control whose merges were drawn beforehand.
CONTROLS: dict[str, type[Policy]] = {Scheduled.name: Scheduled}

# Those that weigh candidate windows by the season once it has skill.
SEASONAL = frozenset({SlackSeasonal.name})

__all__ = ["CONTROLS", "POLICIES", "SEASONAL", "Choice", "Policy", "policy_named"]


def policy_named(name: str) -> Policy:
    """The policy or control of that name; raises `InputError` naming all policies."""
    known = POLICIES | CONTROLS
    if name not in known:
        msg = f"there is no policy {name!r}; choose one of {', '.join(POLICIES)}"
        raise InputError(msg)
    return known[name]()
