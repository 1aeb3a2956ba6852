"""The sidecar model: a queue with exact times, whatever the order in which it is asked."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_producer.sidecar import PAPER_SLOWDOWN, Job, Served, ServiceSettings, Sidecar

FAR_US = 10**12
SLOWDOWN = 2.0


def jobs_from(gaps_and_work: list[tuple[int, int, int]]) -> list[Job]:
    jobs, at_us = [], 0
    for i, (gap, prefill, decode) in enumerate(gaps_and_work):
        at_us += gap
        jobs.append(Job(i, at_us, prefill, decode))
    return jobs


JOBS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 400), st.integers(0, 400)),
    min_size=1,
    max_size=25,
).map(jobs_from)
CHANGES = st.lists(st.integers(0, 5000), max_size=6).map(sorted)


def serve(
    jobs: list[Job],
    slots: int | None = 1,
    changes: list[int] | None = None,
    stops: list[int] | None = None,
    slowdown: float = SLOWDOWN,
) -> list[Served]:
    """All jobs served, with merges switched at `changes` and extra advances at `stops`."""
    model = Sidecar(slots, slowdown)
    calls: list[tuple[int, int, Job | bool | None]] = [(job.arrival_us, 2, job) for job in jobs]
    calls += [(at, 0, i % 2 == 0) for i, at in enumerate(changes or [])]
    calls += [(at, 1, None) for at in stops or []]
    served: list[Served] = []
    for at_us, _, what in sorted(calls, key=lambda call: call[:2]):
        if isinstance(what, Job):
            model.arrive(what)
        elif what is None:
            served += model.advance(at_us)
        else:
            model.set_merging(at_us, what)
    return served + model.advance(FAR_US)


def test_eight_requests_at_ten_a_second_through_one_slot_of_half_a_second_queue() -> None:
    jobs = [Job(i, i * 100_000, 500_000, 0) for i in range(8)]
    served = serve(jobs)
    assert [s.e2e_s for s in served] == pytest.approx([0.5 + 0.4 * i for i in range(8)])
    assert [s.queue_s for s in served] == pytest.approx([0.4 * i for i in range(8)])
    assert served[-1].e2e_s == pytest.approx(3.3)


@given(JOBS)
def test_without_a_merge_one_slot_is_the_closed_form(jobs: list[Job]) -> None:
    free_us = 0
    for job, result in zip(jobs, serve(jobs), strict=True):
        start_us = max(job.arrival_us, free_us)
        free_us = start_us + job.prefill_us + job.decode_us
        assert result == Served(job, start_us, start_us + job.prefill_us, free_us)


@given(JOBS, st.integers(1, 5), CHANGES)
def test_service_begins_in_order_of_arrival(
    jobs: list[Job], slots: int, changes: list[int]
) -> None:
    served = sorted(serve(jobs, slots, changes), key=lambda s: s.job.index)
    starts = [s.start_us for s in served]
    assert len(served) == len(jobs)
    assert starts == sorted(starts)


@given(JOBS, st.integers(1, 5), CHANGES)
def test_no_slot_is_idle_while_a_request_waits(
    jobs: list[Job], slots: int, changes: list[int]
) -> None:
    served = serve(jobs, slots, changes)
    for one in served:
        if one.start_us > one.job.arrival_us:
            moment = one.start_us - 1
            busy = sum(s.start_us <= moment < s.finish_us for s in served)
            assert busy == slots


@given(JOBS, st.integers(1, 5), CHANGES)
def test_never_more_in_service_than_slots(jobs: list[Job], slots: int, changes: list[int]) -> None:
    served = serve(jobs, slots, changes)
    for one in served:
        assert sum(s.start_us <= one.start_us < s.finish_us for s in served) <= slots


@given(JOBS, st.integers(1, 5), CHANGES)
def test_every_request_gets_exactly_its_work(
    jobs: list[Job], slots: int, changes: list[int]
) -> None:
    def done(start_us: int, end_us: int) -> Fraction:
        edges = [start_us, *[c for c in changes if start_us < c < end_us], end_us]
        total = Fraction(0)
        for left, right in pairwise(edges):
            merging = sum(c <= left for c in changes) % 2 == 1
            total += Fraction(right - left) / (Fraction(SLOWDOWN) if merging else 1)
        return total

    for s in serve(jobs, slots, changes):
        work = s.job.prefill_us + s.job.decode_us
        # The finish is the first whole microsecond by which the work is done.
        assert work <= done(s.start_us, s.finish_us) < work + 1
        assert s.job.prefill_us <= done(s.start_us, s.first_token_us) < s.job.prefill_us + 1


@given(JOBS, st.integers(1, 5), CHANGES, st.lists(st.integers(0, 20_000), max_size=20))
@settings(max_examples=200)
def test_how_often_the_model_is_asked_changes_nothing(
    jobs: list[Job], slots: int, changes: list[int], stops: list[int]
) -> None:
    assert serve(jobs, slots, changes, stops) == serve(jobs, slots, changes)


@given(JOBS)
def test_merging_all_the_time_stretches_every_service_by_the_slowdown(jobs: list[Job]) -> None:
    for s in serve(jobs, None, [0], slowdown=PAPER_SLOWDOWN):
        work = s.job.prefill_us + s.job.decode_us
        assert s.finish_us - s.start_us == pytest.approx(work * PAPER_SLOWDOWN, abs=1)


def test_a_merge_in_mid_service_slows_the_rest_of_it() -> None:
    # 100 of 1000 us done by 100, then 200 us at half speed, then the rest at full speed.
    served = serve([Job(0, 0, 600, 400)], changes=[100, 300])
    assert (served[0].first_token_us, served[0].finish_us) == (700, 1100)


def test_the_stages_of_a_request_add_up() -> None:
    served = serve([Job(0, 0, 300, 200), Job(1, 100, 50, 70)])
    for s in served:
        assert s.queue_s + s.prefill_s == pytest.approx(s.ttft_s)
        assert s.ttft_s + s.decode_s == pytest.approx(s.e2e_s)


def test_load_counts_what_is_in_service_and_what_waits() -> None:
    model = Sidecar(2, SLOWDOWN)
    for i in range(5):
        model.arrive(Job(i, 0, 100, 0))
    assert (model.running, model.waiting) == (2, 3)
    assert model.next_finish_us() == 100
    model.advance(100)
    assert (model.running, model.waiting) == (2, 1)
    model.advance(1000)
    assert (model.running, model.waiting, model.next_finish_us()) == (0, 0, None)


def test_time_never_goes_back() -> None:
    model = Sidecar(1, SLOWDOWN)
    model.advance(10)
    with pytest.raises(ValueError, match="before 10"):
        model.arrive(Job(0, 9, 1, 0))


def test_an_ordinary_request_is_fast_and_crosses_the_slo_when_slowed_only_if_long() -> None:
    service = ServiceSettings()

    def seconds(prompt: int, output: int) -> float:
        return (service.prefill_us(prompt) + service.decode_us(output)) / 1e6

    # The 10th, 50th and 90th percentile of the generated lengths.
    short, median, long = seconds(327, 41), seconds(512, 64), seconds(802, 100)
    assert 0.25 < short < median < long < 0.7
    assert median * PAPER_SLOWDOWN < 1.0 < long * PAPER_SLOWDOWN


def test_unknown_lengths_take_the_assumed_ones_and_none_takes_none() -> None:
    service = ServiceSettings(assumed_prompt_tokens=100, assumed_output_tokens=10)
    assert service.prefill_us(-1) == service.prefill_us(100) > service.prefill_us(0)
    assert service.decode_us(-1) == service.decode_us(10) > service.decode_us(0) == 0
