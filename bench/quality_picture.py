"""The quality study's picture: when each arm merged, and what that did to the held-out loss.

`python -m bench.quality_picture results/quality.json docs/quality.png` draws a study made before.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.schedules import KEPT

INK, BLUE, RED, GREY = "#22303c", "#2b6cb0", "#c53030", "#a0aec0"
LABELS = {
    "data_parallel": "data-parallel:\nevery step",
    "fixed_h": "fixed period",
    "irregular": "irregular,\nin the corridor",
    "slack": "placed by slack",
    "unbounded": "drawn without bounds",
    "bunched": "bunched",
    "one_at_end": "one at the end",
}


def draw(result: dict[str, Any], target: Path) -> None:
    """One row an arm: merges of the first seed on the left, differences on the right."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": GREY, "text.color": INK})
    figure, (moments, losses) = plt.subplots(
        1, 2, figsize=(11, 4.6), sharey=True, width_ratios=[3, 4], layout="constrained"
    )
    arms = result["arms"]
    for row, (arm, found) in enumerate(arms.items()):
        draw_moments(moments, row, found["merges_at"], result["steps"], colour(arm))
        draw_losses(losses, row, found, colour(arm))
    moments.set_yticks(range(len(arms)), [LABELS[arm] for arm in arms])
    moments.set_ylim(len(arms) - 0.5, -0.5)
    gaps = result["corridor_steps"]
    moments.set_title(
        f"Merges of the first seed, corridor {gaps['min']} to {gaps['max']} steps", fontsize=10
    )
    moments.set_xlabel("inner steps")
    losses.axvline(0, color=GREY, lw=1)
    losses.set_xscale("symlog", linthresh=0.01, linscale=1.5)
    losses.set_title(
        f"Held-out loss less that of the fixed period, {len(result['seeds'])} seeds", fontsize=10
    )
    losses.set_xlabel("nats a byte; linear within 0.01, logarithmic beyond")
    for axes in (moments, losses):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def colour(arm: str) -> str:
    if arm == "data_parallel":
        return INK
    return BLUE if arm in KEPT else RED


def draw_moments(
    axes: Axes, row: int, plans: list[list[int]] | None, steps: int, shade: str
) -> None:
    if plans is None:
        axes.fill_between([0, steps], row - 0.28, row + 0.28, color=shade, alpha=0.25, lw=0)
        return
    axes.hlines(row, 0, steps, color=GREY, lw=0.8)
    axes.vlines(plans[0], row - 0.28, row + 0.28, color=shade, lw=1.6)


def draw_losses(axes: Axes, row: int, found: dict[str, Any], shade: str) -> None:
    """A dot a seed, the mean as a line across, the 95 % interval as a bar."""
    ends = found["less_interval_95"]
    if ends is not None:
        axes.hlines(row, *ends, color=shade, lw=7, alpha=0.25)
    less = found["less"]
    axes.plot(less, [row] * len(less), "o", color=shade, ms=4, alpha=0.7, mew=0)
    mean = found["less_mean"]
    axes.vlines(mean, row - 0.28, row + 0.28, color=shade, lw=1.8)
    axes.annotate(
        f"loss {found['mean']:.3f}  ({mean:+.4f})",
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        annotation_clip=False,
    )


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
