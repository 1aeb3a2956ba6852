"""A served trace: the events are complete, in order, and the same however they are asked for."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trace_samples as samples
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_producer.fleet import LOAD_PERIOD_US, Fleet
from replay_producer.generators import generate
from replay_producer.readers import read_trace
from replay_producer.source import Message
from replay_producer.trace import Trace
from slackwater.codec import Codec, encode_lines
from slackwater.errors import InputError
from slackwater.events import Load, Request
from slackwater.topics import REQUESTS

ORIGIN_US = 1_700_000_000_000_000
STEP_US = 1_000_000


def drain(fleet: Fleet) -> list[Message]:
    messages: list[Message] = []
    while (next_us := fleet.next_us()) is not None:
        messages += fleet.advance(next_us + STEP_US)
    return messages


def small_trace(seed: int = 0, rate: float = 12) -> Trace:
    return generate("aperiodic", 8, rate, seed)


def requests(messages: list[Message]) -> list[Request]:
    return [m.event for m in messages if isinstance(m.event, Request)]


def loads(messages: list[Message]) -> list[Load]:
    return [m.event for m in messages if isinstance(m.event, Load)]


def test_every_request_finishes_once_at_arrival_plus_latency() -> None:
    trace = small_trace()
    done = requests(drain(Fleet(trace, ORIGIN_US, "r")))
    assert sorted(int(r.id[1:]) for r in done) == list(range(len(trace)))
    for r in done:
        assert r.arrival_us == ORIGIN_US + trace.arrival_us[int(r.id[1:])]
        assert r.e2e_s is not None
        assert r.at_us - r.arrival_us == round(r.e2e_s * 1e6)


def test_events_are_in_order_and_valid_under_the_schema() -> None:
    messages = drain(Fleet(small_trace(), ORIGIN_US, "r"))
    times = [m.at_us for m in messages]
    assert times == sorted(times)
    decoded = Codec(REQUESTS).decode(encode_lines([m.event for m in messages]))
    assert len(decoded.events) == len(messages)
    assert not decoded.bad


def test_every_sidecar_is_sampled_every_100_ms_until_all_are_empty() -> None:
    trace = replace(small_trace(), duration_us=12_000_000)
    messages = drain(Fleet(trace, ORIGIN_US, "r", sidecars=3))
    by_sidecar = defaultdict(list)
    for sample in loads(messages):
        by_sidecar[sample.sidecar].append(sample)
    assert sorted(by_sidecar) == ["sidecar-0", "sidecar-1", "sidecar-2"]
    for series in by_sidecar.values():
        assert [s.seq for s in series] == list(range(len(series)))
        assert series[0].at_us == ORIGIN_US
        assert set(np.diff([s.at_us for s in series])) == {LOAD_PERIOD_US}
        assert series[-1].at_us >= ORIGIN_US + trace.duration_us
        assert (series[-1].running, series[-1].waiting) == (0, 0)


def test_a_load_sample_counts_what_arrived_and_did_not_finish_by_then() -> None:
    messages = drain(Fleet(small_trace(rate=40), ORIGIN_US, "r"))
    done = requests(messages)
    assert any(s.waiting for s in loads(messages))
    for s in loads(messages):
        inside = [r for r in done if r.sidecar == s.sidecar and r.arrival_us <= s.at_us < r.at_us]
        assert s.running + s.waiting == len(inside)


def test_requests_go_round_the_sidecars_in_order_of_arrival() -> None:
    done = requests(drain(Fleet(small_trace(), ORIGIN_US, "r", sidecars=3)))
    assert all(r.sidecar == f"sidecar-{int(r.id[1:]) % 3}" for r in done)


def test_sidecars_named_by_the_trace_are_kept_unless_a_number_is_asked_for(tmp_path: Path) -> None:
    text = samples.slackwater().replace("sidecar-1", "gpu-b")
    trace = read_trace(samples.write(tmp_path, text))
    kept = requests(drain(Fleet(trace, ORIGIN_US, "r")))
    assert {r.sidecar for r in kept} == {"sidecar-0", "gpu-b"}
    spread = requests(drain(Fleet(trace, ORIGIN_US, "r", sidecars=1)))
    assert {r.sidecar for r in spread} == {"sidecar-0"}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 12_000_000), max_size=30),
    st.lists(st.integers(0, 9_000_000), max_size=4),
)
def test_how_it_is_asked_changes_no_event(stops: list[int], changes: list[int]) -> None:
    def run(extra: list[int]) -> list[Message]:
        fleet = Fleet(small_trace(), ORIGIN_US, "r")
        calls = [(at, None) for at in extra]
        calls += [(at, i % 2 == 0) for i, at in enumerate(sorted(changes))]
        messages = []
        for at, on in sorted(calls, key=lambda call: call[0]):
            if on is None:
                messages += fleet.advance(ORIGIN_US + at)
            else:
                fleet.set_merging(ORIGIN_US + at, on)
        return messages + drain(fleet)

    assert run(stops) == run([])


def test_a_merge_makes_the_requests_it_meets_slower_and_no_others() -> None:
    calm = {r.id: r for r in requests(drain(Fleet(small_trace(), ORIGIN_US, "r")))}
    fleet = Fleet(small_trace(), ORIGIN_US, "r")
    start_us, end_us = ORIGIN_US + 2_000_000, ORIGIN_US + 5_000_000
    fleet.set_merging(start_us, True)
    fleet.set_merging(end_us, False)
    merged = {r.id: r for r in requests(drain(fleet))}
    assert merged.keys() == calm.keys()
    slower = {i for i in calm if (merged[i].e2e_s or 0) > (calm[i].e2e_s or 0)}
    met = {i for i, r in calm.items() if r.arrival_us < end_us and r.at_us > start_us}
    assert slower >= met
    assert all(calm[i].at_us > start_us for i in slower)


def test_requests_that_did_not_end_well_have_no_latency_figures(tmp_path: Path) -> None:
    text = samples.burstgpt().replace(",5,15,", ",0,10,")
    trace = read_trace(samples.write(tmp_path, text))
    failed, *ok = sorted(requests(drain(Fleet(trace, ORIGIN_US, "r"))), key=lambda r: r.arrival_us)
    assert (failed.status, failed.e2e_s, failed.ttft_s, failed.queue_s) == ("error",) + (None,) * 3
    assert failed.at_us > failed.arrival_us
    assert all(r.status == "ok" and r.e2e_s for r in ok)


def test_unknown_lengths_stay_unknown_in_the_events(tmp_path: Path) -> None:
    trace = read_trace(samples.write(tmp_path, '{"timestamp": 1}\n'))
    (done,) = requests(drain(Fleet(trace, ORIGIN_US, "r")))
    assert (done.prompt_tokens, done.output_tokens) == (None, None)
    assert done.e2e_s


def test_recorded_latency_is_replayed_as_recorded(tmp_path: Path) -> None:
    trace = read_trace(samples.write(tmp_path, samples.guidellm()))
    done = requests(drain(Fleet(trace, ORIGIN_US, "r", sidecars=1, latency="recorded")))
    assert [r.e2e_s for r in done] == [samples.E2E_S] * 4
    assert [r.ttft_s for r in done] == [samples.TTFT_S] * 4
    assert {r.queue_s for r in done} == {None}


def test_recorded_latency_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no recorded latency; use --latency model"):
        Fleet(small_trace(), ORIGIN_US, "r", latency="recorded")


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_an_impossible_number_of_sidecars_is_refused(count: int) -> None:
    with pytest.raises(InputError, match="from 1 to 1000"):
        Fleet(small_trace(), ORIGIN_US, "r", sidecars=count)
