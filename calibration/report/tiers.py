"""The tiers of what may be claimed: which one the evidence reaches, and what the next needs."""

from dataclasses import dataclass

from calibration.report.rows import GAIN, Fields

MEASURED = "measured sidecar"
NOT_NEEDED = "fixed period"
EFFECT = "effect transfer"
MEASURE = (
    "effect transfer: measure on the real sidecar that merges raise latency there (10 merges or "
    "more, the 95% interval of the p95 ratio above 1)"
)


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier, from nothing to claim upwards."""

    name: str
    shows: str
    reached: bool


LADDER = (
    ("no effect", "", "merges were not shown to raise latency: there is nothing to place"),
    ("load not matched", "", "the runs compared were not shown to have served the same load"),
    (
        "no claim",
        "",
        "too few or dependent runs, or no gain that passes the gate",
    ),
    ("budget only", "", "better than the fixed period, not better than as many merges at random"),
    (GAIN, "serving model", "better moments than random ones, as the serving model counts harm"),
    (GAIN, MEASURED, "the same, on a real sidecar where merges were shown to raise latency"),
)


def ladder(verdict: Fields) -> tuple[Tier, ...]:
    """All tiers, the one that the verdict reaches marked."""
    tier = verdict["tier"] if verdict["verdict"] == GAIN else ""
    return tuple(
        Tier(f"{name}, {kind}" if kind else name, shows, (name, kind) == (verdict["verdict"], tier))
        for name, kind, shows in LADDER
    )


def needed(verdict: Fields) -> tuple[str, ...]:
    """What stands between this verdict and the next tier, each with its reason."""
    if verdict["verdict"] == GAIN:
        return () if verdict["tier"] == MEASURED else (MEASURE,)
    return tuple(
        f"{step['name']}: {step['reason']}"
        for step in verdict["steps"]
        if step["passed"] is not True and not _optional(step)
    )


def _optional(step: Fields) -> bool:
    """The fixed period decides below a gain only; an effect not measured lowers the tier only."""
    return step["name"] == NOT_NEEDED or (step["name"] == EFFECT and step["passed"] is None)
