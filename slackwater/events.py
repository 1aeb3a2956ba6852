"""The event schema: every type that travels on a topic, and nothing else.

JSON objects with a `type` tag and a schema version `v`. Times are integer microseconds since the
Unix epoch (`*_us`), durations are seconds (`*_s`). `at_us` is when the event became observable
at its source: nothing may use an event before that time. Unknown fields are ignored by readers
and kept by the run log. `None` means unknown, which is never the same as 0.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = 1

# 2000-01-01 to 2100-01-01: a time in seconds, milliseconds or nanoseconds falls outside.
MIN_TIME_US = 946_684_800_000_000
MAX_TIME_US = 4_102_444_800_000_000

TimeUs = Annotated[
    int, Meta(ge=MIN_TIME_US, lt=MAX_TIME_US, description="microseconds since the Unix epoch")
]
Seconds = Annotated[float, Meta(ge=0, description="seconds")]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every event carries."""

    v: Annotated[int, Meta(ge=1)] = SCHEMA_VERSION
    run_id: Name
    at_us: TimeUs


class Request(Event, frozen=True, kw_only=True, tag="request"):
    """One finished request. `at_us` is the moment it ended, whatever its status.

    Latencies count from arrival at the server, queueing included, and are measured on one clock.
    A request that did not end well has no latency figures.
    """

    sidecar: Name
    id: Name
    tenant: Name | None = None
    arrival_us: TimeUs
    status: Literal["ok", "aborted", "timeout", "error"]
    ttft_s: Seconds | None = None
    e2e_s: Seconds | None = None
    queue_s: Seconds | None = None
    prefill_s: Seconds | None = None
    decode_s: Seconds | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None


class Load(Event, frozen=True, kw_only=True, tag="load"):
    """A periodic sample of one sidecar; also the sign that it is alive."""

    sidecar: Name
    running: Count
    waiting: Count
    kv_cache_use: Share | None = None
    seq: Count | None = None
    dropped: Count | None = None


class Step(Event, frozen=True, kw_only=True, tag="step"):
    """One inner step of one learner, at the moment it ended."""

    learner: Name
    step: Count
    loss: float | None = None
    tokens: Count = 0
    step_time_s: Seconds | None = None
    update_norm: Annotated[float, Meta(ge=0)] | None = None
    steps_since_merge: Count
    tokens_since_merge: Count = 0
    network_pressure: Share | None = None
    checkpoint_pressure: Share | None = None
    memory_pressure: Share | None = None


class Heartbeat(Event, frozen=True, kw_only=True, tag="heartbeat"):
    """A learner is alive and has nothing else to say; `final` when it leaves for good."""

    learner: Name
    final: bool = False


class BinRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one sidecar showed in one time bin [start_us, start_us + bin).

    Counts are of events whose `at_us` lies in the bin. `in_system` (running + waiting) is from the
    bin's last load sample, taken at `sample_us`; `finished_after_sample` of the bin's requests
    ended after it. Without a sample these are `None`.
    """

    sidecar: Name
    start_us: TimeUs
    finished: Count
    failed: Count = 0
    prompt_tokens: Count = 0
    output_tokens: Count = 0
    e2e_sum_s: Seconds = 0.0
    samples: Count = 0
    in_system: Count | None = None
    sample_us: TimeUs | None = None
    finished_after_sample: Count | None = None
    late: Count = 0


class Bins(Event, frozen=True, kw_only=True, tag="bins"):
    """Closed bins of one requests partition. `at_us` is the end of the newest bin closed.

    `watermarks_us` says for each sidecar of the partition up to where its bins are complete;
    a sidecar in `silent` sent nothing for so long that time went on without it.
    """

    group: Name
    partition: Count
    bin_s: Seconds
    watermarks_us: dict[str, int]
    silent: list[str] = []
    rows: list[BinRow] = []


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The windows a decision weighed: starts `first_us + i * step_s`, one figure for each.

    `overlap` is the expected overlap cost in requests, `overlap_sd` its standard deviation.
    """

    first_us: TimeUs
    step_s: Seconds
    overlap: list[float]
    overlap_sd: list[float]


class Decision(Event, frozen=True, kw_only=True, tag="decision"):
    """One tick of one policy: all it saw and what it chose. `at_us` is the tick's event time."""

    group: Name
    policy: Name
    active: bool
    action: Literal["merge", "wait"]
    reason: Name
    merge_id: Name | None = None
    at_step: Count | None = None
    step: Count | None = None
    gap_steps: Count | None = None
    gap_s: Seconds | None = None
    step_time_s: Seconds | None = None
    window_s: Seconds
    learners: Count
    rate_per_s: Annotated[float, Meta(ge=0)] | None = None
    rate_sd: Annotated[float, Meta(ge=0)] | None = None
    in_flight: Annotated[float, Meta(ge=0)] | None = None
    signal_age_s: Seconds | None = None
    stale: list[str] = []
    score: float | None = None
    threshold: float | None = None
    terms: dict[str, float] = {}
    candidates: Candidates | None = None


class MergeCommand(Event, frozen=True, kw_only=True, tag="merge"):
    """Merge when your own step counter reaches `at_step`; worthless after `deadline_us`."""

    group: Name
    merge_id: Name
    at_step: Count
    deadline_us: TimeUs
    window_s: Seconds
    reason: Name
    participants: list[str]


class Pause(Event, frozen=True, kw_only=True, tag="pause"):
    """A person asks for no merges but those that H_max forces."""

    group: Name


class Resume(Event, frozen=True, kw_only=True, tag="resume"):
    """A person ends a pause."""

    group: Name


class MergeNow(Event, frozen=True, kw_only=True, tag="merge_now"):
    """A person asks for a merge at the first step the learners can reach, H_min permitting."""

    group: Name


class MergeReport(Event, frozen=True, kw_only=True):
    """What one learner did about one merge; the subtypes are its phases."""

    group: Name
    learner: Name
    merge_id: Name
    step: Count
    reason: Name | None = None


class Accepted(MergeReport, frozen=True, kw_only=True, tag="accepted"):
    """The learner will merge at `step`."""


class Started(MergeReport, frozen=True, kw_only=True, tag="started"):
    """All participants are there and agree; the window begins."""


class Finished(MergeReport, frozen=True, kw_only=True, tag="finished"):
    """The merge is done and its checkpoint is on disk; the window ends.

    `bytes_exchanged` counts the payload this learner put into the all-reduce, `digest` is of the
    global weights after the outer step and is equal on all learners.
    """

    seconds: Seconds
    exchange_s: Seconds | None = None
    checkpoint_s: Seconds | None = None
    bytes_exchanged: Count
    checkpoint_bytes: Count | None = None
    parameters: Count | None = None
    digest: Name | None = None


class Skipped(MergeReport, frozen=True, kw_only=True, tag="skipped"):
    """The learner did not take part; `reason` says why."""


class DeadLetter(Event, frozen=True, kw_only=True, tag="dead_letter"):
    """Bytes that could not be read as an event, and where they came from."""

    raw: bytes
    error: str
    topic: Name
    partition: Count
    offset: Count


RequestsEvent = Request | Load
LearnersEvent = Step | Heartbeat
CommandsEvent = MergeCommand | Pause | Resume | MergeNow
MergesEvent = Accepted | Started | Finished | Skipped
