"""What reporting a step costs a training loop, with the broker up, down and flapping.

    python -m bench.attach

One call of `Attachment.on_step` after another: in a tight loop, after a sleep, and after a stretch
of work that leaves nothing of the client in the caches, as a training step on the CPU does. Its
peers, called in turn with it in the same loop: a method that does nothing, and one that puts its
arguments into a bounded queue under a lock, which is the least that reporting can do. Microseconds
of wall time a call, the clock's own reading included. Writes `results/attach.json`.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slackwater import __version__
from slackwater.attach import Attachment, Corridor
from slackwater.broker import EmbeddedBroker, free_port
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from slackwater.transport import make_topics

RESULTS = Path("results/attach.json")
LIMIT_US = 20.0
PAUSE_S = 0.01
FLAP_S = 1.5
# Larger than the last cache of most hosts.
SWEPT_BYTES = 64 << 20

Call = Callable[..., object]


class Noop:
    """What any call costs."""

    def on_step(self, step: int, loss: float | None, tokens: int, **other: float | None) -> None:
        """Do nothing."""


class Queue:
    """The least that reporting can be: keep the arguments for another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[object] = deque(maxlen=10_000)

    def on_step(self, step: int, loss: float | None, tokens: int, **other: float | None) -> None:
        """Keep them."""
        with self._lock:
            self._kept.append((time.time_ns(), step, loss, tokens, other))


class Pauses:
    """What a training loop does between two reports."""

    def __init__(self) -> None:
        self._swept = np.zeros(SWEPT_BYTES // 8)

    def loop(self) -> None:
        """Nothing: a tight loop."""

    def sleep(self) -> None:
        """The accelerator works, the CPU waits."""
        time.sleep(PAUSE_S)

    def work(self) -> None:
        """The CPU works through more memory than its caches hold."""
        self._swept += 1.0


def measure(calls: Mapping[str, Call], pause: Callable[[], None], number: int) -> dict[str, Any]:
    """Call each `number` times, in turn, a pause before each; microseconds by name."""
    spent: dict[str, list[int]] = {name: [] for name in calls}
    for step in range(1, number + 1):
        for name, call in calls.items():
            pause()
            began = time.perf_counter_ns()
            call(step, 2.5, 4096)
            spent[name].append(time.perf_counter_ns() - began)
    found = {name: _figures(took) for name, took in spent.items()}
    for name in ("noop", "queue"):
        ratio = found["on_step"]["median_us"] / found[name]["median_us"]
        found["on_step"][f"median_over_{name}"] = round(ratio, 2)
    return found


def _figures(took_ns: list[int]) -> dict[str, float]:
    cuts = statistics.quantiles(took_ns, n=100)
    return {"median_us": cuts[49] / 1000, "p99_us": cuts[98] / 1000, "max_us": max(took_ns) / 1000}


@contextmanager
def broker_up() -> Iterator[int]:
    """A broker that answers; its port."""
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap)
        yield int(broker.bootstrap.rpartition(":")[2])


@contextmanager
def broker_down() -> Iterator[int]:
    """A port at which nothing listens."""
    yield free_port()


@contextmanager
def broker_flapping() -> Iterator[int]:
    """A broker that is killed and started anew every few seconds."""
    port, over = free_port(), threading.Event()

    def flap() -> None:
        while not over.is_set():
            with EmbeddedBroker(port) as broker:
                # The client may have been first to ask for one, which makes it.
                with contextlib.suppress(InputError):
                    make_topics(broker.bootstrap)
                over.wait(FLAP_S)
            over.wait(FLAP_S)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield port
    finally:
        over.set()
        thread.join()


BROKERS = {"up": broker_up, "down": broker_down, "flapping": broker_flapping}


def run(in_loop: int, after_pause: int) -> dict[str, Any]:
    """Everything; by state of the broker, then by what is between two calls."""
    pauses, found = Pauses(), {}
    numbers = {"loop": in_loop, "sleep": after_pause, "work": after_pause}
    for state, broker in BROKERS.items():
        with broker() as port:
            settings = RunSettings(bootstrap=f"127.0.0.1:{port}", run_id="bench")
            corridor, clock = Corridor(128, 1 << 40), RunClock.real()
            with Attachment(settings, "learner-0", ["learner-0"], corridor, clock) as attachment:
                calls: dict[str, Call] = {
                    "noop": Noop().on_step,
                    "queue": Queue().on_step,
                    "on_step": attachment.on_step,
                }
                found[state] = {
                    name: measure(calls, getattr(pauses, name), number)
                    for name, number in numbers.items()
                }
            summary = attachment.summary()
            found[state]["events"] = {"acked": summary.acked, "dropped": summary.dropped}
            assert summary.errors == 0
        show(state, found[state])
    return found


def show(state: str, found: dict[str, Any]) -> None:
    """A line for each way to call."""
    for name in ("loop", "sleep", "work"):
        own, queue, noop = (found[name][call] for call in ("on_step", "queue", "noop"))
        print(
            f"broker {state:8}  {name:5}  on_step median {own['median_us']:6.1f} us, p99 "
            f"{own['p99_us']:7.1f}; queue {queue['median_us']:5.1f}, {queue['p99_us']:6.1f}; no-op "
            f"{noop['median_us']:5.1f}, {noop['p99_us']:6.1f}; {own['median_over_queue']:.1f} x "
            f"queue, {own['median_over_noop']:.1f} x no-op",
            flush=True,
        )


def main() -> None:
    """Measure, print, write; fails where a median is above the limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--loop", type=int, default=20_000, help="calls in a tight loop")
    options.add_argument("--pauses", type=int, default=300, help="calls after a pause")
    given = options.parse_args()
    found = run(given.loop, given.pauses)
    medians = [found[s][name]["on_step"]["median_us"] for s in found for name in numbers_of(found)]
    RESULTS.parent.mkdir(exist_ok=True)
    written = {
        "schema_version": 1,
        "slackwater_version": __version__,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "load_average": os.getloadavg(),
        "pause_s": PAUSE_S,
        "swept_bytes": SWEPT_BYTES,
        "limit_us": LIMIT_US,
        "within_limit": max(medians) <= LIMIT_US,
        "broker": found,
    }
    RESULTS.write_text(json.dumps(written, indent=2) + "\n")
    print(f"largest median {max(medians):.1f} us, limit {LIMIT_US:g}; {RESULTS}")
    if max(medians) > LIMIT_US:
        raise SystemExit(1)


def numbers_of(found: dict[str, Any]) -> list[str]:
    """The names of the ways to call."""
    return [name for name in next(iter(found.values())) if name != "events"]


if __name__ == "__main__":
    main()
