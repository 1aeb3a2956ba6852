"""Policies by name: the one table of them."""

from controller.policies.base import Choice, Policy
from controller.policies.periodic import AdaptiveTokens, FixedH, RandomDeferral
from controller.policies.pressure import AdaptiveLoad, PressureGate
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

# Those that weigh candidate windows by the season once it has skill.
SEASONAL = frozenset({SlackSeasonal.name})

__all__ = ["POLICIES", "SEASONAL", "Choice", "Policy", "policy_named"]


def policy_named(name: str) -> Policy:
    """The policy of that name; raises `InputError` naming all of them."""
    if name not in POLICIES:
        msg = f"there is no policy {name!r}; choose one of {', '.join(POLICIES)}"
        raise InputError(msg)
    return POLICIES[name]()
