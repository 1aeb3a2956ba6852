"""Requests per second end to end: produced, through Faust, committed in DuckDB.

`python -m bench.pipeline [--rate 50000] [--duration 30] [--json FILE]`

One process floods the requests topic with micro-batches of 256 distinct requests at a steady
rate, on the embedded broker. The stream job runs with all its roles. Every second the run log is
asked how many requests it holds; what is acknowledged and not yet there is the lag. Then, on the
same messages, a peer: the same consumer without Faust (confluent-kafka, msgspec, DuckDB, one
loop), and Faust's job again with nothing to wait for, both draining the full topic.
"""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from replay_producer.flood import flood
from slackwater.broker import EmbeddedBroker
from slackwater.codec import Codec
from slackwater.livequery import query
from slackwater.topics import REQUESTS
from slackwater.transport import make_topics
from streams.runlog.log import RunLog

PARTITIONS = 4
RUN_ID = "bench"
SETTLE_S = 20.0
GROWING_EVENTS_PER_S = 0.02


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=50_000, help="requests/s offered")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds")
    parser.add_argument("--json", type=Path, default=Path("results/pipeline.json"))
    options = parser.parse_args()
    result = bench(options.rate, options.duration)
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def bench(rate_per_s: float, duration_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker() as broker:
        folder = Path(name)
        make_topics(broker.bootstrap, partitions=PARTITIONS)
        live = paced(broker.bootstrap, folder, rate_per_s, duration_s)
        total = live["acknowledged"]
        faust = drain_with_faust(broker.bootstrap, folder, total)
        plain = drain_plain(broker.bootstrap, folder, total)
    return {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "offered_per_s": rate_per_s,
        "duration_s": duration_s,
        "paced": live,
        "drain_faust_per_s": faust,
        "drain_plain_per_s": plain,
        "faust_over_plain": faust / plain,
    }


def paced(bootstrap: str, folder: Path, rate_per_s: float, duration_s: float) -> dict[str, Any]:
    """Offer a steady rate and watch the log fill."""
    db = folder / "paced.duckdb"
    stream = start_stream(bootstrap, folder, db, "latest")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        producing = pool.apply_async(produce, (bootstrap, rate_per_s, duration_s))
        began, samples = time.monotonic(), []
        while not producing.ready():
            samples.append((time.monotonic() - began, committed(db)))
            time.sleep(1.0)
        report = producing.get()
    ended = wait_for(db, report.acked)
    usage = cpu_seconds(stream.pid)
    stop(stream)
    times, counts = np.array(samples[3:]).T
    lag = times * report.rate_per_s - counts
    slope = float(np.polyfit(times, lag, 1)[0])
    return {
        "acknowledged": report.acked,
        "failed": report.failed,
        "produced_per_s": report.rate_per_s,
        "committed_per_s": report.acked / (ended - began),
        "lag_slope_per_s": slope,
        "lag_grows": slope > GROWING_EVENTS_PER_S * rate_per_s,
        "lag_max_events": float(lag.max() - lag.min()),
        "stream_cpu_share": usage / (ended - began),
    }


def produce(bootstrap: str, rate_per_s: float, duration_s: float) -> Any:
    return flood(
        bootstrap, "slackwater", RUN_ID, rate_per_s=rate_per_s, duration_s=duration_s, sidecars=8
    )


def drain_with_faust(bootstrap: str, folder: Path, total: int) -> float:
    """The stream job on a full topic: rows a second from the first to the last commit."""
    db = folder / "drain.duckdb"
    stream = start_stream(bootstrap, folder, db, "earliest")
    began = time.monotonic()
    already = committed(db)
    ended = wait_for(db, total)
    stop(stream)
    return (total - already) / (ended - began)


def drain_plain(bootstrap: str, folder: Path, total: int) -> float:
    """The peer: one loop of confluent-kafka, msgspec and the same run log, nothing counted."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "plain", "fetch.wait.max.ms": 10}
    )
    name = REQUESTS.name()
    consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
    codec, rows = Codec(REQUESTS), 0
    with RunLog(folder / "plain.duckdb", RUN_ID) as log:
        began = time.monotonic()
        while rows < total:
            for message in consumer.consume(64, timeout=0.5):
                events = codec.decode(message.value()).events
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                log.append(events, topic=name, partition=partition, offset=offset)
            rows += log.commit()
        seconds = time.monotonic() - began
    consumer.close()
    return total / seconds


def start_stream(bootstrap: str, folder: Path, db: Path, reset: str) -> subprocess.Popen[bytes]:
    ready = folder / f"{db.stem}.ready"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "slackwater", "stream", "--db", str(db)),
            *("--ready-file", str(ready), "--offset-reset", reset),
            *("--partitions", str(PARTITIONS)),
        ],
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap, "SLACKWATER_RUN_ID": RUN_ID},
    )
    while not ready.exists():
        if process.poll() is not None:
            sys.exit("the stream job did not start")
        time.sleep(0.02)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def committed(db: Path) -> int:
    count: int = query(db, "SELECT count(*) AS n FROM requests").column("n")[0].as_py()
    return count


def wait_for(db: Path, total: int) -> float:
    """When the log held `total` requests; exits with what is missing if it never does."""
    newest, seen_at = -1, time.monotonic()
    while (count := committed(db)) < total:
        if count > newest:
            newest, seen_at = count, time.monotonic()
        if time.monotonic() - seen_at > SETTLE_S:
            sys.exit(f"{total - count} of {total} requests never reached the run log")
        time.sleep(0.05)
    return time.monotonic()


def cpu_seconds(pid: int) -> float:
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def show(result: dict[str, Any]) -> None:
    live = result["paced"]
    table = Table(title=f"End to end, {result['offered_per_s']:,.0f} requests/s offered")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_row("acknowledged by the broker", f"{live['acknowledged']:,}")
    table.add_row("produced, requests/s", f"{live['produced_per_s']:,.0f}")
    table.add_row("committed in DuckDB, requests/s", f"{live['committed_per_s']:,.0f}")
    table.add_row("lag slope, requests/s", f"{live['lag_slope_per_s']:,.0f}")
    table.add_row("lag grows", "yes" if live["lag_grows"] else "no")
    table.add_row("stream job, CPU cores", f"{live['stream_cpu_share']:.2f}")
    table.add_row("draining a full topic, requests/s", f"{result['drain_faust_per_s']:,.0f}")
    table.add_row("the same without Faust, requests/s", f"{result['drain_plain_per_s']:,.0f}")
    table.add_row("ratio, with Faust to without", f"{result['faust_over_plain']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
