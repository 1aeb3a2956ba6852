"""Where a profile's figures come from: what `slackwater calibrate` measured on a real server."""

from typing import Any, Literal

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured figure with its 95% interval; the ends are None with too few rounds or merges."""

    value: float
    low: float | None = None
    high: float | None = None


class Ratios(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One arm against another; None is unknown.

    Attributes:
        requests, base_requests: on both sides.
        p50_ratio, p95_ratio, p99_ratio: of latency.
        violating, base_violating: share of requests over the SLO.
        odds_ratio: odds of a violation.
        excess_pp: violations more, percentage points of requests.
    """

    requests: int
    base_requests: int
    p50_ratio: Ratio | None = None
    p95_ratio: Ratio | None = None
    p99_ratio: Ratio | None = None
    violating: float
    base_violating: float
    odds_ratio: Ratio | None = None
    excess_pp: Ratio | None = None


class LoadEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What merges do that open on about the same load.

    Attributes:
        level: which third of the merges.
        least, most: requests in flight at their windows' starts.
        merges: how many.
        ratios: against the same load without merges; None where nothing was there to compare.
    """

    level: Literal["low", "middle", "high"]
    least: int
    most: int
    merges: int
    ratios: Ratios | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a profile was measured, and all that was found; `slackwater calibrate` writes it.

    Attributes:
        started_us: microseconds since the Unix epoch.
        measured_s: of all arms together.
        seed: of arrivals, order of blocks and moments of merges.
        server: what was measured.
        merging: how merges were made.
        rate_per_s, prompt_tokens, output_tokens: the load.
        alone_per_s: requests that the server answered a second, one at a time and with no learner
            beside it; None where the rate was given.
        slo_given: false for an SLO taken from the arm without merges.
        merges: measured.
        merges_discarded: made and in no figure.
        window_s, longest_window_s: of a merge.
        p50_s, p95_s, p99_s: latency beside learners that do not merge.
        merging_effect: requests that met a merge, against learners without merges.
        learners_effect: learners without merges against the server alone; None without that arm.
        by_load: the effect by the load that a merge opened on.
        spill_over_s: how long harm was shown after a window; None when it could not be judged.
        load_matched: whether the arms were shown to serve the same load, and why or why not.
        load_reason: in words.
        accounts: by arm: `due`, and `ok`, `aborted`, `timeout`, `error`, `dropped`, its parts.
        hardware: of the host: `cpu`, `cores`, `memory_gb`, `gpus`.
        versions: of slackwater, torch, vllm and Python, where known.
        record: file with every request and merge.
    """

    started_us: int
    measured_s: float
    seed: int
    server: str
    merging: str
    rate_per_s: float
    prompt_tokens: int
    output_tokens: int
    slo_given: bool
    merges: int
    merges_discarded: int
    window_s: Ratio
    longest_window_s: float
    p50_s: Ratio | None = None
    p95_s: Ratio | None = None
    p99_s: Ratio | None = None
    merging_effect: Ratios
    learners_effect: Ratios | None = None
    by_load: tuple[LoadEffect, ...] = ()
    spill_over_s: float | None = None
    load_matched: bool
    load_reason: str
    accounts: dict[str, dict[str, int]]
    hardware: dict[str, Any]
    versions: dict[str, str]
    record: str | None = None
    alone_per_s: float | None = None
