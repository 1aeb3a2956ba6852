import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.fairness import fairness, jain, worst_of
from slackwater.errors import InputError


def test_jain_is_undefined_when_there_is_nothing_to_share() -> None:
    assert jain([]) is None
    assert jain([0.0, 0.0]) is None


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_jain_lies_between_one_nth_and_one(values: list[float]) -> None:
    index = jain(values)
    assert index is not None
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert jain([7.0 * v for v in values]) == pytest.approx(index)


def test_harm_is_shared_by_requests_not_by_heads() -> None:
    harmed = np.array([True, True, False, False, True, False])
    found = fairness(harmed, np.array(["a", "a", "a", "a", "b", "b"]))
    assert found.shares["a"].share_of_harm == pytest.approx(2 / 3)
    assert found.shares["a"].burden == pytest.approx(1.0)
    assert found.jain == pytest.approx(1.0)


def test_one_who_bears_it_all_is_named() -> None:
    found = fairness(np.array([True, False, False, False]), np.array([3, 3, 5, 5]))
    assert found.worst == "3"
    assert found.jain == pytest.approx(0.5)
    assert found.shares["5"].share_of_harm == 0.0


def test_shares_are_unknown_when_nobody_was_harmed() -> None:
    found = fairness(np.zeros(4, dtype=bool), np.array(["a", "a", "b", "b"]))
    assert found.jain is None
    assert found.worst is None
    assert found.shares["a"].share_of_harm is None
    assert fairness(np.empty(0, dtype=bool), np.empty(0, dtype=str)).shares == {}


def test_labels_must_be_one_for_each_request() -> None:
    with pytest.raises(InputError, match="4 requests, but 1 labels"):
        fairness(np.zeros(4, dtype=bool), np.array(["a"]))


def test_worst_bearer_of_several_runs_is_judged_by_their_sums() -> None:
    first = fairness(np.array([True, False, False, False]), np.array(["a", "a", "b", "b"]))
    second = fairness(np.array([False, False, True, True]), np.array(["a", "a", "b", "b"]))
    worst = worst_of([*first.bearers(), *second.bearers()])
    assert worst is not None
    assert (worst.name, worst.requests, worst.harmed) == ("b", 4, 2)
    assert worst.burden == pytest.approx(4 / 3)
    assert first.worst_burden == pytest.approx(2.0)


def test_nobody_bears_most_where_nobody_is_harmed_or_known() -> None:
    assert worst_of([]) is None
    unharmed = fairness(np.zeros(2, dtype=bool), np.array(["a", "b"]))
    assert worst_of(unharmed.bearers()) is None
    assert unharmed.worst_burden is None
