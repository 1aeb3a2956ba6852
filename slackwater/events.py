"""The event schema: every type that travels on a topic, and nothing else.

JSON objects with a `type` tag and a schema version `v`. Times are integer microseconds since the
Unix epoch (`*_us`), durations are seconds (`*_s`). `at_us` is when the event became observable
at its source: nothing may use an event before that time. Unknown fields are ignored by readers
and kept by the run log. `None` means unknown, which is never the same as 0.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slackwater.statuses import Status

SCHEMA_VERSION = 1

SKIPPED_LATE = "late"
"""First word of the reason of a learner that could not reach a command's step any more."""

# Why the controller commands a merge that no pause holds back: learners come to H_max, or are
# beyond it because their own merge there came to nothing.
H_MAX = "h_max"
H_MAX_OVERDUE = "h_max_overdue"
# Why it commands none of the others: a person has paused the group.
PAUSED = "paused"

# 2000-01-01 to 2100-01-01: a time in seconds, milliseconds or nanoseconds falls outside.
MIN_TIME_US = 946_684_800_000_000
MAX_TIME_US = 4_102_444_800_000_000


def about(text: str) -> Meta:
    """What a field means, for whoever reads the schema."""
    return Meta(description=text)


# What a signed 64-bit column of the run log can hold.
MAX_COUNT = (1 << 63) - 1
MAX_NAME = 200

TimeUs = Annotated[
    int, Meta(ge=MIN_TIME_US, lt=MAX_TIME_US, description="microseconds since the Unix epoch")
]
Seconds = Annotated[float, Meta(ge=0, description="seconds")]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every event carries."""

    v: Annotated[int, Meta(ge=1), about("version of the schema; a reader refuses newer ones")] = (
        SCHEMA_VERSION
    )
    run_id: Annotated[Name, about("the run that the event belongs to")]
    at_us: Annotated[TimeUs, about("when the event could first be observed at its source")]


class Request(Event, frozen=True, kw_only=True, tag="request"):
    """One finished request. `at_us` is the moment it ended, whatever its status.

    Latencies count from arrival at the server, queueing included, and are measured on one clock.
    A request that did not end well has no latency figures.
    """

    sidecar: Annotated[Name, about("the server that answered")]
    id: Annotated[Name, about("the request's id at the server")]
    tenant: Annotated[Name | None, about("who asked, where known")] = None
    arrival_us: Annotated[TimeUs, about("when the request reached the server")]
    status: Annotated[Status, about("how it ended; only `ok` has latencies")]
    ttft_s: Annotated[Seconds | None, about("arrival to first token")] = None
    e2e_s: Annotated[Seconds | None, about("arrival to the last token")] = None
    queue_s: Annotated[Seconds | None, about("arrival to scheduling")] = None
    prefill_s: Annotated[Seconds | None, about("scheduling to first token")] = None
    decode_s: Annotated[Seconds | None, about("first to last token")] = None
    prompt_tokens: Annotated[Count | None, about("tokens in")] = None
    output_tokens: Annotated[Count | None, about("tokens out")] = None


class Load(Event, frozen=True, kw_only=True, tag="load"):
    """A periodic sample of one sidecar; also the sign that it is alive."""

    sidecar: Annotated[Name, about("the server sampled")]
    running: Annotated[
        Count, about("requests being served; where `waiting` is null, those in the queue too")
    ]
    waiting: Annotated[
        Count | None,
        about("requests in the queue; null where the source cannot tell them from those served"),
    ]
    kv_cache_use: Annotated[Share | None, about("share of the KV cache in use")] = None
    seq: Annotated[
        Count | None, about("number of this sample in its source's stream, to see gaps")
    ] = None
    dropped: Annotated[Count | None, about("events that the source has dropped so far")] = None

    @property
    def in_system(self) -> int:
        """Requests that have arrived and have not ended."""
        return self.running if self.waiting is None else self.running + self.waiting


class Step(Event, frozen=True, kw_only=True, tag="step"):
    """One inner step of one learner, at the moment it ended.

    `reports_sent` counts the merge reports this learner has sent so far, on the other topic: a
    reader that has seen fewer knows that one with an earlier `at_us` is still on its way.
    """

    learner: Annotated[Name, about("the learner")]
    step: Annotated[Count, about("inner steps done since the run began")]
    loss: Annotated[float | None, about("training loss of the step")] = None
    tokens: Annotated[Count, about("tokens in the step")] = 0
    step_time_s: Annotated[Seconds | None, about("time the step took")] = None
    update_norm: Annotated[
        NotNegative | None, about("norm of the step's change of the weights")
    ] = None
    steps_since_merge: Annotated[Count, about("inner steps since the last merge")]
    tokens_since_merge: Annotated[Count, about("tokens since the last merge")] = 0
    network_pressure: Annotated[Share | None, about("how busy the network is")] = None
    checkpoint_pressure: Annotated[Share | None, about("how busy checkpoint storage is")] = None
    memory_pressure: Annotated[Share | None, about("how full memory is")] = None
    epoch: Annotated[Count | None, about("merges that its shared weights have been through")] = None
    reports_sent: Annotated[Count | None, about("merge reports sent before this event")] = None
    group: Annotated[Name | None, about("the learner's merge group; null: the only one")] = None


class Heartbeat(Event, frozen=True, kw_only=True, tag="heartbeat"):
    """A learner is alive and has nothing else to say; `final` when it leaves for good."""

    learner: Annotated[Name, about("the learner")]
    final: Annotated[bool, about("true when it leaves for good")] = False
    reports_sent: Annotated[Count | None, about("merge reports sent before this event")] = None
    group: Annotated[Name | None, about("the learner's merge group; null: the only one")] = None


class BinRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one sidecar showed in one time bin [start_us, start_us + bin).

    Counts are of events whose `at_us` lies in the bin: `finished` of requests that ended, whatever
    their status, `failed` of those among them that did not end well. `in_system` (running +
    waiting) is from the bin's last load sample, taken at `sample_us`; `finished_after_sample` of
    the bin's requests ended after it. Without a sample these are `None`. `late` counts events
    that came after their own bin had closed, and are in no other count.
    """

    sidecar: Annotated[Name, about("the server counted")]
    start_us: Annotated[TimeUs, about("start of the bin")]
    finished: Annotated[Count, about("requests that ended, however")]
    failed: Annotated[Count, about("those among them that did not end well")] = 0
    prompt_tokens: Annotated[Count, about("tokens in of the finished")] = 0
    output_tokens: Annotated[Count, about("tokens out of the finished")] = 0
    e2e_sum_s: Annotated[Seconds, about("sum of end-to-end latencies of the finished")] = 0.0
    samples: Annotated[Count, about("load samples in the bin")] = 0
    in_system: Annotated[Count | None, about("running + waiting at the last sample")] = None
    sample_us: Annotated[TimeUs | None, about("when the last sample was taken")] = None
    finished_after_sample: Annotated[
        Count | None, about("requests that ended after the last sample")
    ] = None
    late: Annotated[Count, about("events that came after the bin had closed")] = 0


