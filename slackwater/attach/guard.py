"""Faults of the attach client stay inside it."""

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("slackwater.attach")


def never_raises(method: Callable[P, R]) -> Callable[P, R | None]:
    """Log and count what a method raises, in its object's `errors`, and return None instead.

    The training run that is watched must not end by a fault of the watcher.
    """

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception:
            self: Any = args[0]
            self.errors += 1
            log.exception("attachment: %s failed; training goes on", method.__name__)
            return None

    return guarded
