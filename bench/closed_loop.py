"""Does the `closed_loop` model say what merges do to a real closed-loop client?

    make bench-closed-loop ARGS="--rounds 12 --seconds 15"

Blocks of learners that merge and of learners that do not, in random order, on one real vLLM; the
client of the paper keeps a batch of requests at the server, the next when all are back. From the
blocks come the model's figures, made as `slackwater calibrate` makes those of a profile: how long
batches take without merges, how long those that start in a window, and the mean window. The model
then plays the same blocks with the windows where they were, and its excess violation is set beside
the measured one. It never plays what it was made from: the figures of even rounds play the odd
ones, and the other way round.

Intervals resample rounds, a block of each kind, within the two halves and widened for the rounds of
one: a host that changes its speed from one half minute to the next changes both kinds. Of each draw
measured and modelled excess are taken, the figures of the model made anew from it. The objective is
fixed: the 95th percentile of the batches without merges unless it is given.
"""

import argparse
import json
import math
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibration.effect.intervals import interval
from calibration.effect.spread import spread
from calibration.serving.closed_loop import ClosedLoop
from calibration.serving.concurrency import BurstSchedule
from calibration.serving.contract import requests_of, windows_of
from sidecar.experiment.led import Learners, LedLearners
from sidecar.experiment.record import Merge
from sidecar.launch import PYTHON, LaunchedVllm
from sidecar.load import VLLM_TOKENS, Anchor, Bursts, Endpoint, Outcome, start_closed_loop
from slackwater.clock import US_PER_S

RESAMPLES = 500
WARM_UP_MERGES = 2
PAUSE_S = (1.0, 4.0)
VOCABULARY = 4096
MS = 1000


@dataclass(frozen=True)
class Batch:
    """One batch: seconds from its block's start, how long until the last answer, how many.

    `took_s` is None where not all of it was answered.
    """

    start_s: float
    took_s: float | None
    requests: int

    @property
    def time_s(self) -> float:
        """How long it took; for ever where it was not answered whole."""
        return np.inf if self.took_s is None else self.took_s


@dataclass
class Block:
    """What one block saw: windows as seconds from its start, batches, and outcomes by status."""

    merging: bool
    length_s: float
    windows: list[tuple[float, float]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """One merge with all up to the next one, or a block without merges."""

    batches: tuple[Batch, ...]
    window_s: float | None
    length_s: float


def main() -> None:
    """Measure, model, print, write JSON."""
    options = asked()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    # On the disk of the result: learners sync their checkpoints, and /tmp may be memory.
    with tempfile.TemporaryDirectory(prefix=".closed-loop-", dir=options.json.parent) as folder:
        blocks = play(options, Path(folder))
    found: dict[str, Any] = {
        "schema_version": 2,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "blocks": [asdict(block) for block in blocks],
    }
    # What was measured is kept, whatever can be said of it.
    write(found, options.json)
    found |= compared(blocks, options)
    write(found, options.json)
    show(found)


def write(found: dict[str, Any], path: Path) -> None:
    """As JSON."""
    path.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n")


def asked() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="blocks of each kind")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a block")
    parser.add_argument("--at-a-time", type=int, default=4, help="requests in a batch")
    parser.add_argument("--slo", type=float, help="seconds a batch may take")
    parser.add_argument("--parameters", type=float, default=16e6, help="of each learner's model")
    parser.add_argument("--vllm-python", type=Path, default=PYTHON)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("results/closed-loop.json"))
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be 2 or more: the model plays what it was not made from")
    return options


