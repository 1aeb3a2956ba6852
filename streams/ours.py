"""Which events belong to this run and group: topics are shared, decisions are not."""

import logging
from collections.abc import Sequence
from typing import Any

from slackwater.settings import RunSettings

log = logging.getLogger(__name__)


class Ours:
    """Tells this run's events from others', and says once whose others were seen.

    An event without a group (a request, a step of an old client) is every group's of its run.
    """

    def __init__(self, run: RunSettings) -> None:
        self._run_id, self._group = run.run_id, run.group
        self._told: set[tuple[str, str | None]] = set()

    def __call__(self, event: Any) -> bool:
        """True when the event is of this run, and of this group where it names one."""
        group = getattr(event, "group", None)
        if event.run_id == self._run_id and group in {None, self._group}:
            return True
        self._tell(event.run_id, group)
        return False

    def elsewhere(self, events: Sequence[Any]) -> set[int]:
        """Indices of events that name another group: that group's own job logs them."""
        return {
            index
            for index, event in enumerate(events)
            if getattr(event, "group", None) not in {None, self._group}
        }

    def among(self, events: Sequence[Any]) -> list[int]:
        """Indices of this run's events."""
        return [index for index, event in enumerate(events) if self(event)]

    def _tell(self, run_id: str, group: str | None) -> None:
        if (run_id, group) in self._told:
            return
        self._told.add((run_id, group))
        of = f"run {run_id!r}" + (f", group {group!r}" if group else "")
        text = "events of %s are on these topics; this job serves run %r, group %r: %s"
        if group in {None, self._group}:
            log.warning(text, of, self._run_id, self._group, "logged only")
        else:
            log.info(text, of, self._run_id, self._group, "left to that group's own job")
