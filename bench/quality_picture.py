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
    "data_parallel": "every step:\ndata-parallel",
    "fixed_h": "fixed period",
    "irregular": "irregular,\nwithin bounds",
    "slack": "placed by slack,\nwithin bounds",
    "unbounded": "irregular,\nwithout bounds",
    "bunched": "bunches of four",
    "one_at_end": "once, at the end",
}
# Differences up to this, nats a byte, are in the wide panel; the narrow one beside it has the rest.
NEAR = 0.1
BAR = 0.28


def draw(result: dict[str, Any], target: Path) -> None:
    """One row an arm: merges of the first seed, its differences near 0 and far off, its figures."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": GREY, "text.color": INK})
    figure, (moments, near, far, words) = plt.subplots(
        1, 4, figsize=(13, 5), sharey=True, width_ratios=[3, 4, 1.5, 2.7], layout="constrained"
    )
    arms = result["arms"]
    for row, (arm, found) in enumerate(arms.items()):
        draw_moments(moments, row, found["merges_at"], result["steps"], colour(arm))
        for axes in (near, far):
            draw_losses(axes, row, found, colour(arm))
        write(words, row, found)
    moments.set_yticks(range(len(arms)), [LABELS[arm] for arm in arms])
    moments.set_ylim(len(arms) - 0.5, -0.5)
    label(moments, near, far, words, result)
    break_axis(near, far, [less for found in arms.values() for less in found["less"]])
    for axes in (moments, near, far, words):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    words.set_axis_off()
    far.spines["left"].set_visible(False)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)
    plt.close(figure)


def label(moments: Axes, near: Axes, far: Axes, words: Axes, result: dict[str, Any]) -> None:
    gaps = result["corridor_steps"]
    moments.set_title(
        "When the learners merge (first seed)\n"
        f"bounds: gaps of {gaps['min']} to {gaps['max']} steps",
        fontsize=10,
    )
    moments.set_xlabel("inner step")
    near.set_title(
        f"Held-out loss less that of the fixed period, {len(result['seeds'])} seeds\n"
        "dot: one seed; line: mean; band: 95% interval",
        fontsize=10,
    )
    near.set_xlabel("difference, nats a byte")
    far.set_xlabel("the same, far off")
    words.set_title("mean loss   difference (95% interval)\nnats a byte", fontsize=10, loc="left")


def break_axis(near: Axes, far: Axes, differences: list[float]) -> None:
    """Both scales are linear; what one does not show, the other does."""
    beyond = [less for less in differences if less > NEAR]
    near.set_xlim(1.15 * min(0.0, *differences), NEAR)
    far.set_xlim(NEAR, 1.08 * max(beyond, default=2 * NEAR))
    near.locator_params(axis="x", nbins=5)
    far.locator_params(axis="x", nbins=3)
    near.axvline(0, color=GREY, lw=1)
    mark: dict[str, Any] = {"marker": [(-1, -2), (1, 2)], "ms": 9, "color": GREY, "clip_on": False}
    near.plot([1], [0], transform=near.transAxes, ls="none", **mark)
    far.plot([0], [0], transform=far.transAxes, ls="none", **mark)


def colour(arm: str) -> str:
    if arm == "data_parallel":
        return INK
    return BLUE if arm in KEPT else RED


def draw_moments(
    axes: Axes, row: int, plans: list[list[int]] | None, steps: int, shade: str
) -> None:
    if plans is None:
        axes.fill_between([0, steps], row - BAR, row + BAR, color=shade, alpha=0.25, lw=0)
        return
    axes.hlines(row, 0, steps, color=GREY, lw=0.8)
    axes.vlines(plans[0], row - BAR, row + BAR, color=shade, lw=1.4)


def draw_losses(axes: Axes, row: int, found: dict[str, Any], shade: str) -> None:
    """The baseline's differences are 0 by definition: its line alone."""
    ends, less = found["less_interval_95"], found["less"]
    if ends is not None:
        axes.fill_between(ends, row - BAR / 2, row + BAR / 2, color=shade, alpha=0.22, lw=0)
    if any(less):
        axes.plot(less, [row] * len(less), "o", color=shade, ms=4, alpha=0.7, mew=0)
    axes.vlines(found["less_mean"], row - BAR, row + BAR, color=shade, lw=1.8)


def write(axes: Axes, row: int, found: dict[str, Any]) -> None:
    ends = found["less_interval_95"]
    text = f"{found['mean']:.3f}"
    if any(found["less"]):
        text += f"   {found['less_mean']:+.4f}"
    if ends is not None:
        text += f" ({ends[0]:+.4f} to {ends[1]:+.4f})"
    axes.text(0, row, text.replace("-", "\N{MINUS SIGN}"), va="center", fontsize=9)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
