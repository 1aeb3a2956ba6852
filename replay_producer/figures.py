"""A description in a person's words: labels and units, and nothing that the trace does not have."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from replay_producer.describe import Description, Quantiles, RecordingDescription

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = tuple[str, str]


def rows(known: Description | RecordingDescription, speed: float) -> Iterator[Row]:
    """Label and figure of all that is known; `speed` is event seconds a wall second."""
    yield "format", known.format
    if known.origin_us is not None:
        yield (
            "starts",
            f"{EPOCH + timedelta(microseconds=known.origin_us):%Y-%m-%d %H:%M:%S.%f} UTC",
        )
    yield "length", _length(known.duration_s, speed)
    if isinstance(known, Description):
        yield from _trace(known)
    else:
        yield "events", f"{known.events:,}: {_counts(known.types)}"
    if known.sha256 is not None:
        yield "SHA-256", known.sha256
    if known.notes:
        yield "notes", "\n".join(known.notes)


def _trace(known: Description) -> Iterator[Row]:
    yield "requests", f"{known.requests:,}"
    if known.skipped:
        yield "skipped", f"{known.skipped:,} rows that cannot be used"
    if known.rate_per_s is not None:
        yield "mean rate", f"{known.rate_per_s:,.4g} requests/s over the whole length"
    yield "busiest second", f"{known.peak_rate_per_s:,} requests"
    if known.dispersion is not None:
        meaning = "1 is Poisson, more is bursty"
        yield (
            "burstiness",
            f"variance / mean of requests a second {known.dispersion:.4g} ({meaning})",
        )
    if known.interarrival_cv is not None:
        spread = f"{known.interarrival_cv:.4g} (1 is Poisson)"
        yield "interarrival", f"standard deviation / mean of the time between arrivals {spread}"
    for label, found, unit in (
        ("prompt", known.prompt_tokens, "tokens"),
        ("output", known.output_tokens, "tokens"),
        ("recorded latency", known.e2e_s, "s"),
    ):
        if found.known:
            yield label, _quantiles(found, unit, known.requests)
    # A trace that records no status has every request as `ok`.
    if known.e2e_s.known or set(known.statuses) - {"ok"}:
        yield "recorded status", _counts(known.statuses)
    if known.sidecars:
        yield "sidecars", ", ".join(known.sidecars)
    if known.tenants:
        yield "tenants", f"{known.tenants:,}"


def _length(duration_s: float, speed: float) -> str:
    wall = "" if speed == 1 else f", {duration_s / speed:,.5g} s on the wall at speed {speed:g}"
    return f"{duration_s:,.1f} s{wall}"


def _quantiles(found: Quantiles, unit: str, requests: int) -> str:
    of = "" if found.known == requests else f" (known of {found.known:,} requests)"
    names = {"median": found.p50, "p95": found.p95, "largest": found.max}
    figures = ", ".join(f"{name} {_plain(value)}" for name, value in names.items())
    return f"{figures} {unit}{of}"


def _plain(value: float | None) -> str:
    """Whole above 100, else three decimals at most; no powers of ten."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3f}".rstrip("0").rstrip(".")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