def play(options: argparse.Namespace, folder: Path) -> list[Block]:
    """All blocks, after merges that nobody measures."""
    rng, anchor = np.random.default_rng(options.seed), Anchor.now()
    learners = Learners(parameters=round(options.parameters), seed=options.seed)
    led = LedLearners(learners, anchor, folder)
    blocks: list[Block] = []
    with LaunchedVllm(options.vllm_python, log=folder / "vllm.log") as server:
        endpoint = Endpoint(
            url=server.base_url, model=server.model, vocabulary=VOCABULARY, extra=VLLM_TOKENS
        )
        led.start(nothing)
        try:
            led.train(nothing)
            one_block(led, endpoint, options, rng, anchor, merges=WARM_UP_MERGES)
            for _ in range(options.rounds):
                for merging in rng.permutation([True, False]):
                    blocks.append(
                        one_block(
                            led, endpoint, options, rng, anchor, merges=None if merging else 0
                        )
                    )
                    print(f"block {len(blocks)} of {2 * options.rounds}", flush=True)
        finally:
            led.stop()
    return blocks


def nothing() -> None:
    """Nobody interrupts."""


def one_block(
    led: LedLearners,
    endpoint: Endpoint,
    options: argparse.Namespace,
    rng: np.random.Generator,
    anchor: Anchor,
    *,
    merges: int | None,
) -> Block:
    """Batches for as long as a block lasts, and `merges` merges beside them; None: all that fit."""
    block = Block(merges != 0, options.seconds)
    outcomes: list[Outcome] = []
    began_s = time.monotonic()
    load = start_closed_loop(
        endpoint,
        Bursts(quiet=options.at_a_time, busy=options.at_a_time),
        duration_s=options.seconds,
        on_outcome=outcomes.append,
        anchor=anchor,
    )
    made: list[Merge] = []
    last_s = 0.0
    while merges is None or len(made) < merges:
        pause_s = float(rng.uniform(*PAUSE_S))
        if time.monotonic() + pause_s + last_s > began_s + options.seconds:
            break
        time.sleep(pause_s)
        made.append(led.merge(f"m{time.monotonic_ns()}", nothing))
        last_s = (made[-1].end_us - made[-1].start_us) / US_PER_S
    report = load.result()
    block.windows = [
        ((m.start_us - report.started_us) / US_PER_S, (m.end_us - report.started_us) / US_PER_S)
        for m in made
        if m.done
    ]
    block.batches = batches_of(outcomes, report.started_us)
    block.statuses = dict(Counter(one.status for one in outcomes))
    return block


def batches_of(outcomes: Sequence[Outcome], started_us: int) -> list[Batch]:
    """Batches in order."""
    by_number: dict[int, list[Outcome]] = {}
    for one in outcomes:
        by_number.setdefault(one.batch if one.batch is not None else -1, []).append(one)
    found = []
    for _, own in sorted(by_number.items()):
        start_us = own[0].scheduled_us
        whole = all(one.status == "ok" for one in own)
        took_s = (max(one.ended_us for one in own) - start_us) / US_PER_S if whole else None
        found.append(Batch((start_us - started_us) / US_PER_S, took_s, len(own)))
    return found


def pieces(block: Block) -> list[Piece]:
    """A block's merges, or its whole; batches count from their piece's start.

    What is sent before the first merge of a block belongs to nobody's merge and is left out.
    """
    if block.merging:
        starts = [low for low, _ in block.windows]
        spans: list[float | None] = [high - low for low, high in block.windows]
    else:
        starts, spans = [0.0], [None]
    found = []
    for start, end, span in zip(starts, [*starts[1:], block.length_s], spans, strict=True):
        own = [b for b in block.batches if start <= b.start_s < end]
        moved = tuple(Batch(b.start_s - start, b.took_s, b.requests) for b in own)
        found.append(Piece(moved, span, end - start))
    return found


@dataclass(frozen=True)
class Round:
    """What is resampled: the pieces of two blocks that were played one after the other."""

    merging: list[Piece]
    without: list[Piece]

    @classmethod
    def of(cls, one: Block, other: Block) -> "Round":
        """The round of a block of each kind, in whatever order they were played."""
        merging, without = (one, other) if one.merging else (other, one)
        return cls(pieces(merging), pieces(without))


