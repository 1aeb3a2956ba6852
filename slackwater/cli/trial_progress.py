"""What a trial says while it is played: what it will play, where it is and what is left."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar.trial.design import TrialDesign
    from sidecar.trial.play import Progress

PHASES = {"starting the replay": "starting the load"}


def plan(design: "TrialDesign") -> str:
    """What will be played, in one line, and what of it can claim nothing."""
    from calibration.gate import MIN_RUNS

    arms = design.runs // design.blocks
    few = f"; fewer than {MIN_RUNS} blocks can claim nothing" if design.blocks < MIN_RUNS else ""
    if len(design.free) == 1:
        few += f"; {design.free[0]} and its control alone can claim nothing: keep a baseline"
    blocks = "1 block" if design.blocks == 1 else f"{design.blocks} blocks"
    return (
        f"{blocks} of {arms} runs of {design.run_s:g} s: about {left(design.lasts_s)} in all{few}"
    )


def line(now: "Progress") -> str:
    """One line on a run: `run 7 of 48, block 2: slack, running 83 s, ...`."""
    status = now.status
    played = "" if status.played_s is None else f" {status.played_s:.0f} s"
    seen = ""
    if status.snapshot is not None:
        requests = status.snapshot.counts["requests"]
        seen = f", {requests:,} requests, {status.snapshot.merge_counts['finished']} merges"
    return (
        f"run {now.number} of {now.runs}, block {now.run.block}: {now.run.arm}, "
        f"{PHASES.get(status.phase, status.phase)}{played}{seen}; {left(now.left_s)} left"
    )


def left(seconds: float) -> str:
    """`3 h 20 min`, `12 min`, `under a minute`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "under a minute"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
