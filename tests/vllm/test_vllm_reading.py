"""vLLM's statistics become events: what is known, by one clock, and nothing invented."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_statistics import SOURCE, WALL_S, Reason, finished, recorded, scheduler

from slackwater.clock import RunClock
from slackwater.codec import Codec, encode_lines
from slackwater.errors import EventError
from slackwater.events import Request
from slackwater.topics import REQUESTS
from slackwater.vllm.reading import Source, load_event, request_event, sample_of

CODEC = Codec(REQUESTS)
WALL_US = round(WALL_S * 1e6)

SECONDS = st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.none()
ODD = SECONDS | st.booleans() | st.text(max_size=3)
FIELDS = sorted(vars(finished()))


def read(stats: Any, wall_s: float = WALL_S) -> Request:
    return request_event(SOURCE, stats, wall_s, 7)


def test_arrival_is_the_end_minus_the_latency_on_the_wall_clock() -> None:
    # Case 8: latencies are taken as vLLM took them, each on one clock, never from two of ours.
    event = read(finished())
    assert (event.arrival_us, event.at_us) == (WALL_US - 500_000, WALL_US)
    assert (event.id, event.sidecar, event.run_id) == ("cmpl-x-0", "vllm-0", "run-1")
    assert (event.status, event.e2e_s, event.queue_s) == ("ok", 0.5, 0.1)
    assert (event.prefill_s, event.decode_s, event.ttft_s) == (0.05, 0.33, None)
    assert (event.prompt_tokens, event.output_tokens) == (64, 16)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("STOP", "ok"),
        ("LENGTH", "ok"),
        ("REPETITION", "ok"),
        ("ABORT", "aborted"),
        ("ERROR", "error"),
        ("SOMETHING_NEW", "error"),
    ],
)
def test_status_follows_the_finish_reason(reason: str, status: str) -> None:
    assert read(finished(finish_reason=Reason(reason))).status == status
    assert read(finished(finish_reason=reason.lower())).status == status


def test_an_aborted_request_has_its_arrival_and_no_latency() -> None:
    # Case 7, of the plugin.
    event = read(finished(finish_reason=Reason("ABORT")))
    assert event.arrival_us == WALL_US - 500_000
    assert (event.e2e_s, event.queue_s, event.prefill_s, event.decode_s) == (None,) * 4
    assert event.prompt_tokens == 64


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("queued_time", "queue_s"),
        ("prefill_time", "prefill_s"),
        ("decode_time", "decode_s"),
        ("num_prompt_tokens", "prompt_tokens"),
        ("num_generation_tokens", "output_tokens"),
    ],
)
def test_a_field_that_a_release_lacks_is_unknown_and_not_zero(theirs: str, ours: str) -> None:
    stats = finished()
    delattr(stats, theirs)
    assert getattr(read(stats), ours) is None


def test_a_stage_that_began_at_an_unset_time_is_unknown() -> None:
    # Monotonic now minus 0.0: hours of uptime, in a request of half a second.
    event = read(finished(prefill_time=123_456.7, queued_time=-123_456.7))
    assert (event.prefill_s, event.queue_s, event.e2e_s) == (None, None, 0.5)


def test_without_an_end_to_end_latency_the_engine_s_stages_give_the_arrival() -> None:
    stats = finished()
    del stats.e2e_latency
    event = read(stats)
    assert event.arrival_us == WALL_US - 480_000
    assert event.e2e_s is None


def test_a_request_whose_arrival_nothing_tells_is_refused() -> None:
    stats = finished(e2e_latency=math.nan)
    del stats.inference_time
    with pytest.raises(EventError, match="arrival"):
        read(stats)


def test_arrivals_of_an_unset_clock_are_refused() -> None:
    # vLLM's default arrival time is 0.0, and the latency then is all time since 1970.
    with pytest.raises(EventError, match="2000"):
        read(finished(e2e_latency=WALL_S))


def test_a_request_without_an_id_gets_one_of_its_own() -> None:
    stats = finished()
    del stats.request_id
    ids = {request_event(SOURCE, stats, WALL_S, number).id for number in range(3)}
    assert ids == {"vllm-0-0", "vllm-0-1", "vllm-0-2"}


def test_event_time_follows_the_run_s_clock() -> None:
    moved = Source("run-1", "vllm-0", RunClock(WALL_US - 10**12, WALL_US))
    event = request_event(moved, finished(), WALL_S, 0)
    assert event.at_us == WALL_US - 10**12
    assert event.at_us - event.arrival_us == 500_000


def test_requests_that_cannot_be_scheduled_yet_are_waiting() -> None:
    stats = scheduler(running=3, waiting=2, kv=0.25)
    assert getattr(sample_of(stats, WALL_S), "waiting", None) == 2
    stats.num_skipped_waiting_reqs = 4
    sample = sample_of(stats, WALL_S)
    assert sample is not None
    assert (sample.running, sample.waiting, sample.kv_cache_use) == (3, 6, 0.25)


def test_load_is_unknown_when_a_count_is() -> None:
    assert sample_of(None, WALL_S) is None
    assert sample_of(SimpleNamespace(num_running_reqs=3), WALL_S) is None
    assert sample_of(scheduler(running=None), WALL_S) is None


def test_the_older_name_of_the_cache_s_use_is_read() -> None:
    older = SimpleNamespace(num_running_reqs=1, num_waiting_reqs=0, gpu_cache_usage=0.5)
    assert getattr(sample_of(older, WALL_S), "kv_cache_use", None) == 0.5


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3), SECONDS)
def test_whatever_vllm_reports_is_a_valid_event_or_refused(
    given_fields: dict[str, Any], wall: Any
) -> None:
    wall_s = wall if isinstance(wall, float) and math.isfinite(wall) else WALL_S
    try:
        event = read(finished(**given_fields), wall_s)
    except EventError:
        return
    decoded = CODEC.decode(encode_lines([event]))
    assert decoded.bad == []
    assert decoded.events == [event]


@settings(max_examples=40)
@given(ODD, ODD, ODD)
def test_whatever_the_scheduler_reports_is_a_valid_sample_or_none(
    running: Any, waiting: Any, use: Any
) -> None:
    sample = sample_of(scheduler(running, waiting, use), WALL_S)
    if sample is None:
        return
    decoded = CODEC.decode(encode_lines([load_event(SOURCE, sample, WALL_S, 0, 0)]))
    assert decoded.bad == []


def test_what_a_real_release_reported_is_read() -> None:
    """Six requests to vLLM 0.32.0, and one that its client aborted, of which it says nothing."""
    calls = recorded()
    ended = [
        read(one, stats.iteration_timestamp)
        for _, stats in calls
        if stats is not None
        for one in stats.finished_requests
    ]
    assert len({event.id for event in ended}) == len(ended) == 6
    for event in ended:
        assert (event.status, event.prompt_tokens, event.output_tokens) == ("ok", 64, 16)
        assert event.e2e_s is not None
        stages = [event.queue_s, event.prefill_s, event.decode_s]
        assert all(stage is not None for stage in stages)
        assert sum(s for s in stages if s is not None) <= event.e2e_s
    samples = [sample_of(stats, WALL_S) for stats, _ in calls if stats is not None]
    assert all(sample is not None for sample in samples)
    assert max(sample.running for sample in samples if sample is not None) >= 2
