"""Who bears the harm: each sidecar's and tenant's part, all runs of a policy put together."""

from collections.abc import Iterable
from dataclasses import dataclass

from calibration.report.rows import Fields, Policy

SHOWN = 20
KINDS = ("sidecar", "tenant")


@dataclass(frozen=True, slots=True)
class Part:
    """One sidecar's or tenant's part; `share_of_harm` and `burden` None when nobody was harmed."""

    name: str
    requests: int
    harmed: int
    share_of_requests: float
    share_of_harm: float | None
    burden: float | None


@dataclass(frozen=True, slots=True)
class Bearers:
    """The parts of one kind, who bears most for its requests first; `left_out` are not shown."""

    kind: str
    parts: tuple[Part, ...]
    left_out: int


def bearers(policy: Policy) -> tuple[Bearers, ...]:
    """The parts by sidecar and by tenant, as far as the runs tell them."""
    found = ((kind, _parts(policy.runs, f"{kind}s")) for kind in KINDS)
    return tuple(Bearers(kind, all_[:SHOWN], len(all_[SHOWN:])) for kind, all_ in found if all_)


def most_burdened(policy: Policy, kind: str) -> Part | None:
    """The part that bears most for its requests; None when unknown or nobody was harmed."""
    parts = _parts(policy.runs, f"{kind}s")
    return parts[0] if parts and parts[0].burden is not None else None


def _parts(runs: Iterable[Fields], field: str) -> tuple[Part, ...]:
    sent: dict[str, int] = {}
    harmed: dict[str, int] = {}
    for run in runs:
        for one in run[field] or ():
            sent[one["name"]] = sent.get(one["name"], 0) + one["requests"]
            harmed[one["name"]] = harmed.get(one["name"], 0) + one["harmed"]
    all_sent, all_harmed = sum(sent.values()), sum(harmed.values())
    parts = [_part(name, n, harmed[name], all_sent, all_harmed) for name, n in sent.items()]
    return tuple(sorted(parts, key=lambda part: (-(part.burden or 0.0), part.name)))


def _part(name: str, requests: int, harmed: int, all_sent: int, all_harmed: int) -> Part:
    of_requests = requests / all_sent
    of_harm = harmed / all_harmed if all_harmed else None
    burden = None if of_harm is None else of_harm / of_requests
    return Part(name, requests, harmed, of_requests, of_harm, burden)
