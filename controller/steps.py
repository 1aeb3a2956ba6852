"""Seconds to inner steps and to ticks: the one conversion of each."""

import math

from slackwater.clock import US_PER_S


def steps_in(duration_s: float, step_time_s: float) -> int:
    """Whole inner steps that begin within `duration_s`, at `step_time_s` seconds a step."""
    return math.ceil(duration_s / step_time_s)


def whole_ticks_s(duration_s: float, tick_s: float) -> float:
    """The duration in seconds that is nearest among whole numbers of ticks, one at the least."""
    tick_us = round(tick_s * US_PER_S)
    return max(1, round(duration_s * US_PER_S / tick_us)) * tick_us / US_PER_S
