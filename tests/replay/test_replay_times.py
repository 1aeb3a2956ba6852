"""Times are read as digits: exact to the microsecond, whatever the file's unit."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay_producer.rows import RowError
from replay_producer.times import datetime_us, duration_s, time_from_ns, time_us
from slackwater.events import MAX_TIME_US

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES_US = st.integers(0, MAX_TIME_US - 1)


def test_seven_fractional_digits_keep_their_microseconds() -> None:
    at_us = datetime_us("2023-11-16 18:15:46.6805900", "TIMESTAMP")
    assert EPOCH + timedelta(microseconds=at_us) == datetime(
        2023, 11, 16, 18, 15, 46, 680590, tzinfo=UTC
    )


@given(TIMES_US, st.integers(6, 12))
def test_a_date_with_any_number_of_digits_reads_back(at_us: int, digits: int) -> None:
    text = f"{EPOCH + timedelta(microseconds=at_us):%Y-%m-%d %H:%M:%S.%f}" + "0" * (digits - 6)
    assert datetime_us(text, "t") == at_us


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2024-05-12 02:00:00+02:00", "2024-05-12 00:00:00"),
        ("2024-05-11T22:30:00-0130", "2024-05-12 00:00:00.0"),
        ("2024-05-12 00:00:00Z", "2024-05-12 00:00:00"),
        ("2024-05-12 00:00:00.1234565", "2024-05-12 00:00:00.123457"),
        ("2024-05-12 00:00:00.9999999", "2024-05-12 00:00:01"),
    ],
)
def test_offsets_and_finer_digits_count(text: str, same: str) -> None:
    assert datetime_us(text, "t") == datetime_us(same, "t")


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-02-30 00:00:00", "2023-11-16 24:00:00", "16/11/2023 18:15"]
)
def test_what_is_no_date_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(RowError, match="TIMESTAMP"):
        datetime_us(text, "TIMESTAMP")


@given(TIMES_US)
def test_epoch_times_in_any_unit_are_exact(at_us: int) -> None:
    assert time_us(Decimal(at_us) / 1_000_000, "t", 1_000_000) == at_us
    assert time_us(f"{at_us // 1000}.{at_us % 1000:03d}", "t", 1000) == at_us
    assert time_from_ns(at_us * 1000, "t") == at_us


@pytest.mark.parametrize(
    ("ms", "us"), [("0.0014", 1), ("0.0015", 2), ("0.0016", 2), ("7.9996", 8000)]
)
def test_what_is_finer_than_a_microsecond_is_rounded_to_the_nearest(ms: str, us: int) -> None:
    assert time_us(ms, "t", 1000) == us
    assert time_from_ns(Decimal(ms) * 1_000_000, "t") == us


@pytest.mark.parametrize("value", [None, "", "soon", "nan", "1e999999999", True, -1, [1], 10**30])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(RowError, match="must be"):
        time_us(value, "timestamp", 1000)


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(RowError, match="duration of 0 or more"):
        duration_s("-0.5", "Elapsed time")
