"""What the plugin costs a real vLLM: latency beside that of a server without it, in pairs.

One server an arm, all alive at once and one loaded at a time, in blocks whose order is drawn anew
each time: what the machine does otherwise meets all arms alike. A second server without the plugin
says how far two equal servers differ. A round starts all servers afresh, since a process has luck
of its own: the interval resamples rounds, the same ones for both sides of a ratio, and is widened
for how few they are.

A machine that stands still makes every high percentile, and meets the arms unevenly. A process that
asks to be woken every 5 ms notes when it was not; "undisturbed" leaves out what was due from half a
second before such a moment to a second after it, in all arms.

    make bench-plugin ARGS="--rounds 6 --blocks 3 --seconds 15"
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import platform
import random
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.effect.intervals import interval
from sidecar.launch import LaunchedVllm
from sidecar.load import VLLM_TOKENS, Endpoint, Outcome, Scheduled, run_open_loop
from slackwater.broker import EmbeddedBroker, free_port
from slackwater.clock import US_PER_S, RunClock
from slackwater.transport import make_topics
from slackwater.vllm.reading import Source
from slackwater.vllm.reporter import Reporter

BARE = "without"
ARMS = (BARE, "without again", "broker up", "broker down", "broker silent")
# Column -> its quantile, and whether of undisturbed requests alone.
QUANTILES = {
    "p50": (0.5, False),
    "p90": (0.9, False),
    "p99": (0.99, False),
    "p99_undisturbed": (0.99, True),
}
WARM_UP_REQUESTS = 20
RESAMPLES = 1_000
PRIORITY = -10
CALLS = 20_000
VOCABULARY = 4096
WIDE = 19

BEAT_S = 0.005
STILL_S = 0.05
"""Woken so much late, a process that wants nothing else was kept from running."""
BEFORE_S, AFTER_S = 0.5, 1.0


@dataclass
class Served:
    """The requests of one block.

    Attributes:
        round: in which it was played.
        latency_s: [n].
        undisturbed: [n] whether each was due far from a standstill.
        still_s: how long each standstill was.
    """

    round: int
    latency_s: list[float]
    undisturbed: list[bool]
    still_s: list[float]


Floats = NDArray[np.float64]
# Arm -> its blocks.
Blocks = dict[str, list[Served]]


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, help="times that all servers are started")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each arm in a round")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a block")
    parser.add_argument("--rate", type=float, default=20.0, help="requests/s, evenly spaced")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("results/plugin.json"))
    options = parser.parse_args()
    blocks: Blocks = {arm: [] for arm in ARMS}
    rng = random.Random(options.seed)
    with Heart() as heart:
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}: starting {len(ARMS)} servers")
            one_round(blocks, options, rng, heart, number)
    result = {
        "schema_version": 2,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "requests_per_arm": sum(len(block.latency_s) for block in blocks[BARE]),
        "undisturbed": {
            arm: sum(sum(block.undisturbed) for block in own) for arm, own in blocks.items()
        },
        "still_s": sorted(s for own in blocks.values() for block in own for s in block.still_s),
        "arms": {arm: against(blocks, arm) for arm in ARMS},
        "record_us": record_us(),
        "blocks": {arm: [asdict(block) for block in own] for arm, own in blocks.items()},
    }
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


class Heart:
    """A process of its own that notes when the machine did not let it run."""

    def __enter__(self) -> Self:
        here, self._there = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=beat, args=(here,), daemon=True
        )
        self._process.start()
        here.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def stood_still_us(self) -> list[tuple[int, int]]:
        """From and until when, epoch microseconds, since the last call."""
        found = []
        while self._there.poll():
            found.append(self._there.recv())
        return found


def beat(said: Connection) -> None:
    """Sleep `BEAT_S` again and again, and say of each time that took `STILL_S` longer."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    to_epoch_ns, last_ns = time.time_ns() - time.monotonic_ns(), time.monotonic_ns()
    while True:
        time.sleep(BEAT_S)
        now_ns = time.monotonic_ns()
        if now_ns - last_ns > (BEAT_S + STILL_S) * 1e9:
            said.send(((last_ns + to_epoch_ns) // 1000, (now_ns + to_epoch_ns) // 1000))
        last_ns = now_ns


def one_round(
    blocks: Blocks,
    options: argparse.Namespace,
    rng: random.Random,
    heart: Heart,
    of_round: int,
) -> None:
    """Start a server an arm, then load them in turns."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedBroker())
        make_topics(broker.bootstrap)
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        kafka = {
            "broker up": broker.bootstrap,
            "broker down": f"127.0.0.1:{free_port()}",
            "broker silent": f"127.0.0.1:{silent.getsockname()[1]}",
        }
        servers = {}
        for arm in ARMS:
            env = {"KAFKA_BOOTSTRAP_SERVERS": kafka.get(arm)}
            env |= {} if arm in kafka else {"VLLM_PLUGINS": ""}
            log = folder / f"{arm.replace(' ', '-')}.log"
            server = LaunchedVllm(log=log, env=env)
            servers[arm] = stack.enter_context(server)
            load(server, WARM_UP_REQUESTS, options.rate, heart, of_round)
            say(f"  {arm}: up")
        for number in range(options.blocks):
            for arm in rng.sample(ARMS, len(ARMS)):
                count = round(options.rate * options.seconds)
                blocks[arm].append(load(servers[arm], count, options.rate, heart, of_round))
            say(f"  block {number + 1} of {options.blocks}")


def load(
    server: LaunchedVllm, count: int, rate_per_s: float, heart: Heart, of_round: int
) -> Served:
    """What became of `count` requests, 64 tokens in and 16 out, at a constant rate."""
    endpoint = Endpoint(
        url=server.base_url, model=server.model, vocabulary=VOCABULARY, extra=VLLM_TOKENS
    )
    due = (Scheduled(f"r{n}", round(n / rate_per_s * US_PER_S)) for n in range(count))
    found: list[Outcome] = []
    asyncio.run(run_open_loop(endpoint, due, on_outcome=found.append))
    latencies = [outcome.e2e_s for outcome in found if outcome.e2e_s is not None]
    if len(latencies) != count:
        ended = sorted({outcome.status for outcome in found})
        msg = f"{count - len(latencies)} of {count} requests did not end well: {ended}"
        raise RuntimeError(msg)
    time.sleep(2 * BEAT_S)
    stills = heart.stood_still_us()
    before_us, after_us = (round(margin_s * US_PER_S) for margin_s in (BEFORE_S, AFTER_S))
    undisturbed = [
        not any(
            since - before_us <= one.scheduled_us <= until + after_us for since, until in stills
        )
        for one in found
    ]
    still_s = [(until - since) / US_PER_S for since, until in stills]
    return Served(of_round, latencies, undisturbed, still_s)


def against(blocks: Blocks, arm: str) -> dict[str, Any]:
    """An arm's quantiles, and their ratios to the bare server's with 95% intervals over rounds."""
    found: dict[str, Any] = {}
    rounds = 1 + max(block.round for block in blocks[arm])
    rng = np.random.default_rng(0)
    drawn = rng.integers(rounds, size=(RESAMPLES, rounds))
    for name, (q, undisturbed) in QUANTILES.items():
        sides = [
            [of_round(blocks[one], number, undisturbed) for number in range(rounds)]
            for one in (arm, BARE)
        ]
        found[f"{name}_s"] = quantile(sides[0], q)
        if arm == BARE:
            continue
        ratios = np.array([ratio(sides, q, chosen) for chosen in drawn])
        told = interval(ratio(sides, q, np.arange(rounds)), ratios, rounds)
        found[f"{name}_ratio"] = None if told is None else asdict(told)
    return found


def of_round(own: list[Served], number: int, undisturbed: bool) -> Floats:
    """Latencies of a round, all or of undisturbed requests."""
    kept = [
        np.array(block.latency_s)[np.array(block.undisturbed) | (not undisturbed)]
        for block in own
        if block.round == number
    ]
    return np.concatenate(kept)


def ratio(sides: list[list[Floats]], q: float, chosen: Any) -> float:
    """Quantile of the first side over that of the second, in these rounds of both."""
    one, other = (quantile([side[i] for i in chosen], q) for side in sides)
    return one / other


def quantile(rounds: list[Floats], q: float) -> float:
    """Of all latencies of some rounds; NaN where there is none."""
    latency_s = np.concatenate(rounds)
    return float(np.quantile(latency_s, q)) if len(latency_s) else np.nan


def record_us() -> dict[str, float]:
    """Microseconds of a call of `record` in an iteration that ended a request, and in others."""
    reporter = Reporter(Source("bench", "bench", RunClock.real()))
    scheduler = SimpleNamespace(num_running_reqs=8, num_waiting_reqs=1, kv_cache_usage=0.5)
    ended = SimpleNamespace(e2e_latency=0.5, request_id="x", finish_reason="stop")
    found = {}
    for name, requests in (("with_a_request", [ended]), ("without", [])):
        taken = []
        for _ in range(CALLS):
            stats = SimpleNamespace(iteration_timestamp=time.time(), finished_requests=requests)
            began = time.perf_counter_ns()
            reporter.record(scheduler, stats)
            taken.append(time.perf_counter_ns() - began)
        found[name] = statistics.median(taken) / 1000
    return found


def show(result: dict[str, Any]) -> None:
    """A table for people."""
    names = [name.replace("_", " ") for name in QUANTILES]
    heads = "".join(f"{name + ' ms':>{WIDE}}" for name in names)
    ratios = "".join(f"  {'ratio of ' + name:<24}" for name in names)
    print(f"{'arm':<14}{heads}{ratios}")
    for arm, row in result["arms"].items():
        own = "".join(f"{row[f'{name}_s'] * 1000:>{WIDE}.1f}" for name in QUANTILES)
        cells = "".join(f"  {shown(row.get(f'{name}_ratio')):<24}" for name in QUANTILES)
        print(f"{arm:<14}{own}{cells}".rstrip())
    cost, still_s = result["record_us"], result["still_s"]
    print(
        f"{result['requests_per_arm']} requests an arm, undisturbed {result['undisturbed']}\n"
        f"the machine stood still {len(still_s)} times, {max(still_s, default=0):.2f} s at most\n"
        f"record(): {cost['with_a_request']:.1f} us where a request ended, "
        f"{cost['without']:.1f} us where none did (medians)"
    )


def shown(figure: dict[str, float | None] | None) -> str:
    """A ratio with its interval, where it has one."""
    if figure is None:
        return ""
    if figure["low"] is None:
        return f"{figure['value']:.3f}"
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
