"""How hard the host is pressed: the kernel's own stall figures, or None where it keeps none."""

import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path("/proc/pressure")
REFRESH_S = 1.0


class StallShare:
    """Share of the last ten seconds in which some task stood still for want of a resource.

    Read from Linux's pressure stall information, at most once in `REFRESH_S` of wall time, so a
    training loop may ask at every step.

    Args:
        resource: `io` for what a checkpoint competes for, `memory`.
        folder: where the kernel shows the figures.
        monotonic: clock for the refresh.
    """

    def __init__(
        self,
        resource: str,
        folder: Path = FOLDER,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / resource
        self._monotonic = monotonic
        self._until = float("-inf")
        self._share: float | None = None

    def read(self) -> float | None:
        """The share, 0 to 1; None when the kernel does not say."""
        if self._monotonic() >= self._until:
            self._until = self._monotonic() + REFRESH_S
            self._share = _some_avg10(self._path)
        return self._share


def _some_avg10(path: Path) -> float | None:
    try:
        first = path.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    fields = dict(part.split("=") for part in first.split()[1:])
    return float(fields["avg10"]) / 100 if "avg10" in fields else None
