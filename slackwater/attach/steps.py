"""What a training loop leaves behind at a step, and the event that is made of it elsewhere.

A loop that comes back from a second of work on its accelerator finds nothing of the client in the
CPU's caches: then every object that is touched costs, and building an event touches many. So the
loop leaves one tuple, and the thread of the link does the rest.
"""

import math
import operator
from typing import SupportsFloat

from slackwater.attach.pace import Mark, step_seconds
from slackwater.clock import RunClock
from slackwater.events import MAX_COUNT, Step

# What an event may say, and None where the loop gives something else.
MOST = {
    "step_time_s": math.inf,
    "update_norm": math.inf,
    "network_pressure": 1.0,
    "checkpoint_pressure": 1.0,
    "memory_pressure": 1.0,
}

# Of network, checkpoint storage and memory.
Pressures = tuple[float | None, float | None, float | None]
NO_PRESSURE: Pressures = (None, None, None)

# Wall time in microseconds; step, loss, tokens, step_time_s, update_norm; pressure of network,
# checkpoint storage and memory; the pace's mark, in wall time; tokens since the last merge, where
# that was, the epoch, and the merge reports sent before.
Left = tuple[
    int,
    int,
    float | None,
    int,
    float | None,
    float | None,
    float | None,
    float | None,
    float | None,
    Mark | None,
    int,
    int,
    int,
    int,
]


def step_event(
    left: Left, run_id: str, group: str, learner: str, clock: RunClock, host: Pressures
) -> Step:
    """The event of a step; `host` stands in where the loop gave no pressure of its own.

    Numbers of numpy or torch become Python's; raises `TypeError`, `ValueError` or
    `OverflowError` for what is no number, and `ValueError` for a step that cannot be.
    """
    wall_us, step = left[0], operator.index(left[1])
    loss, step_time_s, update_norm = _real(left[2]), _real(left[4]), _real(left[5])
    tokens = operator.index(left[3])
    network, checkpoint, memory = _real(left[6]), _real(left[7]), _real(left[8])
    mark = left[9]
    tokens_since, merged_step, epoch, reports = left[10:]
    if not merged_step <= step <= MAX_COUNT:
        msg = f"step {step} comes after a merge at {merged_step}; steps count on from there"
        raise ValueError(msg)
    now_us = clock.event_us(wall_us)
    if step_time_s is None and mark is not None:
        before, since_us = mark
        step_time_s = step_seconds((before, clock.event_us(since_us)), step, now_us)
    return Step(
        run_id=run_id,
        at_us=now_us,
        learner=learner,
        step=step,
        loss=loss,
        tokens=tokens,
        step_time_s=step_time_s,
        steps_since_merge=step - merged_step,
        tokens_since_merge=tokens_since,
        update_norm=update_norm,
        network_pressure=host[0] if network is None else network,
        checkpoint_pressure=host[1] if checkpoint is None else checkpoint,
        memory_pressure=host[2] if memory is None else memory,
        epoch=epoch,
        reports_sent=reports,
        group=group,
    )


def impossible(step: Step) -> dict[str, float]:
    """What a reader of the event would refuse, by field: below 0, or more than `MOST`."""
    given = ((name, getattr(step, name), most) for name, most in MOST.items())
    return {
        name: value
        for name, value, most in given
        if value is not None and not (0 <= value <= most or math.isnan(value))
    }


def _real(value: SupportsFloat | None) -> float | None:
    return None if value is None else float(value)