@dataclass(frozen=True)
class Said:
    """Excess violation, measured and modelled, and the figures of the model of all rounds."""

    measured: float
    modelled: float
    rate: float
    base_rate: float
    batch_s: float
    slowed_batch_s: float
    window_s: float


@dataclass(frozen=True)
class Known:
    """What the model is made from: the client's figures and the mean window."""

    client: ClosedLoop
    window_s: float


def usual_s(rounds: Sequence[Round]) -> list[float]:
    """What the batches without merges took."""
    return [b.time_s for one in rounds for p in one.without for b in p.batches]


def known(rounds: Sequence[Round], at_a_time: int) -> Known:
    """The figures that these rounds give; raises `ArithmeticError` where they give none."""
    merging, _ = of_both(rounds)
    windows_s = [p.window_s for p in merging if p.window_s is not None]
    slowed = spread(
        [b.time_s for p in merging for b in p.batches if b.start_s < (p.window_s or 0.0)]
    )
    usual = spread(usual_s(rounds))
    if usual is None or slowed is None:
        msg = "no batch started in a window, or a hundredth was not answered; take longer blocks"
        raise ArithmeticError(msg)
    client = ClosedLoop(
        batch_s=usual.mean_s,
        slowed_batch_s=max(usual.mean_s, slowed.mean_s),
        schedule=BurstSchedule(at_a_time, at_a_time, period_s=1.0, burst_s=0.0),
        scatter=usual.scatter,
        slowed_scatter=slowed.scatter,
    )
    return Known(client, float(np.mean(windows_s)))


def say(halves: Sequence[Sequence[Round]], slo_s: float, at_a_time: int) -> Said:
    """Measured excess of all rounds, and what the model of each half says of the other one."""
    rounds = [one for half in halves for one in half]
    rate, base_rate = (violating(own, slo_s) for own in of_both(rounds))
    sent, excess = 0, 0.0
    for played, others in (halves, halves[::-1]):
        own_sent, own_excess = expected(of_both(played)[0], known(others, at_a_time), slo_s)
        sent, excess = sent + own_sent, excess + own_excess
    every = known(rounds, at_a_time)
    return Said(
        measured=rate - base_rate,
        modelled=excess / sent if sent else float("nan"),
        rate=rate,
        base_rate=base_rate,
        batch_s=every.client.batch_s,
        slowed_batch_s=every.client.slowed_batch_s,
        window_s=every.window_s,
    )


def violating(own: Sequence[Piece], slo_s: float) -> float:
    """Share of the requests whose batch took longer."""
    sent = sum(b.requests for p in own for b in p.batches)
    late = sum(b.requests for p in own for b in p.batches if b.time_s > slo_s)
    return late / sent if sent else float("nan")


def expected(merging: Sequence[Piece], model: Known, slo_s: float) -> tuple[int, float]:
    """Requests that the model sends, and how many more of them are late than without merges.

    Each merge and the first batch after its start are where they were. Of batches that start in a
    window, and of others, such a share is late as takes so long.
    """
    client, sent, slowed = model.client, 0, 0
    for piece in merging:
        if not piece.batches:
            continue
        # The client goes on from the batch before: the merge begins in the midst of that.
        first_s = piece.batches[0].start_s
        nobody = requests_of([], piece.length_s - first_s)
        served = client.serve(nobody, windows_of([-first_s], model.window_s))
        sent += len(served.latency_s)
        slowed += int(served.harmed.sum())
    usual = late_share(client.batch_s, client.scatter, slo_s)
    return sent, slowed * (late_share(client.slowed_batch_s, client.slowed_scatter, slo_s) - usual)


def late_share(mean_s: float, scatter: Sequence[float], slo_s: float) -> float:
    """Share of batches over the objective."""
    return float(np.mean(mean_s * np.array(scatter) > slo_s))


