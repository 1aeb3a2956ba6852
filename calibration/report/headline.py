"""The answer in one sentence, and what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibration.report.rows import GAIN, Fields, Policy, mean

LIVE = "run logs"
TRACES = "traces"
COUNTED = {
    "arriving": "the requests that arrive in the windows",
    "in_service": "the requests that arrive in the windows or are in service as they open",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """What a reader must know first.

    Attributes:
        load: what the policies were run on.
        gained: may a placement gain be claimed?
        sentence: the verdict.
        rests_on: the evidence behind it, and for what it holds.
        figures: label and value of the few numbers that matter.
    """

    load: str
    gained: bool
    sentence: str
    rests_on: str
    figures: tuple[tuple[str, str], ...]


def headline(document: Fields, load: str, policy: Policy) -> Headline:
    """The sentence on one policy of one load, with its rank where its envelope was drawn."""
    ranks = {(one["load"], one["policy"]): one["rank"] for one in document["envelopes"]}
    gained = policy.verdict["verdict"] == GAIN
    return Headline(
        load=load,
        gained=gained,
        sentence=_gain(policy) if gained else _no_gain(policy),
        rests_on=f"{_evidence(document, load, policy)} {_named(document, policy)}",
        figures=_figures(policy, ranks.get((load, policy.name))),
    )


def _gain(policy: Policy) -> str:
    return f"{policy.name}: placement gain. Its merges harm {_than_random(policy)}."


def _no_gain(policy: Policy) -> str:
    return (
        f"{policy.name}: {policy.verdict['verdict']}. No gain from the choice of moment may be "
        f"claimed: {policy.verdict['reason']}. Seen all the same: its merges harmed "
        f"{_than_random(policy)}."
    )


def _than_random(policy: Policy) -> str:
    gain = policy.verdict["gain_pp"]
    direction = "fewer" if gain >= 0 else "more"
    spared = f" ({_spared(policy)})" if policy.spared is not None else ""
    return (
        f"{abs(gain):.2f} percentage points {direction} requests than as many merges at "
        f"random moments{spared}"
    )


def _spared(policy: Policy) -> str:
    spared = policy.spared or 0.0
    word = "spared" if spared >= 0 else "more harmed"
    return f"{_count(abs(spared))} requests {word} per sidecar and ten minutes"


def _evidence(document: Fields, load: str, policy: Policy) -> str:
    n = policy.verdict["n"]
    runs = f"{n} run{'s' if n != 1 else ''}"
    if load == LIVE:
        logs = "their logs" if n > 1 else "its log"
        counted = COUNTED[document["configuration"]["model"]["counting"]]
        return f"It rests on {runs} of a live system, from {logs}; harmed are {counted}."
    if load == TRACES:
        return f"It rests on {_segments(document, load, runs)}; {_tier(document, policy)}."
    return f"It rests on {runs} of generated traffic, independent; {_tier(document, policy)}."


def _segments(document: Fields, load: str, runs: str) -> str:
    traces = [one for one in document["loads"] if one["load"] == load]
    cut = sum(len(one["first_cells"]) > 1 for one in traces)
    if not cut:
        return f"{runs} of {len(traces)} trace{'s' if len(traces) > 1 else ''}"
    whose = "one trace" if len(traces) == 1 else f"{len(traces)} traces"
    return f"{runs} that are segments of {whose}, not independent runs: it speaks of {whose} alone"


def _tier(document: Fields, policy: Policy) -> str:
    settings = document["configuration"]
    counted = f"harm is counted by the serving model ({settings['model']['name']})"
    profile = settings.get("profile")
    if policy.verdict["tier"] == "measured sidecar":
        return f"{counted}, and merges were shown to raise latency on a measured sidecar"
    if profile and profile["effect"]:
        return f"{counted}, with the measured profile {profile['name']}"
    return f"{counted}; no real sidecar was measured"


def _named(document: Fields, policy: Policy) -> str:
    claim = document["configuration"].get("claim")
    if claim == policy.name:
        return "The policy was named beforehand, so its p is not corrected."
    number = policy.verdict["policies"]
    if number == 1:
        return "It is the only policy here."
    return f"It is the best of {number} policies, and p is corrected for all of them."


def _figures(policy: Policy, rank: float | None) -> tuple[tuple[str, str], ...]:
    verdict = policy.verdict
    low_high = verdict["interval"]
    interval = f"{low_high[0]:.2f} to {low_high[1]:.2f} pp" if low_high else "none under 6 runs"
    capture = "unknown" if verdict["capture"] is None else f"{100 * verdict['capture']:.0f} %"
    return (
        ("gain over matched random", f"{verdict['gain_pp']:.2f} pp"),
        ("95 % interval", interval),
        ("p, two-sided", f"{verdict['p_value']:.2g}"),
        ("requests harmed", f"{policy.cost_pp:.1f} %, random {policy.random_pp:.1f} %"),
        (
            "random schedules that did better" + (", mean of runs" if len(policy.runs) > 1 else ""),
            "unknown" if rank is None else f"{rank:.1f} %",
        ),
        ("share of the oracle's gain", capture),
        ("merges a run", f"{mean([run['budget'] for run in policy.runs]):.1f}"),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def loads_of(document: Fields) -> Sequence[str]:
    """The loads that have verdicts, in order."""
    return list(dict.fromkeys(verdict["load"] for verdict in document["verdicts"]))
