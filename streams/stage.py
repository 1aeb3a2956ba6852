"""The decision stage of a merge group: bins and learner reports in, decisions out."""

import logging
from collections.abc import Iterator

from controller.engine import Engine
from slackwater.events import (
    Bins,
    Decision,
    Event,
    Heartbeat,
    MergeCommand,
    MergeNow,
    MergeReport,
    Pause,
    Resume,
    Step,
)
from streams.progress import Progress

log = logging.getLogger(__name__)


class DecisionStage:
    """Feeds the engine and asks it for every tick that the group's watermark has passed."""

    def __init__(self, engine: Engine, progress: Progress) -> None:
        self.engine = engine
        self.progress = progress
        self.watermark_us: int | None = None
        self._known: set[str] = set()

    def observe(self, event: Event) -> None:
        """Take one event of the bins, learners, merges or commands topic."""
        self._greet(event)
        match event:
            case Bins():
                for row in event.rows:
                    self.engine.observe(row)
                self.progress.hear_bins(event)
            case Step() | Heartbeat():
                self.engine.observe(event)
                self.progress.hear_learner(event)
            case MergeReport():
                self.engine.observe(event)
                self.progress.hear_report(event)
            case Pause() | Resume():
                paused = isinstance(event, Pause)
                what = "is paused: H_max alone is commanded" if paused else "goes on"
                log.info("the group %s", what)
                self.engine.observe(event)
            case MergeNow():
                self.engine.observe(event)

    def skip_to(self, decided_us: int) -> None:
        """Make again, in silence, the decisions up to `decided_us`, which were logged before."""
        for _ in self.engine.advance(decided_us):
            continue

    def decide(self) -> Iterator[tuple[Decision, MergeCommand | None]]:
        """Every tick that has become decidable."""
        watermark_us = self.progress.watermark_us()
        if watermark_us is None:
            return
        self.watermark_us = max(watermark_us, self.watermark_us or 0)
        yield from self.engine.advance(self.watermark_us)

    def _greet(self, event: Event) -> None:
        """Say once of each source that it was heard."""
        match event:
            case Bins():
                names = [f"sidecar {name}" for name in event.watermarks_us]
            case Step() | Heartbeat():
                names = [f"learner {event.learner}"]
            case _:
                return
        for name in names:
            if name not in self._known:
                self._known.add(name)
                log.info("%s is heard", name)