class Bins(Event, frozen=True, kw_only=True, tag="bins"):
    """Closed bins of one requests partition. `at_us` is the end of the newest bin closed.

    `watermarks_us` says for each sidecar of the partition up to where its bins are complete.
    """

    group: Annotated[Name, about("the merge group")]
    partition: Annotated[Count, about("the requests partition counted")]
    bin_s: Annotated[Seconds, about("width of a bin")]
    watermarks_us: Annotated[
        dict[str, int], about("sidecar to the time up to which its bins are complete")
    ]
    rows: Annotated[list[BinRow], about("the bins that closed")] = []


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The windows a decision weighed: starts `first_us + i * step_s`, one figure for each.

    `overlap` is the expected overlap cost in requests, `overlap_sd` its standard deviation.
    """

    first_us: Annotated[TimeUs, about("start of the first window")]
    step_s: Annotated[Seconds, about("distance from one start to the next")]
    overlap: Annotated[list[float], about("expected overlap cost of each window, in requests")]
    overlap_sd: Annotated[list[float], about("standard deviation of each expected overlap cost")]


class Decision(Event, frozen=True, kw_only=True, tag="decision"):
    """One tick of one policy: all it saw and what it chose. `at_us` is the tick's event time."""

    group: Annotated[Name, about("the merge group")]
    policy: Annotated[Name, about("the policy that decided")]
    active: Annotated[bool, about("true when its choice is acted on, false for a shadow")]
    action: Annotated[Literal["merge", "wait"], about("what it chose")]
    reason: Annotated[Name, about("why it chose that")]
    merge_id: Annotated[Name | None, about("the merge that it commands")] = None
    at_step: Annotated[Count | None, about("the inner step at which learners shall merge")] = None
    moment_us: Annotated[
        TimeUs | None, about("the moment from which each merges at its own next step")
    ] = None
    step: Annotated[Count | None, about("largest inner step reported")] = None
    first_reachable_step: Annotated[
        Count | None, about("first step that a command sent now reaches every learner before")
    ] = None
    gap_steps: Annotated[
        Count | None, about("inner steps since the last merge, by the learners' reports")
    ] = None
    gap_s: Annotated[Seconds | None, about("the same gap in seconds")] = None
    step_time_s: Annotated[Seconds | None, about("measured time of an inner step")] = None
    window_s: Annotated[Seconds, about("expected length of the window")]
    learners: Annotated[Count, about("learners that take part")]
    rate_per_s: Annotated[NotNegative | None, about("forecast request rate")] = None
    rate_sd: Annotated[NotNegative | None, about("standard deviation of the forecast rate")] = None
    in_flight: Annotated[NotNegative | None, about("requests in the system")] = None
    signal_age_s: Annotated[Seconds | None, about("age of the oldest signal used")] = None
    stale: Annotated[list[str], about("sidecars whose load is unknown")] = []
    score: Annotated[float | None, about("the score that is compared")] = None
    threshold: Annotated[float | None, about("what the score is compared with")] = None
    terms: Annotated[dict[str, float], about("the terms that the score is the sum of")] = {}
    candidates: Annotated[Candidates | None, about("the windows that were weighed")] = None
    interval_number: Annotated[
        Count | None, about("the corridor interval of a switchback, from 0")
    ] = None
    arm: Annotated[
        Literal["policy", "random"] | None, about("whom a switchback's coin gave the interval to")
    ] = None
    policy_share: Annotated[
        Share | None, about("probability with which that coin gives an interval to the policy")
    ] = None
    drawn_gap_steps: Annotated[
        Count | None, about("the gap drawn as the interval began, in the random arm")
    ] = None


