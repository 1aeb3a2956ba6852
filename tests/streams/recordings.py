"""A recording for tests: modelled sidecars, and two learners that merge five times."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from slackwater.codec import Codec, encode_lines
from slackwater.events import Accepted, Event, Finished, Started, Step
from slackwater.topics import REQUESTS

ORIGIN_US = 1_750_000_000_000_000
STEP_US = 30_000
MERGE_US = 1_200_000
MERGE_STEPS = (150, 310, 470, 640, 850)


def learner_events(
    learner: str, run_id: str, until_us: int, skew_us: int, slower: int = 1
) -> Iterator[Event]:
    """Steps of 30 ms, and a merge of 1.2 s when a merge step has been taken.

    One that is so many times slower comes to the same merges after so many times fewer steps.
    """
    step_us = slower * STEP_US
    merge_steps = [step // slower for step in MERGE_STEPS]
    now_us, step, last_merge, reports = ORIGIN_US + skew_us, 0, 0, 0
    common = {"run_id": run_id, "learner": learner}
    while now_us + step_us + MERGE_US < until_us:
        now_us, step = now_us + step_us, step + 1
        yield Step(
            **common,
            at_us=now_us,
            step=step,
            loss=4.0 / (1 + step / 200),
            tokens=1024,
            step_time_s=step_us / 1e6,
            steps_since_merge=step - last_merge,
            tokens_since_merge=1024 * (step - last_merge),
            checkpoint_pressure=0.1,
            reports_sent=reports,
        )
        if step in merge_steps:
            merge = {**common, "group": "default", "merge_id": f"hmax-{step}", "step": step}
            yield Accepted(**merge, at_us=now_us + 1000)
            yield Started(**merge, at_us=now_us + 2000)
            now_us += MERGE_US
            yield Finished(**merge, at_us=now_us, seconds=MERGE_US / 1e6, bytes_exchanged=4)
            last_merge, reports = step, reports + 3


def record(
    export: Path, target: Path, run_id: str, duration_s: float, slower: int = 1
) -> list[Event]:
    """Join exported requests and loads with learners; write the recording, return its events."""
    decoded = Codec(REQUESTS).decode(export.read_bytes())
    assert not decoded.bad
    start_us = min(e.at_us for e in decoded.events)
    shift_us = ORIGIN_US - start_us
    until_us = ORIGIN_US + round(duration_s * 1e6)
    events: list[Event] = [_shifted(e, shift_us, run_id) for e in decoded.events]
    for index in range(2):
        pace = slower if index else 1
        events += learner_events(f"learner-{index}", run_id, until_us, index * 7000, pace)
    events = sorted((e for e in events if e.at_us < until_us), key=lambda e: e.at_us)
    target.write_bytes(encode_lines(events))
    return events


def _shifted(event: Event, shift_us: int, run_id: str) -> Event:
    times = {n: getattr(event, n) + shift_us for n in ("at_us", "arrival_us") if hasattr(event, n)}
    return msgspec.structs.replace(event, run_id=run_id, **times)
