"""Who stands and waits for others says so, once, and says when it goes on."""

import logging
import time
from collections.abc import Callable, Iterable

# Learners seldom come at the very same time: a shorter wait is not worth a line.
SAY_AFTER_S = 0.5


class Waiting:
    """One wait, from now on; wall time.

    Args:
        log: where it is said, at level INFO.
        who: the learner that waits.
        what: what for, beside the names, such as `to merge m1`.
        most_s: it ends by then.
    """

    def __init__(self, log: logging.Logger, who: str, what: str, most_s: float) -> None:
        self._log = log
        self._who = who
        self._what = what
        self._most_s = most_s
        self._begin_s = time.monotonic()
        self._said = False

    @property
    def quiet_s(self) -> float:
        """Seconds until there is something to say; 0 once it is due or said."""
        return 0.0 if self._said else max(0.0, SAY_AFTER_S - (time.monotonic() - self._begin_s))

    def look(self, names: Callable[[], Iterable[str]]) -> None:
        """Still waiting; `names` says for whom, and is asked when that is to be said."""
        if self._said or self.quiet_s > 0:
            return
        self._said = True
        text = "%s waits for %s %s, %.3g s at most"
        awaited = ", ".join(sorted(names())) or "the others"
        self._log.info(text, self._who, awaited, self._what, self._most_s)

    def over(self, outcome: str) -> None:
        """The wait has ended, as `outcome` says; nothing is said of one that was not told."""
        if self._said:
            waited_s = time.monotonic() - self._begin_s
            self._log.info("%s goes on after %.3f s: %s", self._who, waited_s, outcome)
