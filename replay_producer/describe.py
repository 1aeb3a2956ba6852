"""What a trace looks like in figures, for a person's table and a program's JSON alike."""

import msgspec
import numpy as np

from replay_producer.readers import RECORDING
from replay_producer.recording import Recording
from replay_producer.trace import UNKNOWN_TOKENS, Floats, Ints, Trace
from slackwater.clock import US_PER_S


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Median, 95th percentile and largest of the values that are known."""

    known: int
    p50: float | None = None
    p95: float | None = None
    max: float | None = None


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """One trace in figures; None where a figure is undefined or unknown.

    Attributes:
        name: of the file or regime.
        format: of the file, or `generated`.
        sha256: of the file.
        origin_us: first instant, microseconds since the epoch.
        requests: how many.
        skipped: rows left out.
        duration_s: length of the trace.
        rate_per_s: requests divided by duration.
        peak_rate_per_s: requests in the busiest second.
        interarrival_cv: standard deviation over mean of the times between arrivals; 1 is Poisson.
        dispersion: variance over mean of the requests in a second; 1 is Poisson, more is bursty.
        prompt_tokens: quantiles of the known ones.
        output_tokens: quantiles of the known ones.
        e2e_s: quantiles of the recorded latencies.
        statuses: status -> requests.
        sidecars: names that the trace gives.
        tenants: how many different ones the trace gives.
        notes: what a person should know about the reading.
    """

    name: str
    format: str
    sha256: str | None
    origin_us: int | None
    requests: int
    skipped: int
    duration_s: float
    rate_per_s: float | None
    peak_rate_per_s: int
    interarrival_cv: float | None
    dispersion: float | None
    prompt_tokens: Quantiles
    output_tokens: Quantiles
    e2e_s: Quantiles
    statuses: dict[str, int]
    sidecars: list[str]
    tenants: int
    notes: tuple[str, ...]


class RecordingDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One recording in figures.

    Attributes:
        name: of the file.
        format: always `recording`.
        sha256: of the file.
        origin_us: the whole second of the first event, microseconds since the epoch.
        events: how many.
        duration_s: from that second to the last event.
        types: event type -> how many.
        notes: what a person should know about the reading.
    """

    name: str
    format: str = RECORDING
    sha256: str
    origin_us: int
    events: int
    duration_s: float
    types: dict[str, int]
    notes: tuple[str, ...]


def describe_recording(recording: Recording) -> RecordingDescription:
    """The figures of a recording."""
    return RecordingDescription(
        name=recording.name,
        sha256=recording.sha256,
        origin_us=recording.origin_us,
        events=len(recording),
        duration_s=recording.duration_us / US_PER_S,
        types=recording.counts(),
        notes=recording.notes,
    )


def describe(trace: Trace) -> Description:
    """The figures of a trace."""
    duration_s = trace.duration_us / US_PER_S
    _, per_second = np.unique(trace.arrival_us // US_PER_S, return_counts=True)
    return Description(
        name=trace.name,
        format=trace.format,
        sha256=trace.sha256,
        origin_us=trace.origin_us,
        requests=len(trace),
        skipped=trace.skipped,
        duration_s=duration_s,
        rate_per_s=len(trace) / duration_s if duration_s else None,
        peak_rate_per_s=int(per_second.max(initial=0)),
        interarrival_cv=_variation(np.diff(trace.arrival_us)),
        dispersion=_dispersion(trace),
        prompt_tokens=_quantiles(_known(trace.prompt_tokens)),
        output_tokens=_quantiles(_known(trace.output_tokens)),
        e2e_s=_quantiles(trace.e2e_s[~np.isnan(trace.e2e_s)]),
        statuses={s: int((trace.status == s).sum()) for s in sorted(set(trace.status))},
        sidecars=sorted({name for name in trace.sidecar if name is not None}),
        tenants=len({name for name in trace.tenant if name is not None}),
        notes=trace.notes,
    )


def _variation(gaps_us: Ints) -> float | None:
    if len(gaps_us) < 2 or not gaps_us.any():
        return None
    return float(gaps_us.std(ddof=1) / gaps_us.mean())


def _dispersion(trace: Trace) -> float | None:
    """Over the seconds that the trace covers whole, those without a request included."""
    seconds = trace.duration_us // US_PER_S
    inside = trace.arrival_us[trace.arrival_us < seconds * US_PER_S]
    if seconds < 2 or not len(inside):
        return None
    # From the occupied seconds alone: a trace may be idle for years between two requests.
    _, counts = np.unique(inside // US_PER_S, return_counts=True)
    mean = len(inside) / seconds
    variance = (float(np.square(counts).sum()) - mean * len(inside)) / (seconds - 1)
    return variance / mean


def _known(counts: Ints) -> Floats:
    known: Floats = counts[counts != UNKNOWN_TOKENS].astype(np.float64)
    return known


def _quantiles(values: Floats) -> Quantiles:
    if not len(values):
        return Quantiles(known=0)
    p50, p95 = np.quantile(values, [0.5, 0.95])
    return Quantiles(known=len(values), p50=float(p50), p95=float(p95), max=float(values.max()))
