"""Who bears the harm: each sidecar's and tenant's part, all runs of a policy put together."""

from collections.abc import Iterable
from dataclasses import dataclass

from calibration.fairness import Bearer, together
from calibration.report.rows import Fields, Policy

SHOWN = 20
KINDS = ("sidecar", "tenant")


@dataclass(frozen=True, slots=True)
class Bearers:
    """The parts of one kind, who bears most for its requests first; `left_out` are not shown."""

    kind: str
    parts: tuple[Bearer, ...]
    left_out: int


def bearers(policy: Policy) -> tuple[Bearers, ...]:
    """The parts by sidecar and by tenant, as far as the runs tell them."""
    found = ((kind, _parts(policy.runs, f"{kind}s")) for kind in KINDS)
    return tuple(Bearers(kind, all_[:SHOWN], len(all_[SHOWN:])) for kind, all_ in found if all_)


def most_burdened(policy: Policy, kind: str) -> Bearer | None:
    """The part that bears most for its requests; None when unknown or nobody was harmed."""
    parts = _parts(policy.runs, f"{kind}s")
    return parts[0] if parts and parts[0].burden is not None else None


def _parts(runs: Iterable[Fields], field: str) -> tuple[Bearer, ...]:
    told = (one for run in runs for one in run[field] or ())
    parts = together((one["name"], one["requests"], one["harmed"]) for one in told)
    return tuple(sorted(parts, key=lambda part: (-(part.burden or 0.0), part.name)))
