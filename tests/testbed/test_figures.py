import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testbed.figures import UNKNOWN, gap_bar, number, percent, sparkline


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    assert number(None, 1, " s") == UNKNOWN
    assert number(0.0, 1, " s") == "0.0 s"
    assert percent(0, 0) == UNKNOWN
    assert percent(0, 4) == "0.0 %"


def test_a_sparkline_leaves_a_blank_where_nothing_is_known() -> None:
    assert sparkline([0.0, None, 4.0, 8.0], 8.0) == "▁ ▅█"


def test_a_sparkline_of_nothing_but_zeros_is_flat() -> None:
    assert sparkline([0.0, 0.0], 0.0) == "▁▁"


@given(st.integers(0, 5000), st.integers(1, 512), st.integers(0, 512))
def test_a_gap_bar_has_its_width_whatever_the_gap(gap: int, low: int, more: int) -> None:
    bar = gap_bar(gap, low, low + more, width=20)

    assert len(bar) == 20
    assert sum(cell in "┿┊" for cell in bar) == 1


@pytest.mark.parametrize(("gap", "filled"), [(None, 0), (0, 0), (256, 11), (512, 23), (900, 23)])
def test_a_gap_bar_fills_up_to_h_max(gap: int | None, filled: int) -> None:
    assert gap_bar(gap, 128, 512, 24).count("━") == filled
