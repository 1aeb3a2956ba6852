"""A switchback's verdict for people and for programs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli.evaluate_document import versions
from slackwater.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from calibration.switchback import Judged
    from slackwater.cli.switchback_logs import Coined

SCHEMA_VERSION = 1
WHAT = {
    "arriving": "requests that arrive in a merge's window",
    "in_service": "requests that arrive in a merge's window or are in service as it opens",
    "violations": "requests of a merge's window that missed the latency objective",
}


def print_judged(
    coined: Sequence["Coined"], judged: "Judged", count: str, console: "Console"
) -> None:
    """The verdict in a sentence, the arms in a table, and what a reader must know."""
    from rich.table import Table

    def say(text: str) -> None:
        console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    say(sentence(coined, judged))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("arm", "merges", "harmed a merge", "capped"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    for name, arm in ((coined[0].policy, judged.policy), ("random", judged.random)):
        mean = "-" if arm.mean_harm is None else f"{arm.mean_harm:.2f}"
        table.add_row(printable(name), str(arm.merges), mean, str(arm.capped))
    console.print(table)
    say(f"harmed: {WHAT[count]}; e-value by merges: {_course(judged)}")
    for note in notes(coined, judged):
        say(f"note: {note}")


def sentence(coined: Sequence["Coined"], judged: "Judged") -> str:
    """The verdict, and the figures that it rests on."""
    from calibration.switchback import reached

    name = coined[0].policy
    merges = judged.merges
    if judged.gain is None:
        return f"{name}: no claim: {merges} settled merges are too few to compare anything"
    size = f"placement gain of {100 * judged.gain:.1f}% of what random moments harm"
    spared = gain_pp(coined, judged)
    size += "" if spared is None else f", {spared:.2f} percentage points of requests"
    limits = f"95% at any time {_percent(judged.low, -math.inf)} to {_percent(judged.high, 1.0)}"
    text = f"{name}: {size} ({limits}), {merges} merges, e-value {judged.e_gain[-1]:.3g}"
    if judged.verdict == "placement gain":
        return f"{text}: may be claimed, shown after {reached(judged.e_gain)} merges"
    if judged.verdict == "placement loss":
        return f"{text}: it does MORE harm than random moments (e-value {judged.e_loss[-1]:.3g})"
    return f"{text}: no claim yet, 20 is needed; look again whenever you like"


def gain_pp(coined: Sequence["Coined"], judged: "Judged") -> float | None:
    """The gain in percentage points of requests: all these merges at random, less all by policy.

    By the mean harm of the random arm, which is taken as known. None where nothing is to compare.
    """
    requests = sum(run.requests for run in coined)
    if judged.gain is None or judged.random.mean_harm is None or not requests:
        return None
    return 100 * judged.gain * judged.random.mean_harm * judged.merges / requests


def notes(coined: Sequence["Coined"], judged: "Judged") -> list[str]:
    """What is left out, and what would have to be believed."""
    told = []
    waiting = sum(run.waiting for run in coined)
    if waiting:
        told.append(f"{waiting} intervals are open, or may still gain requests; they count later")
    untold = {arm: sum(run.untold[arm] for run in coined) for arm in ("policy", "random")}
    if any(untold.values()):
        told.append(
            f"{untold['policy']} intervals of the policy and {untold['random']} random ones ended "
            "without a window and are left out; if a policy brings that about, this is no evidence"
        )
    capped = judged.policy.capped + judged.random.capped
    if capped:
        told.append(f"{capped} merges harmed over 3 times the usual and count for 3 times")
    if coined[0].control == "uniform":
        told.append("random moments are even over the corridor: other gaps than the policy's")
    return told


def document(coined: Sequence["Coined"], judged: "Judged", count: str) -> dict[str, Any]:
    """The same figures for programs, with the e-value after every merge."""
    from calibration.switchback import ALPHA, reached

    return {
        "schema_version": SCHEMA_VERSION,
        "versions": versions(),
        "count": count,
        "policy": coined[0].policy,
        "control": coined[0].control,
        "verdict": judged.verdict,
        "alpha": ALPHA,
        "merges": judged.merges,
        "shown_after": reached(judged.e_gain),
        "gain": judged.gain,
        "gain_low": judged.low,
        "gain_high": judged.high,
        "gain_pp": gain_pp(coined, judged),
        "arms": {
            name: {"merges": arm.merges, "mean_harm": arm.mean_harm, "capped": arm.capped}
            for name, arm in (("policy", judged.policy), ("random", judged.random))
        },
        "e_gain": judged.e_gain.tolist(),
        "e_loss": judged.e_loss.tolist(),
        "runs": [
            {
                "run_id": run.run_id,
                "merges": int(run.intervals.settled.sum()),
                "waiting": run.waiting,
                "untold": run.untold,
                "requests": run.requests,
            }
            for run in coined
        ],
    }


def _percent(value: float | None, open_end: float) -> str:
    if value is None:
        return "unknown" if math.isinf(open_end) else f"{100 * open_end:.0f}%"
    return f"{100 * value:.1f}%"


def _course(judged: "Judged") -> str:
    """The e-value at five points of the way."""
    merges = len(judged.e_gain)
    points = sorted({math.ceil(merges * part / 5) for part in range(1, 6)} - {0})
    return ", ".join(f"{n}: {judged.e_gain[n - 1]:.3g}" for n in points) or "none yet"
