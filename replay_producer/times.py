"""Times and durations as written in trace files, to whole microseconds by integer arithmetic.

A float holds an epoch time in seconds to a quarter of a microsecond only, and sums of floats
drift: digits are therefore read as digits. What is finer than a microsecond is rounded to the
nearest one.
"""

import re
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

from replay_producer.rows import RowError
from slackwater.clock import US_PER_S
from slackwater.events import MAX_TIME_US

NS_PER_US = 1000
MAX_DIGITS = 25
DAYS_TO_EPOCH = date(1970, 1, 1).toordinal()

_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,12}))?"
    r"(?:(Z)|([+-])(\d{2}):?(\d{2}))?",
    re.ASCII,
)


def number(value: object, column: str) -> int | Decimal:
    """A finite number from JSON or CSV text; raises `RowError`."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise RowError(value, column, "a number")
    if isinstance(value, int):
        return value
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise RowError(value, column, "a number") from None
    if not exact.is_finite() or abs(exact.adjusted()) > MAX_DIGITS:
        raise RowError(value, column, f"a finite number of at most {MAX_DIGITS} digits")
    return exact


def time_us(value: object, column: str, us_per_unit: int) -> int:
    """A point in time given in units of `us_per_unit` microseconds; raises `RowError`."""
    return _checked(_round(number(value, column) * us_per_unit), value, column)


def time_from_ns(value: object, column: str) -> int:
    """A point in time given in nanoseconds; raises `RowError`."""
    return _checked(_round(Decimal(number(value, column)) / NS_PER_US), value, column)


def duration_s(value: object, column: str, seconds_per_unit: float = 1.0) -> float:
    """A duration in seconds; raises `RowError` when it is negative."""
    amount = number(value, column)
    if amount < 0:
        raise RowError(value, column, "a duration of 0 or more")
    return float(amount) * seconds_per_unit


def datetime_us(text: str, column: str) -> int:
    """A date and time such as `2023-11-16 18:15:46.6805900`, UTC unless it names an offset.

    Returns microseconds since the epoch; raises `RowError`.

    >>> datetime_us("2023-11-16 18:15:46.6805900", "TIMESTAMP") % 60_000_000
    46680590
    """
    found = _DATETIME.fullmatch(text.strip())
    if not found:
        raise RowError(text, column, "a date and time such as 2023-11-16 18:15:46.6805900")
    day, hour, minute, second, fraction, _, sign, off_hour, off_minute = found.groups()
    h, m, s = int(hour), int(minute), int(second)
    if h > 23 or m > 59 or s > 59:
        raise RowError(text, column, "a time of day from 00:00:00 to 23:59:59")
    ahead_s = int(off_hour or 0) * 3600 + int(off_minute or 0) * 60
    utc_s = h * 3600 + m * 60 + s + (ahead_s if sign == "-" else -ahead_s)
    whole_s = _epoch_day(day, column) * 86_400 + utc_s
    return _checked(whole_s * US_PER_S + _fraction_us(fraction or "0"), text, column)


@lru_cache(maxsize=64)
def _epoch_day(text: str, column: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - DAYS_TO_EPOCH
    except ValueError:
        raise RowError(text, column, "a date that is in the calendar") from None


def _fraction_us(digits: str) -> int:
    scale: int = 10 ** len(digits)
    return (int(digits) * US_PER_S * 2 + scale) // (2 * scale)


def _round(exact: int | Decimal) -> int:
    return exact if isinstance(exact, int) else int(exact.to_integral_value(ROUND_HALF_UP))


def _checked(us: int, value: object, column: str) -> int:
    if not 0 <= us < MAX_TIME_US:
        raise RowError(value, column, "a time from 0 up to the year 2100; is the unit right?")
    return us
