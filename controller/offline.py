"""The same decisions without Kafka: a recording of events in, the decisions it leads to out."""

from collections.abc import Iterable, Iterator

from controller.counting import PartitionCounter
from controller.engine import Engine
from controller.policies import policy_named
from controller.settings import ControllerSettings
from slackwater.events import (
    Decision,
    Event,
    Heartbeat,
    Load,
    MergeCommand,
    MergeNow,
    MergeReport,
    Pause,
    Request,
    Resume,
    Step,
)


def decide_offline(
    events: Iterable[Event],
    settings: ControllerSettings,
    policies: Iterable[str],
    *,
    run_id: str,
    until_us: int,
    bin_s: float = 0.25,
    lateness_s: float = 0.2,
) -> Iterator[tuple[Decision, MergeCommand | None]]:
    """Every decision up to event time `until_us`; the first policy is the active one.

    Events may come in any order: they are sorted by `at_us`, so none is late. What the live job
    decided on the same events is equal to this, tick for tick, up to its watermark.
    """
    engine = Engine(settings, [policy_named(p) for p in policies], run_id=run_id, bin_s=bin_s)
    counter = PartitionCounter(0, bin_s, lateness_s)
    for event in sorted(events, key=lambda e: e.at_us):
        match event:
            case Request() | Load():
                counter.add([event])
            case Step() | Heartbeat() | MergeReport() | Pause() | Resume() | MergeNow():
                engine.observe(event)
    bins = counter.close(run_id, settings.group)
    for row in bins.rows if bins else []:
        engine.observe(row)
    yield from engine.advance(until_us)
