import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.profile import Profile, decode_profile, encode_profile
from calibration.serving import (
    Overlap,
    Queue,
    isolated_costs,
    requests_of,
    requests_per_cell,
    serving_model,
    start_costs,
    windows_of,
)
from slackwater.errors import InputError


def harmed(counting: str, arrivals: list[float], e2e_s: list[float] | None) -> list[bool]:
    requests = requests_of(arrivals, 100.0, e2e_s=e2e_s)
    model = Overlap(counting=counting)  # type: ignore[arg-type]
    return model.serve(requests, windows_of([10.0, 30.0], 8.0)).harmed.tolist()


def test_window_is_closed_at_its_start_and_open_at_its_end() -> None:
    assert harmed("arriving", [9.999999, 10.0, 17.999999, 18.0], None) == [False, True, True, False]


def test_in_service_adds_what_arrived_before_and_finishes_after_the_start() -> None:
    arrivals, e2e_s = [5.0, 5.0, 9.0, 18.0, 20.0], [5.0, 5.1, 0.5, 1.0, 10.5]
    assert harmed("in_service", arrivals, e2e_s) == [False, True, False, False, True]


def test_request_of_unknown_length_counts_by_its_arrival() -> None:
    assert harmed("in_service", [9.0, 10.0, 12.0], [np.nan, np.nan, 1.0]) == [False, True, True]


def test_in_service_without_any_length_says_what_is_missing() -> None:
    with pytest.raises(InputError, match="end-to-end times"):
        harmed("in_service", [9.0], None)


def test_latency_without_a_recorded_one_is_unknown_not_zero() -> None:
    served = Overlap(counting="arriving").serve(requests_of([1.0], 9.0), windows_of([1.0], 8.0))
    assert np.isnan(served.latency_s).all()
    assert served.violation_rate(1.0) is None
    assert served.harmed_share() == 1.0


times = st.integers(0, 119).map(lambda i: i / 4)  # on and off the grid of 0.5 s
lengths = st.one_of(st.integers(0, 60).map(lambda i: i / 4), st.just(float("nan")))


@given(rows=st.lists(st.tuples(times, lengths), min_size=1, max_size=30))
def test_cost_of_a_start_is_what_the_model_harms_there(rows: list[tuple[float, float]]) -> None:
    rows = [*sorted(rows), (29.75, 1.0)]
    requests = requests_of([r[0] for r in rows], 30.0, e2e_s=[r[1] for r in rows])
    for counting in ("arriving", "in_service"):
        model = Overlap(counting=counting)  # type: ignore[arg-type]
        costs = start_costs(requests, 8.0, 0.5, counting)  # type: ignore[arg-type]
        assert len(costs) == 60 - 16 + 1
        assert costs.tolist() == isolated_costs(model, requests, 8.0, 0.5).tolist()


@given(arrivals=st.lists(times, max_size=40))
def test_arriving_costs_are_sums_of_the_cells(arrivals: list[float]) -> None:
    requests = requests_of(sorted(arrivals), 30.0)
    per_cell = requests_per_cell(requests, 0.5)
    assert per_cell.sum() == len(arrivals)
    windows = np.lib.stride_tricks.sliding_window_view(per_cell, 16).sum(axis=1)
    assert start_costs(requests, 8.0, 0.5, "arriving").tolist() == windows.tolist()


def test_window_that_is_no_whole_number_of_cells_is_refused() -> None:
    with pytest.raises(InputError, match="whole number of cells"):
        start_costs(requests_of([1.0], 30.0), 8.2, 0.5, "arriving")


@pytest.mark.parametrize(
    ("arrivals", "duration_s", "said"),
    [
        ([1.0, 3.0, 2.0], 9.0, "arrival 2 at 2.000000 s comes before"),
        ([1.0, float("nan")], 9.0, "finite"),
        ([1.0, 9.0], 9.0, "do not lie in the run"),
        ([-1.0], 9.0, "do not lie in the run"),
        ([], 0.0, "above 0 s"),
    ],
)
def test_impossible_requests_are_named(arrivals: list[float], duration_s: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        requests_of(arrivals, duration_s)


def test_duplicate_times_are_separate_requests() -> None:
    assert requests_per_cell(requests_of([1.0, 1.0, 1.0], 4.0), 0.5).tolist()[2] == 3


def test_columns_must_have_one_value_for_each_request() -> None:
    with pytest.raises(InputError, match="there are 2 arrivals"):
        requests_of([1.0, 2.0], 9.0, tokens=[5])
    with pytest.raises(InputError, match=r"e2e_s of request 1 is -1\.0"):
        requests_of([1.0, 2.0], 9.0, e2e_s=[1.0, -1.0])
    with pytest.raises(InputError, match="service_s of request 0 is nan"):
        requests_of([1.0, 2.0], 9.0, service_s=[float("nan"), 1.0])


def test_profile_survives_writing_and_reading() -> None:
    profile = Profile(name="ours")
    assert decode_profile(encode_profile(profile)) == profile


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"queue": {"slot": 2}}', "unknown field `slot`"),
        ('{"schema_version": 2}', "schema_version"),
        ('{"slo_s": 0}', "slo_s is 0"),
        ('{"overlap": {"slowdown": 0.5}}', "1 or more"),
        ('{"effect": {"merges": 9, "p95_ratio": 1, "p95_ratio_low": 2, "p95_ratio_high": 3}}',
         "its interval"),
        ("not json", "p.json: not a calibration profile"),
    ],
)  # fmt: skip
def test_profile_that_cannot_be_used_names_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        decode_profile(text, "p.json")


def test_models_take_their_figures_from_the_profile() -> None:
    profile = decode_profile('{"queue": {"slots": 2, "service_s": 0.3, "slowdown": 3}}')
    assert serving_model("queue", profile) == Queue(slots=2, service_s=0.3, slowdown=3.0)
    with pytest.raises(InputError, match="overlap, closed_loop, queue"):
        serving_model("fluid", profile)
