import msgspec
import pytest
from worlds import BIN_US, T0, bins

from controller.signals import SidecarSignal, group_load
from slackwater.events import BinRow


def signal(rows: list[BinRow]) -> SidecarSignal:
    made = SidecarSignal(bin_s=0.25, half_life_s=4.0, stale_after_s=2.0, burden_half_life_s=1800.0)
    for row in rows:
        made.observe(row)
    return made


def test_arrivals_are_the_change_in_the_system_plus_what_finished() -> None:
    rows = bins("s", [0, 0, 0, 0])
    rows = [msgspec.structs.replace(r, in_system=2 + 3 * i) for i, r in enumerate(rows)]
    assert signal(rows).rate_per_s == pytest.approx(12.0)


def test_a_finish_after_the_sample_counts_in_the_next_interval() -> None:
    first, second, third = bins("s", [4, 4, 0])
    first = msgspec.structs.replace(first, finished_after_sample=4)
    second = msgspec.structs.replace(second, finished_after_sample=4)
    made = signal([first, second])
    assert made.rate_per_s == pytest.approx(16.0)
    made.observe(third)
    assert made.rate_per_s == pytest.approx(16.0)


def test_silent_sidecar_is_stale_not_idle() -> None:
    made = signal(bins("s", [5] * 40))
    end_us = T0 + 40 * BIN_US
    assert not made.stale(end_us + 1_900_000)
    assert made.stale(end_us + 2_100_000)
    assert made.rate_per_s == pytest.approx(20.0)
    assert made.age_s(end_us + 5_000_000) == pytest.approx(5.0, abs=1e-5)


def test_idle_sidecar_is_fresh_and_its_rate_falls_to_zero() -> None:
    made = signal(bins("s", [5] * 40 + [0] * 400))
    assert not made.stale(T0 + 440 * BIN_US)
    assert made.rate_per_s == pytest.approx(0.0, abs=1e-6)


def test_gap_in_the_data_is_not_a_rate_of_zero() -> None:
    rows = bins("s", [5] * 40) + bins("s", [5] * 4, start_us=T0 + 400 * BIN_US)
    assert signal(rows).rate_per_s == pytest.approx(20.0)


def test_sidecar_without_samples_is_judged_by_its_requests() -> None:
    rows = [
        msgspec.structs.replace(
            r, in_system=None, sample_us=None, finished_after_sample=None, samples=0
        )
        for r in bins("s", [5] * 40)
    ]
    made = signal(rows)
    assert made.rate_per_s == pytest.approx(20.0)
    assert made.in_flight == pytest.approx(8.0)


def test_one_stale_sidecar_makes_the_group_say_so() -> None:
    fresh, silent = signal(bins("a", [5] * 80)), signal(bins("b", [5] * 40))
    now_us = T0 + 80 * BIN_US
    load = group_load({"a": fresh, "b": silent}, now_us)
    assert load.stale == ("b",)
    assert load.age_s == pytest.approx(10.0, abs=1e-5)


def test_unseen_sidecar_has_no_figures() -> None:
    made = signal([])
    assert made.rate_per_s is None
    assert made.in_flight is None
    assert made.stale(T0)
