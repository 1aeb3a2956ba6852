"""Numbers as loops give them, of Python, numpy or torch, made such as an event can carry.

What is encoded otherwise is either no JSON at all or a record that no reader takes.
"""

import math
import operator
from typing import Any, SupportsFloat

# What a signed 64-bit column of the run log can hold.
MOST = 2**63 - 1


def whole(value: Any, most: int = MOST) -> int | None:
    """An int from 0 to `most`; a float without a fraction is one too. None for anything else."""
    try:
        found = operator.index(value)
    except TypeError:
        number = real(value)
        if number is None or not number.is_integer():
            return None
        found = int(number)
    return found if 0 <= found <= most else None


def real(value: Any) -> float | None:
    """A float, also of what can be made one; None for anything else, for infinity and nan."""
    if not isinstance(value, SupportsFloat):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def seconds(value: Any) -> float | None:
    """A duration, from 0; None for anything else."""
    number = real(value)
    return None if number is None or number < 0 else number
