"""What the plugin costs a real vLLM: latency beside that of a server without it, in pairs.

One server an arm, all alive at once and one loaded at a time, in blocks whose order is drawn anew
each time: what the machine does otherwise meets all arms alike. A second server without the plugin
says how far two equal servers differ. A round starts all servers afresh, since a process has luck
of its own: the interval resamples rounds, the same ones for both sides of a ratio, and is widened
for how few they are.

The first two seconds of a block are sent and not counted: a server that was not asked for a minute
takes up to one to get its memory back, and these few requests would make every high percentile.

    make bench-plugin ARGS="--rounds 6 --blocks 3 --seconds 15"
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
SETTLE_S = 2.0
WARM_UP_REQUESTS = 20
RESAMPLES = 1_000
CALLS = 20_000
VOCABULARY = 4096

Floats = NDArray[np.float64]
# Arm -> latencies in seconds of each of its rounds.
Rounds = dict[str, list[Floats]]


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
    rounds: Rounds = {arm: [] for arm in ARMS}
    rng = random.Random(options.seed)
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}: starting {len(ARMS)} servers")
        for arm, latency_s in one_round(options, rng).items():
            rounds[arm].append(latency_s)
    result = {
        "schema_version": 2,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "requests_per_arm": sum(map(len, rounds[BARE])),
        "arms": {arm: against(rounds, arm) for arm in ARMS},
        "record_us": record_us(),
        "latency_s": {arm: [one.tolist() for one in own] for arm, own in rounds.items()},
    }
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def one_round(options: argparse.Namespace, rng: random.Random) -> dict[str, Floats]:
    """Start a server an arm, then load them in turns; latencies by arm."""
    found: dict[str, list[float]] = {arm: [] for arm in ARMS}
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
            load(server, WARM_UP_REQUESTS, options.rate)
            say(f"  {arm}: up")
        for number in range(options.blocks):
            for arm in rng.sample(ARMS, len(ARMS)):
                count = round(options.rate * options.seconds)
                found[arm] += load(servers[arm], count, options.rate)
            say(f"  block {number + 1} of {options.blocks}")
    return {arm: np.array(latencies_s) for arm, latencies_s in found.items()}


def load(server: LaunchedVllm, count: int, rate_per_s: float) -> list[float]:
    """Latencies in seconds of `count` requests, 64 tokens in and 16 out, at a constant rate.

    Those that are due while the server settles are left out.
    """
    endpoint = Endpoint(
        url=server.base_url, model=server.model, vocabulary=VOCABULARY, extra=VLLM_TOKENS
    )
    due = (Scheduled(f"r{n}", round(n / rate_per_s * US_PER_S)) for n in range(count))
    found: list[Outcome] = []
    asyncio.run(run_open_loop(endpoint, due, on_outcome=found.append))
    if wrong := sorted({outcome.status for outcome in found if outcome.status != "ok"}):
        msg = f"not all of {count} requests ended well: {wrong}"
        raise RuntimeError(msg)
    settled_us = min(one.scheduled_us for one in found) + round(SETTLE_S * US_PER_S)
    kept = [one.e2e_s for one in found if one.scheduled_us >= settled_us]
    return [latency_s for latency_s in kept if latency_s is not None]


def against(rounds: Rounds, arm: str) -> dict[str, Any]:
    """An arm's quantiles, and their ratios to the bare server's with 95% intervals over rounds."""
    found: dict[str, Any] = {}
    count = len(rounds[arm])
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    for name, q in QUANTILES.items():
        found[f"{name}_s"] = float(np.quantile(np.concatenate(rounds[arm]), q))
        if arm == BARE:
            continue
        ratios = np.array([ratio(rounds, arm, q, chosen) for chosen in drawn])
        told = interval(ratio(rounds, arm, q, np.arange(count)), ratios, count)
        found[f"{name}_ratio"] = None if told is None else asdict(told)
    return found


def ratio(rounds: Rounds, arm: str, q: float, chosen: Any) -> float:
    """Quantile of an arm over that of the bare server, in these rounds of both."""
    one, other = (np.concatenate([rounds[a][i] for i in chosen]) for a in (arm, BARE))
    return float(np.quantile(one, q) / np.quantile(other, q))


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
    heads = "".join(f"{name + ' ms':>9}" for name in QUANTILES)
    ratios = "".join(f"  {'ratio of ' + name:<24}" for name in QUANTILES)
    print(f"{'arm':<14}{heads}{ratios}")
    for arm, row in result["arms"].items():
        own = "".join(f"{row[f'{name}_s'] * 1000:>9.1f}" for name in QUANTILES)
        cells = "".join(f"  {shown(row.get(f'{name}_ratio')):<24}" for name in QUANTILES)
        print(f"{arm:<14}{own}{cells}".rstrip())
    cost = result["record_us"]
    print(
        f"{result['requests_per_arm']} requests an arm; record(): {cost['with_a_request']:.1f} us "
        f"where a request ended, {cost['without']:.1f} us where none did (medians)"
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
