"""Seconds to inner steps: the one conversion."""

import math


def steps_in(duration_s: float, step_time_s: float) -> int:
    """Whole inner steps that begin within `duration_s`, at `step_time_s` seconds a step."""
    return math.ceil(duration_s / step_time_s)
