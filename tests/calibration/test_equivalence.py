import numpy as np
import pytest

from calibration.equivalence import ArmLoad, Margins, equivalent, load_match
from slackwater.errors import InputError

BASE = [1000.0, 1100.0, 900.0, 1050.0, 980.0, 1020.0]


def test_the_same_recording_replayed_is_matched_however_few_runs() -> None:
    found = equivalent("slack", "arrivals", [1000], [1000], 0.05)
    assert found.matched
    assert (found.ratio, found.low, found.high) == (1.0, None, None)


def test_small_differences_over_enough_runs_are_equivalent() -> None:
    ours = [b * r for b, r in zip(BASE, (1.01, 0.99, 1.02, 1.0, 0.98, 1.01), strict=True)]
    found = equivalent("slack", "arrivals", ours, BASE, 0.05)
    assert found.matched
    assert found.p_value == 2**-6
    assert found.low is not None
    assert found.high is not None
    assert 1 / 1.05 < found.low < 1.0 < found.high < 1.05


def test_no_significant_difference_is_not_equivalence() -> None:
    ours = [b * r for b, r in zip(BASE, (1.3, 0.7, 1.2, 0.8, 1.25, 0.75), strict=True)]
    found = equivalent("slack", "arrivals", ours, BASE, 0.05)
    assert not found.matched
    assert "not within 5%" in found.reason


def test_small_differences_over_few_runs_are_not_shown() -> None:
    found = equivalent("slack", "arrivals", [1001] * 4, BASE[:4], 0.5)
    assert not found.matched
    assert "5 or more are needed" in found.reason


def test_a_load_outside_the_margin_is_not_matched_on_either_side() -> None:
    for factor in (1.06, 1 / 1.06):
        ours = [b * factor for b in BASE]
        assert not equivalent("slack", "arrivals", ours, BASE, 0.05).matched
        assert equivalent("slack", "arrivals", ours, BASE, 0.07).matched


@pytest.mark.parametrize(
    ("ours", "base", "said"),
    [
        ([1.0, None], [1.0, 1.0], "unknown in 1 of 4"),
        ([1.0], [1.0, 1.0], "1 runs against 2"),
        ([], [], "no runs"),
        ([0.0], [0.0], "without any load"),
    ],
)
def test_what_is_unknown_is_not_matched(
    ours: list[float | None], base: list[float | None], said: str
) -> None:
    found = equivalent("slack", "tokens", ours, base, 0.05)
    assert not found.matched
    assert found.ratio is None
    assert said in found.reason


def test_every_figure_of_every_arm_must_match() -> None:
    tokens = [5e4 + k for k in range(6)]
    arms = {
        "no_merge": ArmLoad(BASE, tokens),
        "slack": ArmLoad(BASE, tokens),
        "fixed_h": ArmLoad(BASE, [None] * 6),
    }
    found = load_match(arms, "no_merge")
    assert [f.matched for f in found.figures] == [True, True, True, False]
    assert not found.matched
    assert found.reason == "tokens of 'fixed_h' are unknown in 6 of 12 figures"
    del arms["fixed_h"]
    assert load_match(arms, "no_merge").matched
    del arms["slack"]
    assert not load_match(arms, "no_merge").matched


def test_unknown_baseline_and_impossible_margins_are_refused() -> None:
    with pytest.raises(InputError, match="there are slack"):
        load_match({"slack": ArmLoad([1], [1])}, "no_merge")
    with pytest.raises(InputError, match="margins are shares"):
        Margins(arrivals=5)


def test_loads_that_differ_by_the_margin_pass_at_most_one_time_in_twenty() -> None:
    rng = np.random.default_rng(4)
    passed = 0
    for _ in range(1000):
        logs = rng.normal(np.log(1.05), 0.03, size=8)
        passed += equivalent("a", "arrivals", np.exp(logs).tolist(), [1.0] * 8, 0.05).matched
    assert passed / 1000 <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
