import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.correction import holm, max_t
from calibration.signflip import interval, paired, sign_flip
from slackwater.errors import InputError

PUBLISHED = [-1.065, 0.226, -1.461, -0.365, -2.306]
numbers = st.lists(st.integers(-20, 20), min_size=1, max_size=9)


def enumerated(values: list[int], side: str) -> float:
    """p over all patterns in whole numbers: no rounding, no vectors."""
    sums = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    seen = sum(values)
    hits = {
        "less": [s <= seen for s in sums],
        "greater": [s >= seen for s in sums],
        "two-sided": [abs(s) >= abs(seen) for s in sums],
    }
    return sum(hits[side]) / len(sums)


def test_published_gate_case() -> None:
    found = sign_flip(PUBLISHED, "less")
    assert found.p_value == 0.0625
    assert found.mean == pytest.approx(-0.994, abs=5e-4)
    assert found.exact


@given(values=numbers, side=st.sampled_from(["less", "greater", "two-sided"]))
@settings(deadline=None)
def test_exact_p_counts_every_pattern_and_every_tie(values: list[int], side: str) -> None:
    assert sign_flip(np.array(values) / 10, side).p_value == enumerated(values, side)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 6, 30])
@pytest.mark.parametrize("side", ["less", "greater", "two-sided"])
def test_equal_samples_are_never_significant(n: int, side: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    assert sign_flip(paired(x, x), side, rng).p_value == 1.0  # type: ignore[arg-type]
    assert sign_flip(paired(np.full(n, 3.3), [3.3] * n), side, rng).p_value == 1.0  # type: ignore[arg-type]


def test_p_is_never_zero() -> None:
    rng = np.random.default_rng(0)
    assert sign_flip([5.0], "greater").p_value == 0.5
    assert sign_flip([5.0] * 20, "greater").p_value == 2**-20
    found = sign_flip([5.0] * 200, "greater", rng)
    assert found.p_value == 1 / 100_000
    assert not found.exact


def test_sums_equal_but_for_rounding_are_ties() -> None:
    assert sign_flip([0.1, 0.2, -0.3], "greater").p_value == enumerated([1, 2, -3], "greater")


def test_monte_carlo_agrees_with_the_exact_test() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0.3, 1, size=20)
    exact = sign_flip(values, "two-sided").p_value
    drawn = sign_flip(np.append(values, 0.0), "two-sided", rng).p_value  # a zero changes no sum
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 1e5) ** 0.5)


@given(values=st.lists(st.floats(-5, 5), min_size=6, max_size=10))
@settings(deadline=None, max_examples=60)
def test_interval_holds_exactly_the_shifts_the_test_does_not_reject(values: list[float]) -> None:
    d = np.array(values) + np.linspace(0, 1e-3, len(values))
    ends = interval(d)
    assert ends is not None
    low, high = ends
    for outside in (low - 1e-6, high + 1e-6):
        assert sign_flip(d - outside, "two-sided").p_value <= 0.05
    if high - low > 1e-5:
        for inside in (low + 1e-6, (low + high) / 2, high - 1e-6):
            assert sign_flip(d - inside, "two-sided").p_value > 0.05


def test_too_few_runs_have_no_interval() -> None:
    assert interval([1.0] * 5) is None
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)
    assert interval([1.0] * 5, 0.90) == (1.0, 1.0)


def test_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(1000):
        ends = interval(rng.laplace(2.0, 1.0, size=8))
        assert ends is not None
        hits += ends[0] <= 2.0 <= ends[1]
    assert 0.93 < hits / 1000 < 0.97


def test_interval_of_many_runs_is_close_to_the_normal_one() -> None:
    rng = np.random.default_rng(9)
    d = rng.normal(1.0, 1.0, size=100)
    ends = interval(d, rng=rng)
    assert ends is not None
    half = 1.96 * d.std(ddof=1) / 10
    assert ends == pytest.approx((d.mean() - half, d.mean() + half), abs=0.03)


@pytest.mark.parametrize("wrong", [[], [1.0, float("nan")], [[1.0], [2.0]]])
def test_impossible_differences_are_refused(wrong: list[float]) -> None:
    with pytest.raises(InputError, match="one finite number a run"):
        sign_flip(wrong, "less")


def test_unpaired_runs_and_a_missing_generator_are_named() -> None:
    with pytest.raises(InputError, match="3 runs against 2"):
        paired([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="give a random generator"):
        sign_flip([1.0] * 21, "less")
    with pytest.raises(InputError, match="give a random generator"):
        max_t(np.ones((15, 2)))


def test_holm_known_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx(np.array([0.03, 0.06, 0.06, 0.02]))
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]


def test_max_t_of_one_policy_is_the_sign_flip_test() -> None:
    d = np.array(PUBLISHED)
    assert max_t(d[:, None]).tolist() == [sign_flip(d, "two-sided").p_value]


def test_max_t_of_a_policy_named_twice_costs_nothing() -> None:
    d = np.array([1.0, 2.0, 0.5, 1.5, 3.0, -0.1])
    alone = sign_flip(d, "two-sided").p_value
    assert max_t(np.column_stack([d, d])).tolist() == [alone, alone]
    assert holm([alone, alone])[0] == 2 * alone


def test_max_t_adjusts_no_p_below_its_own() -> None:
    rng = np.random.default_rng(1)
    d = rng.normal(0.5, 1, size=(8, 5))
    d[:, 4] = 0.0
    raw = [sign_flip(column, "two-sided").p_value for column in d.T]
    adjusted = max_t(d)
    assert (adjusted >= np.array(raw) - 1e-12).all()
    assert adjusted[4] == 1.0


def test_max_t_finds_too_much_in_noise_no_more_often_than_it_says() -> None:
    rng = np.random.default_rng(2)
    wrong = sum(max_t(rng.normal(size=(7, 6))).min() <= 0.05 for _ in range(1000))
    assert wrong / 1000 <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
