"""The traffic that `evaluate` scores policies on: traces and generated regimes, served unmerged."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.clock import US_PER_S
from slackwater.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from calibration.experiment import Source
    from calibration.protocol import Protocol
    from calibration.serving import Requests
    from replay_producer.rows import OnBad
    from replay_producer.trace import Trace

# A generated run is cut from the middle of traffic, so that the signals are warm and its phase in
# any period up to this is random: the lead before it lasts once to twice as long.
LEAD_IN_S = 600.0
# A run of one merge, or none, has next to no placements to choose from.
USEFUL_MERGES = 2


@dataclass(frozen=True, slots=True)
class Traffic:
    """One source and where it came from; `sha256` of a file, `seed` of a generated one.

    `trace` has its requests in the same order as `source`.
    """

    source: "Source"
    trace: "Trace"
    format: str
    sha256: str | None
    seed: int | None
    duration_s: float
    skipped: int
    notes: tuple[str, ...]


def from_file(path: Path, protocol: "Protocol", on_bad: "OnBad" = "stop") -> Traffic:
    """A trace file cut into as many whole runs as it holds; `on_bad` as for `read_trace`.

    Raises `InputError` for files that cannot be read, and traces shorter than one run.
    """
    from calibration.serving.cells import cell_count
    from replay_producer.readers import read_trace

    trace = read_trace(path, on_bad=on_bad)
    # A file's length is that of its last arrival, which is within it.
    duration_s = (trace.duration_us + 1) / US_PER_S
    cells, run = cell_count(duration_s, protocol.cell_s), protocol.corridor
    _check_length(trace.name, duration_s, protocol)
    number = cells // run.cells
    return _traffic(trace, duration_s, tuple(i * run.cells for i in range(number)), None, protocol)


def from_regime(regime: str, seed: int, protocol: "Protocol") -> Traffic:
    """One run of generated traffic, at a random moment of it."""
    import numpy as np

    from replay_producer.generators import generate

    lead_cells = round(LEAD_IN_S / protocol.cell_s)
    first = lead_cells + int(np.random.default_rng([seed, 2]).integers(lead_cells))
    duration_s = (first + protocol.corridor.cells) * protocol.cell_s
    trace = generate(regime, duration_s, seed=seed)
    return _traffic(trace, duration_s, (first,), seed, protocol)


def _check_length(name: str, duration_s: float, protocol: "Protocol") -> None:
    run = protocol.corridor
    least_s = (run.min_gap_cells + run.window_cells) * protocol.cell_s
    if duration_s < least_s:
        msg = (
            f"{name}: {duration_s:g} s are shorter than a corridor: the first merge may start at "
            f"{run.min_gap_cells * protocol.cell_s:g} s and would end at {least_s:g} s; take a "
            "longer trace, or lower --min-gap and --segment"
        )
        raise InputError(msg)
    if duration_s < protocol.run_s:
        msg = f"{name}: {_shorter_than_a_run(duration_s, protocol)}"
        raise InputError(msg)


def _shorter_than_a_run(duration_s: float, protocol: "Protocol") -> str:
    """What to do where one whole run is not to be had; a run of a single merge is no help."""
    run = protocol.corridor
    whole_s, cell_s = int(duration_s), protocol.cell_s
    window_s, min_gap_s = run.window_cells * cell_s, run.min_gap_cells * cell_s
    short = f"{duration_s:g} s are shorter than one run of {protocol.run_s:g} s"
    if whole_s > USEFUL_MERGES * run.max_gap_cells * cell_s:
        return f"{short}; take --segment {whole_s} or less, or a longer trace"
    fitting_s = int(whole_s / (USEFUL_MERGES + 1))
    if fitting_s <= max(window_s, 1):
        return f"{short} and hold no {USEFUL_MERGES} merges of {window_s:g} s; take a longer trace"
    gaps = f"{min_gap_s:g} to {run.max_gap_cells * cell_s:g} s"
    low_s = min(min_gap_s, max(window_s, fitting_s // 2))
    return (
        f"{short} and too short for gaps of {gaps}, which may make fewer than {USEFUL_MERGES} "
        f"merges; take a longer trace, or --segment {whole_s} --min-gap {low_s:g} "
        f"--max-gap {fitting_s}"
    )


def _traffic(
    trace: "Trace",
    duration_s: float,
    first_cells: tuple[int, ...],
    seed: int | None,
    protocol: "Protocol",
) -> Traffic:
    from calibration.experiment import Source

    name = trace.name if seed is None else f"{trace.name}/{seed}"
    policy_seed = protocol.seed if seed is None else seed
    left_s = duration_s - len(first_cells) * protocol.run_s
    notes = [f"{name}: {note}" for note in trace.notes]
    if seed is None and left_s >= protocol.cell_s:
        notes.append(f"{name}: the last {left_s:.0f} s make no whole run and are left out")
    return Traffic(
        source=Source(name, served(trace, duration_s), first_cells, policy_seed),
        trace=trace,
        format=trace.format,
        sha256=trace.sha256,
        seed=seed,
        duration_s=duration_s,
        skipped=trace.skipped,
        notes=tuple(notes),
    )


def served(trace: "Trace", duration_s: float) -> "Requests":
    """The trace served without merges, on the sidecars and by the times that a replay uses.

    Latencies are the recorded ones where the trace has one for every request that ended well,
    else those of the replay's modelled sidecars.
    """
    import numpy as np

    from calibration.serving import Queue, requests_of, windows_of
    from replay_producer.fleet import spread
    from replay_producer.sidecar import ServiceSettings

    service = ServiceSettings()
    sidecar = np.empty(len(trace), object)
    for name, indices in spread(trace, None).items():
        sidecar[indices] = name
    prompt = _known(trace.prompt_tokens, service.assumed_prompt_tokens)
    output = _known(trace.output_tokens, service.assumed_output_tokens)
    work_s = service.overhead_s + prompt / service.prefill_tokens_per_s + output * service.token_s
    columns = {
        "service_s": work_s,
        "tokens": prompt + output,
        "sidecar": sidecar.astype(str),
        "tenant": None if None in trace.tenant else trace.tenant.astype(str),
    }
    bare = requests_of(trace.arrival_us / US_PER_S, duration_s, **columns)
    modelled_s = Queue(slots=service.slots).serve(bare, windows_of([], 1.0)).latency_s
    recorded = not np.isnan(trace.e2e_s[trace.status == "ok"]).any()
    e2e_s = np.where(np.isnan(trace.e2e_s), modelled_s, trace.e2e_s) if recorded else modelled_s
    return requests_of(bare.arrival_s, duration_s, e2e_s=e2e_s, **columns)


def _known(tokens: "NDArray[np.int64]", assumed: int) -> "NDArray[np.int64]":
    import numpy as np

    return np.where(tokens < 0, assumed, tokens)
