"""Produces valid, distinct requests as fast as asked, for benchmarks of what comes after.

Encoding is done once: each micro-batch is a fixed block of encoded lines in which only the digits
of id, arrival and end are rewritten, a column of bytes at a time. Every request is as its
schema says, every id is used once, and the times of a sidecar follow the clock without going back
(requests that end in the same microsecond share it).
"""

import contextlib
import time
from typing import NamedTuple

import msgspec
import numpy as np
from kafka import KafkaProducer
from kafka.errors import KafkaError
from numpy.typing import NDArray

from replay_producer.trace import Ints
from slackwater.clock import US_PER_S, RunClock
from slackwater.codec import encode
from slackwater.errors import BrokerError, InputError
from slackwater.events import Request
from slackwater.topics import REQUESTS
from slackwater.transport import BOOTSTRAP_TIMEOUT_MS, DELIVERY_TIMEOUT_MS

BATCH_EVENTS = 256
TIME_DIGITS = 16
ID_DIGITS = 12
SLICE_S = 0.02
# Few kinds of request keep gzip and kafka-python's checksum (pure Python) cheap.
KINDS = 32
FLUSH_LIMIT_S = 30.0

Bytes = NDArray[np.uint8]

# The decimal digits of 0 to 9999, shape (10000, 4), as ASCII.
FOUR_DIGITS: Bytes = np.frombuffer(b"".join(b"%04d" % i for i in range(10_000)), np.uint8).reshape(
    -1, 4
)


class FloodReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a flood produced; `rate_per_s` is acknowledged requests in a second of wall time."""

    requests: int
    acked: int
    failed: int
    seconds: float
    rate_per_s: float


class _Kind(NamedTuple):
    """What one request asks for and how long it took."""

    e2e_us: int
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "_Kind":
        e2e_ms, prompt, output = rng.integers([300, 50, 10], [700, 2000, 200])
        return cls(int(e2e_ms) * 1000, int(prompt), int(output))

    def line(self, run_id: str, sidecar: str) -> bytes:
        """The request encoded, with an id and times of the widths that will be rewritten."""
        arrival_us = 10 ** (TIME_DIGITS - 1)
        first_us = 20_000 + self.prompt_tokens * 50
        event = Request(
            run_id=run_id,
            at_us=arrival_us + self.e2e_us,
            sidecar=sidecar,
            id="0" * ID_DIGITS,
            arrival_us=arrival_us,
            status="ok",
            ttft_s=first_us / US_PER_S,
            e2e_s=self.e2e_us / US_PER_S,
            queue_s=0.0,
            prefill_s=first_us / US_PER_S,
            decode_s=(self.e2e_us - first_us) / US_PER_S,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )
        return encode(event)


class Block:
    """The encoded lines of one sidecar's micro-batch, with digits to be rewritten.

    Args:
        run_id: carried by every request.
        sidecar: the sidecar's name.
        events: lines in the block.
        seed: of the latencies and lengths, which stay the same from block to block.
    """

    def __init__(
        self, run_id: str, sidecar: str, events: int = BATCH_EVENTS, seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        kinds = [_Kind.draw(rng) for _ in range(KINDS)]
        mixed = [kinds[i % KINDS] for i in range(events)]
        self._e2e_us: Ints = np.array([kind.e2e_us for kind in mixed])
        lines = [kind.line(run_id, sidecar) for kind in mixed]
        self._buffer: Bytes = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8).copy()
        starts = np.cumsum([0] + [len(line) + 1 for line in lines[:-1]])
        self._at = _columns(starts, lines, b'"at_us":', TIME_DIGITS)
        self._arrival = _columns(starts, lines, b'"arrival_us":', TIME_DIGITS)
        self._id = _columns(starts, lines, b'"id":"', ID_DIGITS)

    def fill(self, first_id: int, at_us: Ints) -> bytes:
        """The lines for requests `first_id`, `first_id + 1`... that end at `at_us`, shape (n,)."""
        self._write(self._at, at_us)
        self._write(self._arrival, at_us - self._e2e_us)
        self._write(self._id, np.arange(first_id, first_id + len(at_us)))
        return self._buffer.tobytes()

    def _write(self, columns: Ints, values: Ints) -> None:
        rest = values
        for place in range(columns.shape[1] - 4, -1, -4):
            rest, four = np.divmod(rest, 10_000)
            self._buffer[columns[:, place : place + 4]] = FOUR_DIGITS[four]


def _columns(starts: Ints, lines: list[bytes], field: bytes, digits: int) -> Ints:
    first = starts + np.array([line.index(field) + len(field) for line in lines])
    columns: Ints = first[:, None] + np.arange(digits)
    return columns


def flood(
    bootstrap: str,
    prefix: str,
    run_id: str,
    *,
    rate_per_s: float | None,
    duration_s: float,
    sidecars: int = 4,
    first_id: int = 0,
    clock: RunClock | None = None,
) -> FloodReport:
    """Produce requests for `duration_s` seconds of wall time and wait until they are acknowledged.

    Args:
        bootstrap: Kafka bootstrap servers.
        prefix: what topic names start with.
        run_id: carried by every request.
        rate_per_s: requests a second over all sidecars, in multiples of 256; None for as many as
            go.
        duration_s: wall seconds.
        sidecars: `sidecar-0`, `sidecar-1`... take turns.
        first_id: id of the first request; lets several processes keep apart.
        clock: event time, the wall's if None.

    Raises:
        InputError: a rate, duration or number out of range.
        BrokerError: no broker answers, or it stopped taking messages.
    """
    _check(rate_per_s, duration_s, sidecars)
    sender = _Sender(bootstrap, REQUESTS.name(prefix))
    blocks = [(f"sidecar-{i}", Block(run_id, f"sidecar-{i}", seed=i)) for i in range(sidecars)]
    clock = clock or RunClock.real()
    last_us = dict.fromkeys(range(sidecars), clock.now_us())
    produced, began_s = 0, time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < duration_s:
        if rate_per_s is not None and produced > elapsed_s * rate_per_s:
            time.sleep(min(SLICE_S, produced / rate_per_s - elapsed_s))
            continue
        turn = produced // BATCH_EVENTS % sidecars
        key, block = blocks[turn]
        # A clock that has not moved since the sidecar's last batch must not make time go back.
        now_us = max(clock.now_us(), last_us[turn])
        at_us = np.linspace(last_us[turn], now_us, BATCH_EVENTS).astype(np.int64)
        last_us[turn] = now_us
        sender.send(key, block.fill(first_id + produced, at_us))
        produced += BATCH_EVENTS
    return sender.finish(began_s)


def _check(rate_per_s: float | None, duration_s: float, sidecars: int) -> None:
    for name, value in (("rate", rate_per_s), ("duration", duration_s), ("sidecars", sidecars)):
        if value is not None and not 0 < value < np.inf:
            msg = f"{name} is {value}; it must be above 0"
            raise InputError(msg)


class _Sender:
    """kafka-python's producer, counting acknowledged and failed requests."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
                acks="all",
                linger_ms=0,
                batch_size=256 * 1024,
                compression_type="gzip",
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            )
        except (KafkaError, ValueError, OSError) as error:
            msg = f"no Kafka broker answers at {bootstrap}; start it, or correct the address"
            raise BrokerError(msg) from error
        self._topic = topic
        self._sent = 0
        self._acked = 0

    def send(self, key: str, value: bytes) -> None:
        """Send one micro-batch; waits while kafka-python's buffer is full."""
        try:
            future = self._producer.send(self._topic, key=key.encode(), value=value)
        except KafkaError as error:
            msg = f"the broker no longer takes messages: {error}"
            raise BrokerError(msg) from error
        self._sent += BATCH_EVENTS
        future.add_callback(self._on_ack)

    def finish(self, began_s: float) -> FloodReport:
        """Wait for what is on its way and report."""
        with contextlib.suppress(KafkaError):
            self._producer.flush(timeout=FLUSH_LIMIT_S)
        seconds = time.monotonic() - began_s
        self._producer.close(timeout=1)
        return FloodReport(
            requests=self._sent,
            acked=self._acked,
            failed=self._sent - self._acked,
            seconds=seconds,
            rate_per_s=self._acked / seconds,
        )

    def _on_ack(self, _metadata: object) -> None:
        self._acked += BATCH_EVENTS
