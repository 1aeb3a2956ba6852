"""Outcomes in figures: latencies from the scheduled arrival, and the client's own lag apart."""

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from sidecar.load.open_loop import LoadReport
from sidecar.load.outcome import Outcome

MOST_ERRORS = 8


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of one figure, in seconds; all None where there is none to take them of."""

    count: int
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A client's run in figures.

    Attributes:
        report: the account, times and CPU.
        e2e: scheduled arrival to last token, of requests that ended well.
        ttft: scheduled arrival to first token, of those whose first token was seen.
        lag: how late the client sent, of all that were sent.
        prompt_tokens: as the server counted them; None when it counted for none.
        output_tokens: as the server counted them; None when it counted for none.
        client_cpu_ms_a_request: None when nothing came due.
        errors: what went wrong and how often, the most frequent first, up to eight.
    """

    schema_version: int = 1
    report: LoadReport
    e2e: Quantiles
    ttft: Quantiles
    lag: Quantiles
    prompt_tokens: int | None
    output_tokens: int | None
    client_cpu_ms_a_request: float | None
    errors: dict[str, int] = {}


def summarise(report: LoadReport, outcomes: Iterable[Outcome]) -> Summary:
    """The figures of a run and all its outcomes."""
    seen = list(outcomes)
    errors = Counter(o.error for o in seen if o.error is not None)
    return Summary(
        report=report,
        e2e=quantiles([o.e2e_s for o in seen]),
        ttft=quantiles([o.ttft_s for o in seen]),
        lag=quantiles([o.lag_s for o in seen]),
        prompt_tokens=_total([o.prompt_tokens for o in seen]),
        output_tokens=_total([o.output_tokens for o in seen]),
        client_cpu_ms_a_request=(
            1000 * report.client_cpu_s / report.scheduled if report.scheduled else None
        ),
        errors=dict(errors.most_common(MOST_ERRORS)),
    )


def quantiles(values_s: Iterable[float | None]) -> Quantiles:
    """Quantiles of what is known among the values."""
    known = np.array([value for value in values_s if value is not None])
    if not len(known):
        return Quantiles(count=0)
    p50, p95, p99 = (float(q) for q in np.percentile(known, [50, 95, 99]))
    return Quantiles(count=len(known), p50_s=p50, p95_s=p95, p99_s=p99, max_s=float(known.max()))


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
