"""Live runs as their logs tell them, made by hand: what each has that the grid must cope with.

Times are seconds after the start. Unless a run says otherwise it lasts 100 s, two learners step
every 0.1 s from 0.4 and from 0.7 s on, windows last 4 s, and gaps are 100 to 300 steps.
"""

from dataclasses import dataclass, replace

import numpy as np
from handmade import LEARNERS, us

from slackwater import events
from streams.runlog import Run


@dataclass(frozen=True)
class Made:
    """One run: its merges as (start, length), the length None where it never ended."""

    name: str
    merges: tuple[tuple[float, float | None], ...] = ((20.0, 4.0), (45.25, 3.8), (70.5, 4.3))
    gaps: tuple[int, int] | None = (100, 300)
    first_step_s: tuple[float, ...] = (0.4, 0.7)
    last_step_s: tuple[float, ...] = (99.9, 99.7)
    step_s: float | None = 0.1
    length_s: float = 100.0
    pauses: tuple[tuple[str, float], ...] = ()
    planned_s: float | None = None
    policy: str | None = "slack"
    groups: tuple[str, ...] = ("default",)
    speed: float = 1.0
    requests: int = 300
    complete: bool = True


PLAIN = Made("plain")
# The report and SQL judge these, and must say the same.
JUDGED = [
    PLAIN,
    Made("merge after the traffic", merges=((20.0, 4.0), (45.0, 4.0), (70.0, 4.0), (99.95, 4.0))),
    Made("paused", pauses=(("pause", 62.0),)),
    Made("resumed", pauses=(("pause", 50.0), ("resume", 60.0)), last_step_s=(99.9, 50.0)),
    Made("gaps beyond the corridor", gaps=(200, 210)),
    Made("gaps below the window", merges=((20.0, 4.0), (22.3, 4.0), (50.0, 4.0))),
    Made("one unfinished", merges=((20.0, 4.0), (45.0, None), (70.0, 6.0)), policy=None),
    Made("one that stood as planned", merges=((20.0, 4.0), (70.0, None)), planned_s=9.0),
    Made("being written", merges=((20.0, 4.0), (45.0, 4.0), (98.0, None)), complete=False),
    Made("times off the grid", merges=((19.949999, 3.750001), (45.200001, 4.249999), (70.45, 4.0))),
    Made("a learner that comes late", first_step_s=(0.4, 50.0)),
    Made("windows below a cell, one at once", merges=((0.7, 0.1), (45.0, 0.2), (70.0, 0.1))),
    Made(
        "twenty times as fast",
        merges=((220.0, 31.0), (500.0, 29.5), (800.0, 33.25)),
        gaps=(128, 512),
        step_s=1.5,
        length_s=1200.0,
        first_step_s=(8.0, 14.0),
        last_step_s=(1198.0, 1194.0),
        speed=20.0,
    ),
]
# What cannot be judged, and what the report says of it; SQL leaves it out.
REFUSED = {
    "no inner step is logged": replace(PLAIN, first_step_s=(), last_step_s=()),
    "no request": replace(PLAIN, requests=0),
    "two merges began within 0.5 s": replace(PLAIN, merges=((20.0, 4.0), (20.2, 4.0))),
    "no merge has ended yet": replace(PLAIN, merges=((20.0, None),)),
    "no merge was made": replace(PLAIN, merges=()),
    "so there is no placement": replace(PLAIN, merges=((99.95, 4.0),)),
    "before the learners' first step": replace(PLAIN, merges=((0.1, 4.0), (50.0, 4.0))),
    "settings name no corridor": replace(PLAIN, gaps=None),
    "several merge groups": replace(PLAIN, groups=("one", "two")),
}


def put(log, made, partition=0):
    """Write the run into a log, each of several as a partition of its own."""
    corridor = dict(zip(("min_gap_steps", "max_gap_steps"), made.gaps or (), strict=False))
    settings = {"testbed": {"speed": made.speed}, "stream": {"controller": corridor}}
    start = Run(run_id=made.name, policy=made.policy, seed=1, trace="tiny", created_us=us(0),
                settings=settings)  # fmt: skip
    log.start_run(start)
    for topic, told in {
        "requests": _requests(made),
        "learners": _steps(made),
        "commands": _commands(made),
        "merges": _merges(made),
    }.items():
        log.append(told, topic=f"t.{topic}", partition=partition, offset=0)
    log.commit()
    if made.complete:
        log.finish_run(made.name, "complete", us(made.length_s))


def _requests(made):
    """Bursts and lulls; every third request arrives on a quarter of a second."""
    rng = np.random.default_rng(len(made.name))
    arrivals = np.sort(made.length_s * rng.beta(0.8, 0.9, made.requests))
    arrivals[::3] = np.round(4 * arrivals[::3]) / 4
    return [
        events.Request(
            run_id=made.name, at_us=us(at + 0.3), sidecar=f"sidecar-{i % 2}", id=str(i),
            arrival_us=us(at), status="ok", e2e_s=0.3,
        )
        for i, at in enumerate(arrivals)
        if at + 0.3 <= made.length_s
    ]  # fmt: skip


def _steps(made):
    """The first, some in between and the last; a learner's first report knows no step time."""
    told = []
    spans = zip(LEARNERS, made.first_step_s, made.last_step_s, strict=False)
    for number, (learner, first, last) in enumerate(spans):
        times = np.linspace(first + (0 if number else made.step_s), last, 40)
        told += [
            events.Step(
                run_id=made.name, at_us=us(at), learner=learner, step=i + 1, steps_since_merge=1,
                step_time_s=None if number and not i else made.step_s * (1 + 0.01 * (i % 3)),
            )
            for i, at in enumerate(times)
        ]  # fmt: skip
    return told


def _commands(made):
    kinds = {"pause": events.Pause, "resume": events.Resume}
    told = [
        kinds[kind](run_id=made.name, at_us=us(at), group="default") for kind, at in made.pauses
    ]
    if made.planned_s is not None:
        told += [
            events.MergeCommand(
                run_id=made.name, at_us=us(start - 1), group="default", merge_id=f"m{i}", at_step=1,
                deadline_us=us(start + 9), window_s=made.planned_s, reason="calm",
                participants=LEARNERS,
            )
            for i, (start, _) in enumerate(made.merges)
        ]  # fmt: skip
    return told


def _merges(made):
    told = []
    for i, (start, length) in enumerate(made.merges):
        fields = {"run_id": made.name, "group": made.groups[i % len(made.groups)],
                  "merge_id": f"m{i}", "step": 1}  # fmt: skip
        told += [
            events.Started(at_us=us(start), learner=learner, reason="calm", **fields)
            for learner in LEARNERS
        ]
        if length is not None:
            told += [
                events.Finished(
                    at_us=us(start + length), learner=learner, seconds=length, bytes_exchanged=1,
                    **fields,
                )
                for learner in LEARNERS
            ]  # fmt: skip
    return told
