"""Outcomes in figures: latencies from the scheduled arrival, and the client's own lag apart."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from sidecar.load.open_loop import LoadReport
from sidecar.load.outcome import Outcome
from slackwater.clock import US_PER_S

MOST_ERRORS = 8
NUMBER = re.compile(r"\d+")


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
        batch: start of a closed-loop batch to its last answer, of batches that all ended well.
        prompt_tokens: as the server counted them; None when it counted for none.
        output_tokens: as the server counted them; None when it counted for none.
        client_cpu_ms_a_request: None when nothing came due.
        errors: what went wrong and how often, the most frequent first, up to eight; texts that
            differ in numbers alone are one, told by its first.
    """

    schema_version: int = 1
    report: LoadReport
    e2e: Quantiles
    ttft: Quantiles
    lag: Quantiles
    batch: Quantiles
    prompt_tokens: int | None
    output_tokens: int | None
    client_cpu_ms_a_request: float | None
    errors: dict[str, int] = {}


class Tally:
    """Keeps of each outcome what the summary needs, 24 bytes a request."""

    def __init__(self) -> None:
        self._e2e_s = array("d")
        self._ttft_s = array("d")
        self._lag_s = array("d")
        self._batches: dict[int, float | None] = {}
        self._tokens: dict[str, int | None] = {"prompt_tokens": None, "output_tokens": None}
        self._errors: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, outcome: Outcome) -> None:
        """Take one outcome."""
        for values, value in (
            (self._e2e_s, outcome.e2e_s),
            (self._ttft_s, outcome.ttft_s),
            (self._lag_s, outcome.lag_s),
        ):
            if value is not None:
                values.append(value)
        for name, total in self._tokens.items():
            count = getattr(outcome, name)
            if count is not None:
                self._tokens[name] = (total or 0) + count
        if outcome.error is not None:
            kind = NUMBER.sub("0", outcome.error)
            self._errors[self._first.setdefault(kind, outcome.error)] += 1
        if outcome.batch is not None:
            self._add_to_batch(outcome.batch, outcome)

    def _add_to_batch(self, number: int, outcome: Outcome) -> None:
        longest = self._batches.get(number, 0.0)
        took_s = (outcome.ended_us - outcome.scheduled_us) / US_PER_S
        well = longest is not None and outcome.status == "ok"
        self._batches[number] = max(longest or 0.0, took_s) if well else None

    def summary(self, report: LoadReport) -> Summary:
        """The figures of a run that has ended, of all outcomes that were added."""
        cpu_ms = 1000 * report.client_cpu_s
        return Summary(
            report=report,
            e2e=quantiles(self._e2e_s),
            ttft=quantiles(self._ttft_s),
            lag=quantiles(self._lag_s),
            batch=quantiles(took_s for took_s in self._batches.values() if took_s is not None),
            prompt_tokens=self._tokens["prompt_tokens"],
            output_tokens=self._tokens["output_tokens"],
            client_cpu_ms_a_request=cpu_ms / report.scheduled if report.scheduled else None,
            errors=dict(self._errors.most_common(MOST_ERRORS)),
        )


def summarise(report: LoadReport, outcomes: Iterable[Outcome]) -> Summary:
    """The figures of a run and all its outcomes."""
    tally = Tally()
    for outcome in outcomes:
        tally.add(outcome)
    return tally.summary(report)


def quantiles(values_s: Iterable[float]) -> Quantiles:
    """Quantiles by linear interpolation."""
    known = np.array(list(values_s))
    if not len(known):
        return Quantiles(count=0)
    p50, p95, p99 = (float(q) for q in np.percentile(known, [50, 95, 99]))
    return Quantiles(count=len(known), p50_s=p50, p95_s=p95, p99_s=p99, max_s=float(known.max()))