class MergeCommand(Event, frozen=True, kw_only=True, tag="merge"):
    """Merge when your own step counter reaches `at_step`; worthless after `deadline_us`.

    For learners of unequal speed it names a moment instead of a step: merge at the end of your
    first step at or after `moment_us`, not before your own H_min and at your own H_max at the
    latest.
    """

    group: Annotated[Name, about("the merge group")]
    merge_id: Annotated[Name, about("names the merge")]
    at_step: Annotated[
        Count | None, about("merge when your own step counter reaches it; null: at `moment_us`")
    ] = None
    moment_us: Annotated[
        TimeUs | None,
        about("merge at the end of your first step at or after it; null: at `at_step`"),
    ] = None
    deadline_us: Annotated[TimeUs, about("the command is worthless after it")]
    window_s: Annotated[Seconds, about("expected length of the window")]
    reason: Annotated[Name, about("why now")]
    participants: Annotated[list[str], about("the learners that shall take part")]
    epoch: Annotated[
        Count | None, about("worthless to learners whose shared weights have another one")
    ] = None


class Pause(Event, frozen=True, kw_only=True, tag="pause"):
    """A person asks for no merges but those that H_max forces."""

    group: Annotated[Name, about("the merge group")]


class Resume(Event, frozen=True, kw_only=True, tag="resume"):
    """A person ends a pause."""

    group: Annotated[Name, about("the merge group")]


class MergeNow(Event, frozen=True, kw_only=True, tag="merge_now"):
    """A person asks for a merge at the first step the learners can reach, H_min permitting."""

    group: Annotated[Name, about("the merge group")]


class MergeReport(Event, frozen=True, kw_only=True):
    """What one learner did about one merge; the subtypes are its phases."""

    group: Annotated[Name, about("the merge group")]
    learner: Annotated[Name, about("the learner that reports")]
    merge_id: Annotated[Name, about("the merge")]
    step: Annotated[Count, about("the learner's inner step")]
    reason: Annotated[Name | None, about("why, where the phase needs one")] = None


class Accepted(MergeReport, frozen=True, kw_only=True, tag="accepted"):
    """The learner will merge at `step`, or at its first step at or after `moment_us`.

    With a moment, `step` is the one that the learner had reported when it promised.
    """

    moment_us: Annotated[
        TimeUs | None, about("the moment of the command promised to, where it names one")
    ] = None


class Started(MergeReport, frozen=True, kw_only=True, tag="started"):
    """All participants are there and agree; the window begins."""


class Finished(MergeReport, frozen=True, kw_only=True, tag="finished"):
    """The merge is done and its checkpoint is on disk; the window ends.

    `bytes_exchanged` counts the payload this learner put into the all-reduce, `digest` is of the
    global weights after the outer step and is equal on all learners.
    """

    seconds: Annotated[Seconds, about("length of the window")]
    exchange_s: Annotated[Seconds | None, about("time in the all-reduce")] = None
    checkpoint_s: Annotated[Seconds | None, about("time to write and sync the checkpoint")] = None
    bytes_exchanged: Annotated[Count, about("payload that this learner put into the all-reduce")]
    checkpoint_bytes: Annotated[Count | None, about("size of the checkpoint")] = None
    parameters: Annotated[Count | None, about("the model's parameter count")] = None
    digest: Annotated[Name | None, about("digest of the global weights after the outer step")] = (
        None
    )


class Skipped(MergeReport, frozen=True, kw_only=True, tag="skipped"):
    """The learner did not take part; `reason` says why."""


class DeadLetter(Event, frozen=True, kw_only=True, tag="dead_letter"):
    """Bytes that could not be read as an event, and where they came from."""

    raw: Annotated[bytes, about("the bytes, base64")]
    error: Annotated[str, about("why they are not an event")]
    topic: Annotated[Name, about("the topic they were on")]
    partition: Annotated[Count, about("its partition")]
    offset: Annotated[Count, about("the offset of their message")]


RequestsEvent = Request | Load
LearnersEvent = Step | Heartbeat
CommandsEvent = MergeCommand | Pause | Resume | MergeNow
MergesEvent = Accepted | Started | Finished | Skipped
