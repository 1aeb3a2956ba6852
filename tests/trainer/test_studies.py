"""The studies of loss: figures by pairs of seeds, real bytes, and a merge by gloo as in process."""

import math

import pytest

from bench.compression import run
from bench.paired import figures
from bench.pupil import Outer, data_parallel, merged


def test_differences_are_taken_seed_by_seed_with_the_sign_flip_interval() -> None:
    base = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    less = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    losses = {"base": base, "arm": [a + b for a, b in zip(base, less, strict=True)]}
    found = figures(losses, "arm", "base")
    assert found["less"] == pytest.approx(less)
    assert found["less_mean"] == pytest.approx(0.35)
    # With 6 seeds the test rejects at 5% only what no difference reaches.
    assert found["less_interval_95"] == pytest.approx((0.1, 0.6))
    assert figures(losses, "base", "base")["less_interval_95"] is None


def test_too_few_seeds_have_no_interval_and_one_has_no_spread() -> None:
    few = figures({"base": [1.0] * 5, "arm": [2.0] * 5}, "arm", "base")
    assert (few["less_mean"], few["less_interval_95"]) == (1.0, None)
    assert figures({"base": [1.0]}, "base", "base")["sd"] is None


def test_a_training_that_diverged_is_no_figure() -> None:
    with pytest.raises(ArithmeticError, match="arm: a held-out loss is not finite"):
        figures({"base": [1.0], "arm": [math.nan]}, "arm", "base")


@pytest.mark.parametrize(("arm", "put"), [("float32", 400_000), ("int8", 101_564)])
def test_bytes_are_those_that_tcp_sent_and_float32_merges_as_in_process(arm: str, put: int) -> None:
    found = run((3, arm, 2, 1, 1))
    assert found.put_bytes == put
    # Gloo says a little more than the vectors.
    assert put < found.wire_bytes < 1.1 * put
    if arm == "float32":
        assert found.loss == merged(3, [1], Outer())


def test_one_step_and_a_plain_mean_of_two_learners_is_not_data_parallel() -> None:
    """AdamW and Adagrad of a mean gradient are not the mean of their steps: arms truly differ."""
    assert merged(0, [1], Outer(1.0, 0.0)) != data_parallel(0, 1, Outer())