def compared(blocks: Sequence[Block], options: argparse.Namespace) -> dict[str, Any]:
    """All figures with intervals, and whether measured and modelled excess agree."""
    rounds = [Round.of(*pair) for pair in zip(blocks[::2], blocks[1::2], strict=True)]
    halves = rounds[::2], rounds[1::2]
    merging, without = of_both(rounds)
    slo_s = options.slo or usual_slo_s(rounds)
    seen = say(halves, slo_s, options.at_a_time)
    rng = np.random.default_rng(options.seed)
    drawn = [
        said_or_nan([draw(half, rng) for half in halves], slo_s, options.at_a_time)
        for _ in range(RESAMPLES)
    ]
    fewest = min(map(len, halves))
    figures = {
        name: told(getattr(seen, name), [getattr(one, name) for one in drawn], fewest)
        for name in Said.__dataclass_fields__
    }
    gaps = [one.measured - one.modelled for one in drawn]
    gap = told(seen.measured - seen.modelled, gaps, fewest)
    low, high = gap["low"], gap["high"]
    statuses = Counter[str]()
    for block in blocks:
        statuses.update(block.statuses)
    return {
        "merges": len(merging),
        "batches": sum(len(p.batches) for p in (*merging, *without)),
        "requests": dict(statuses),
        "slo_s": slo_s,
        "figures": figures,
        "measured_minus_modelled": gap,
        "differ": None if low is None or high is None else not low <= 0 <= high,
    }


def usual_slo_s(rounds: Sequence[Round]) -> float:
    """The 95th percentile without merges, whole milliseconds upwards."""
    p95_s = float(np.quantile(usual_s(rounds), 0.95, method="inverted_cdf"))
    if not np.isfinite(p95_s):
        msg = "over 5% of the batches without merges were not answered: the server does not bear it"
        raise ArithmeticError(msg)
    return math.ceil(p95_s * MS) / MS


def said_or_nan(halves: Sequence[Sequence[Round]], slo_s: float, at_a_time: int) -> Said:
    """`say` of a draw; no figures where the draw gives no model."""
    try:
        return say(halves, slo_s, at_a_time)
    except ArithmeticError:
        return Said(*[float("nan")] * len(Said.__dataclass_fields__))


def of_both(rounds: Sequence[Round]) -> tuple[list[Piece], list[Piece]]:
    """The pieces of these rounds with merges, and those without."""
    return [p for one in rounds for p in one.merging], [p for one in rounds for p in one.without]


def draw(own: Sequence[Round], rng: np.random.Generator) -> list[Round]:
    """As many, with replacement."""
    return [own[i] for i in rng.integers(0, len(own), len(own))]


def told(value: float, drawn: Sequence[float], rounds: int) -> dict[str, float | None]:
    """A figure with its 95% interval; no ends under 5 rounds. A figure that is none is an error."""
    found = interval(value, np.asarray(drawn), rounds)
    if found is None:
        msg = f"a figure is {value}: too few batches were served; take longer blocks"
        raise ArithmeticError(msg)
    return {"value": found.value, "low": found.low, "high": found.high}


def show(result: dict[str, Any]) -> None:
    """A table for people."""
    print(
        f"{result['merges']} merges, {result['batches']} batches, requests {result['requests']}, "
        f"objective {result['slo_s']:.3f} s"
    )
    rows = {**result["figures"], "measured - modelled": result["measured_minus_modelled"]}
    for name, figure in rows.items():
        ends = "" if figure["low"] is None else f"  {figure['low']:8.4f} to {figure['high']:.4f}"
        print(f"{name:<20} {figure['value']:8.4f}{ends}")
    differ = result["differ"]
    words = {
        True: "differ",
        False: "are not shown to differ",
        None: "cannot be compared: few rounds",
    }
    print(f"measured and modelled excess {words[differ]}")


if __name__ == "__main__":
    main()
