"""How busy the host is, by psutil: looked at in the link's thread, never in a training step."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from slackwater.attach.steps import NO_PRESSURE, Pressures
from slackwater.errors import InputError

REFRESH_S = 1.0


class HostPressure:
    """Pressure of the network, of checkpoint storage and of memory, each 0 to 1 or None: unknown.

    Network: bytes a second, sent or received, whichever are more, of all interfaces but loopback,
    as a share of what is given as possible; unknown without that. Storage: the same with bytes read
    and written, or without a figure the share of time in which the busiest disk worked, where the
    kernel keeps it. Memory: the share that is not available. Rates need two looks, a second apart.

    Args:
        network_bytes_per_s: what the network can carry in one direction.
        disk_bytes_per_s: what checkpoint storage can take.
        monotonic: clock for the looks, in seconds.

    Raises `InputError` without psutil, and for a rate that is not above 0.
    """

    def __init__(
        self,
        *,
        network_bytes_per_s: float | None = None,
        disk_bytes_per_s: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import psutil
        except ModuleNotFoundError:
            msg = "HostPressure needs psutil; pip install 'slackwater[pressure]'"
            raise InputError(msg) from None
        rates = {"network_bytes_per_s": network_bytes_per_s, "disk_bytes_per_s": disk_bytes_per_s}
        for name, rate in rates.items():
            if rate is not None and not rate > 0:
                msg = f"{name} is {rate:g}; it must be above 0, or left out where it is unknown"
                raise InputError(msg)
        self._psutil: Any = psutil
        # What psutil raises where a kernel, or a container, does not show the figures.
        self._unknown = (OSError, NotImplementedError, psutil.Error)
        self._network_bytes_per_s = network_bytes_per_s
        self._disk_bytes_per_s = disk_bytes_per_s
        self._monotonic = monotonic
        self._looked_s: float | None = None
        self._counters: dict[str, float] = {}
        self._found = NO_PRESSURE

    def read(self) -> Pressures:
        """Network, checkpoint storage and memory, as they were within the last second."""
        now_s = self._monotonic()
        since_s = None if self._looked_s is None else now_s - self._looked_s
        if since_s is None or since_s >= REFRESH_S:
            # First: a look that fails is not tried again at each step.
            self._looked_s, self._found = now_s, NO_PRESSURE
            before, self._counters = self._counters, self._count()
            self._found = (
                self._network(before, since_s),
                self._disk(before, since_s),
                self._memory(),
            )
        return self._found

    def _network(self, before: dict[str, float], since_s: float | None) -> float | None:
        if self._network_bytes_per_s is None:
            return None
        rates = [self._rate(before, name, since_s) for name in ("sent", "received")]
        known = [rate for rate in rates if rate is not None]
        return _share(max(known) / self._network_bytes_per_s) if known else None

    def _disk(self, before: dict[str, float], since_s: float | None) -> float | None:
        if self._disk_bytes_per_s is not None:
            rate = self._rate(before, "disk", since_s)
            return None if rate is None else _share(rate / self._disk_bytes_per_s)
        busy = [self._rate(before, n, since_s) for n in self._counters if n.startswith("busy/")]
        known = [ms_per_s for ms_per_s in busy if ms_per_s is not None]
        return _share(max(known) / 1000) if known else None

    def _memory(self) -> float | None:
        try:
            memory = self._psutil.virtual_memory()
        except self._unknown:
            return None
        return _share(1.0 - memory.available / memory.total)

    def _rate(self, before: dict[str, float], name: str, since_s: float | None) -> float | None:
        if since_s is None or name not in before or name not in self._counters:
            return None
        grown = self._counters[name] - before[name]
        # An interface or a disk that went took its count with it.
        return grown / since_s if grown >= 0 else None

    def _count(self) -> dict[str, float]:
        """What the kernel counts; nothing of what it does not."""
        return {**self._of_network(), **self._of_disks()}

    def _of_network(self) -> dict[str, float]:
        found: dict[str, float] = {}
        with contextlib.suppress(*self._unknown):
            for nic, counts in self._psutil.net_io_counters(pernic=True).items():
                if nic != "lo":
                    found["sent"] = found.get("sent", 0) + counts.bytes_sent
                    found["received"] = found.get("received", 0) + counts.bytes_recv
        return found

    def _of_disks(self) -> dict[str, float]:
        found: dict[str, float] = {}
        with contextlib.suppress(*self._unknown):
            # Of whole disks: a partition's bytes are its disk's too.
            total = self._psutil.disk_io_counters()
            if total is not None:
                found["disk"] = total.read_bytes + total.write_bytes
            for disk, counts in (self._psutil.disk_io_counters(perdisk=True) or {}).items():
                if hasattr(counts, "busy_time"):
                    found[f"busy/{disk}"] = counts.busy_time
        return found


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
