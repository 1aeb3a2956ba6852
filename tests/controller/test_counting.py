import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller.counting import PartitionCounter
from slackwater.events import BinRow, Load, Request

T0 = 1_750_000_000_000_000
BIN_US = 250_000


def request(at_us: int, name: str, sidecar: str = "s", status: str = "ok") -> Request:
    e2e_s = 0.3 if status == "ok" else None
    return Request(  # type: ignore[arg-type]
        run_id="r", at_us=T0 + at_us, sidecar=sidecar, id=name, arrival_us=T0, status=status,
        e2e_s=e2e_s, prompt_tokens=5, output_tokens=2,
    )  # fmt: skip


def load(at_us: int, running: int, sidecar: str = "s") -> Load:
    return Load(run_id="r", at_us=T0 + at_us, sidecar=sidecar, running=running, waiting=1)


def counter(lateness_s: float = 0.0) -> PartitionCounter:
    return PartitionCounter(0, 0.25, lateness_s)


def closed_rows(made: PartitionCounter) -> list[BinRow]:
    bins = made.close("r", "g")
    return bins.rows if bins else []


def test_bin_closes_when_the_watermark_passes_its_end() -> None:
    made = counter(lateness_s=0.1)
    made.add([request(10, "a"), request(249_999, "b"), request(349_999, "c")])
    assert closed_rows(made) == []
    made.add([request(350_000, "d")])
    rows = closed_rows(made)
    assert [(r.start_us - T0, r.finished) for r in rows] == [(0, 2)]


def test_event_after_its_bin_closed_is_late_and_in_no_bin() -> None:
    made = counter()
    made.add([request(10, "a"), request(600_000, "b")])
    closed_rows(made)
    counted = made.add([request(20, "c"), request(610_000, "d")])
    assert counted.late == [0]
    made.add([request(900_000, "e")])
    [row] = closed_rows(made)
    assert (row.finished, row.late) == (2, 1)


def test_late_count_survives_until_a_row_carries_it() -> None:
    made = counter()
    made.add([request(10, "a"), request(600_000, "b")])
    closed_rows(made)
    made.add([request(20, "c")])
    made.add([request(5_000_000, "d")])
    assert sum(row.late for row in closed_rows(made)) == 1


def test_event_that_comes_twice_counts_once() -> None:
    made = counter()
    counted = made.add([request(10, "a"), request(10, "a"), request(300_000, "b")])
    assert counted.repeated == [1]
    assert [r.finished for r in closed_rows(made)] == [1]


def test_failed_requests_are_counted_apart_and_have_no_latency() -> None:
    made = counter()
    made.add([request(10, "a"), request(20, "b", status="aborted"), request(300_000, "c")])
    [row] = closed_rows(made)
    assert (row.finished, row.failed, row.e2e_sum_s) == (2, 1, 0.3)


def test_sample_splits_what_finished_before_from_what_finished_after() -> None:
    made = counter()
    made.add([request(10, "a"), load(100_000, 3), request(200_000, "b"), load(300_000, 2)])
    [row] = closed_rows(made)
    assert (row.in_system, row.sample_us, row.finished_after_sample) == (4, T0 + 100_000, 1)


def test_bin_without_a_sample_says_unknown() -> None:
    made = counter()
    made.add([request(10, "a"), request(300_000, "b")])
    [row] = closed_rows(made)
    assert (row.in_system, row.sample_us, row.finished_after_sample) == (None, None, None)


def test_silent_sidecar_gets_no_rows_while_others_go_on() -> None:
    made = counter()
    made.add([request(10, "a", "s"), request(10, "a", "t"), request(5_000_000, "b", "t")])
    bins = made.close("r", "g")
    assert bins is not None
    assert {r.sidecar for r in bins.rows} == {"t"}
    assert bins.watermarks_us["s"] < bins.watermarks_us["t"]


@given(
    st.lists(st.tuples(st.integers(0, 3_000_000), st.booleans()), min_size=1, max_size=60),
    st.data(),
)
def test_batches_change_nothing_when_nothing_is_late(
    times: list[tuple[int, bool]], data: st.DataObject
) -> None:
    events = [
        request(at_us, str(i)) if is_request else load(at_us, i % 5)
        for i, (at_us, is_request) in enumerate(sorted(times))
    ]
    events.append(load(9_000_000, 0))
    whole, cut = counter(0.2), counter(0.2)
    whole.add(events)
    rows: list[BinRow] = []
    at = 0
    while at < len(events):
        size = data.draw(st.integers(1, 10))
        assert cut.add(events[at : at + size]).late == []
        rows += closed_rows(cut)
        at += size
    assert sorted(rows, key=lambda r: r.start_us) == closed_rows(whole)


@given(st.lists(st.integers(0, 2_000_000), min_size=1, max_size=50))
def test_every_request_is_in_a_bin_or_late_or_repeated(times: list[int]) -> None:
    made, events, found = counter(0.1), [], 0
    for i, at_us in enumerate(times):
        events.append(request(at_us, str(i % 7)))
    late = repeated = 0
    for event in [*events, request(60_000_000, "end")]:
        counted = made.add([event])
        late, repeated = late + len(counted.late), repeated + len(counted.repeated)
        found += sum(row.finished for row in closed_rows(made))
    assert found + late + repeated == len(events)


def test_single_event_far_in_the_future_closes_nothing() -> None:
    made = counter()
    counted = made.add([request(10, "a"), request(3_600_000_000, "b"), request(300_000, "c")])
    assert counted.late == [1]
    assert [row.finished for row in closed_rows(made)] == [1]


def test_sidecar_that_was_silent_for_an_hour_is_heard_again() -> None:
    made = counter()
    hour_us = 3_600_000_000
    made.add([request(10, "a")])
    counted = made.add([request(hour_us + i * 1_000, f"b{i}") for i in range(5)])
    assert counted.late == [0]
    made.add([request(hour_us + 300_000, "c")])
    assert [row.finished for row in closed_rows(made)] == [1, 4]


def test_token_sums_stay_within_what_an_event_can_carry() -> None:
    made, most = counter(), (1 << 63) - 1
    huge = [msgspec.structs.replace(request(10, n), prompt_tokens=most) for n in "ab"]
    made.add([*huge, request(300_000, "c")])
    [row] = closed_rows(made)
    assert row.prompt_tokens == most


def test_a_sample_that_cannot_tell_the_queue_counts_all_in_the_system() -> None:
    made = counter()
    outside = Load(run_id="r", at_us=T0 + 10, sidecar="s", running=3, waiting=None)
    made.add([outside, request(300_000, "a")])
    [row] = closed_rows(made)
    assert (row.samples, row.in_system) == (1, 3)
