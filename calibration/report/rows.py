"""The document's runs and verdicts, gathered by policy: what every part of the page reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Fields = Mapping[str, Any]
GAIN = "placement gain"
TEN_MINUTES_S = 600.0


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy on one load: its verdict, its runs, and what the runs are runs of."""

    name: str
    verdict: Fields
    runs: tuple[Fields, ...]
    traffic: Mapping[str, Fields]

    @property
    def cost_pp(self) -> float:
        """Requests harmed in % of all, mean over the runs."""
        return mean([_pp(run, "cost") for run in self.runs])

    @property
    def random_pp(self) -> float:
        """The same for random schedules with as many merges, exact."""
        return mean([_pp(run, "random_mean") for run in self.runs])

    @property
    def oracle_pp(self) -> float:
        """The same for the best schedule."""
        return mean([_pp(run, "oracle_exact") for run in self.runs])

    @property
    def ceiling_pp(self) -> float | None:
        """The predictable ceiling as a gain in percentage points; None where a run has none."""
        if any(run["ceiling"] is None for run in self.runs):
            return None
        return mean([run["ceiling"] * _pp(run, "random_mean") for run in self.runs])

    @property
    def spared(self) -> float | None:
        """Requests spared per sidecar and ten minutes, mean over the runs; None if unknown."""
        if any(run["run"] not in self.traffic for run in self.runs):
            return None
        return mean([self._spared(run) for run in self.runs])

    def _spared(self, run: Fields) -> float:
        served = self.traffic[run["run"]]
        tenths = served["seconds"] / TEN_MINUTES_S
        return float((run["random_mean"] - run["cost"]) / served["sidecars"] / tenths)

    def mean_of(self, field: str) -> float | None:
        """A figure's mean over the runs that have it; None when none has."""
        known = [run[field] for run in self.runs if run.get(field) is not None]
        return mean(known) if known else None


def policies_of(document: Fields, load: str) -> tuple[Policy, ...]:
    """The policies of one load in the verdicts' order: the claimed one comes first."""
    traffic = {one["run"]: one for one in document["traffic"] if one["load"] == load}
    runs = [run for run in document["runs"] if run["load"] == load]
    return tuple(
        Policy(
            verdict["policy"],
            verdict,
            tuple(run for run in runs if run["policy"] == verdict["policy"]),
            traffic,
        )
        for verdict in document["verdicts"]
        if verdict["load"] == load
    )


def shown_first(policies: Sequence[Policy], claim: str | None) -> Policy:
    """The claimed policy; without a claim the best one: a gain before none, then by size."""
    if claim is not None:
        named = [policy for policy in policies if policy.name == claim]
        if named:
            return named[0]
    return max(policies, key=lambda p: (p.verdict["verdict"] == GAIN, p.verdict["gain_pp"]))


def mean(values: Sequence[float]) -> float:
    """Their mean, of one or more."""
    return float(sum(values)) / len(values)


def _pp(run: Fields, field: str) -> float:
    return float(100 * run[field] / run["requests"])
