"""The README's picture, from the run log of a real run.

`python docs/picture.py RUN.duckdb docs/run.png`
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from slackwater.livequery import query

BIN_S = 0.5
SLO_S = 1.0
INK, BLUE, RED, GREY, GOLD = "#22303c", "#2b6cb0", "#c53030", "#a0aec0", "#b7791f"

SPAN = "SELECT min(arrival_us) AS start_us, max(at_us) AS end_us FROM requests"
REQUESTS = "SELECT arrival_us, e2e_s FROM requests WHERE status = 'ok' ORDER BY 1"
WINDOWS = """
SELECT min(at_us) FILTER ("type" = 'started') AS start_us,
       max(at_us) FILTER ("type" = 'finished') AS end_us
FROM merges GROUP BY merge_id HAVING count(*) FILTER ("type" = 'finished') > 0 ORDER BY 1
"""
DECISIONS = 'SELECT at_us, rate_per_s, "action" FROM decisions WHERE active ORDER BY 1'
GAPS = """
SELECT at_us, steps_since_merge FROM learner_steps
WHERE learner = (SELECT min(learner) FROM learner_steps) ORDER BY 1
"""


def main() -> None:
    """Draw the run of the log given first into the file given second."""
    db, target = Path(sys.argv[1]), Path(sys.argv[2])
    figures = {
        name: columns(db, sql)
        for name, sql in {
            "span": SPAN,
            "requests": REQUESTS,
            "windows": WINDOWS,
            "decisions": DECISIONS,
            "gaps": GAPS,
        }.items()
    }
    draw(figures, target)


def columns(db: Path, sql: str) -> dict[str, np.ndarray[Any, Any]]:
    table = query(db, sql)
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def draw(figures: dict[str, dict[str, np.ndarray[Any, Any]]], target: Path) -> None:
    start_us = figures["span"]["start_us"][0]
    end_s = (figures["span"]["end_us"][0] - start_us) / 1e6
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": GREY, "text.color": INK})
    figure, (traffic, latency, gaps) = plt.subplots(
        3, 1, figsize=(11, 7.2), sharex=True, height_ratios=[3, 3, 2], layout="constrained"
    )
    draw_traffic(traffic, figures, start_us, end_s)
    draw_latency(latency, figures["requests"], start_us)
    draw_gaps(gaps, figures["gaps"], start_us)
    for axes in (traffic, latency, gaps):
        shade(axes, figures["windows"], start_us)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False, ncols=4, fontsize=9)
    gaps.set_xlim(0, end_s)
    gaps.set_xlabel("seconds of the run (event time)")
    figure.savefig(target, dpi=110)


def draw_traffic(axes: Axes, figures: Any, start_us: int, end_s: float) -> None:
    arrivals = (figures["requests"]["arrival_us"] - start_us) / 1e6
    edges = np.arange(0, end_s + BIN_S, BIN_S)
    counts, _ = np.histogram(arrivals, edges)
    axes.stairs(counts / BIN_S, edges, fill=True, color=GREY, alpha=0.6, label="arrivals")
    decisions = figures["decisions"]
    at_s = (decisions["at_us"] - start_us) / 1e6
    axes.plot(at_s, decisions["rate_per_s"], color=BLUE, lw=1.8, label="forecast (EWMA)")
    merge = decisions["action"] == "merge"
    axes.plot(
        at_s[merge], decisions["rate_per_s"][merge], "v", color=GOLD, ms=9, label="merge commanded"
    )
    axes.set_ylabel("requests/s")
    axes.set_ylim(0, max(1.0, counts.max() / BIN_S) * 1.25)


def draw_latency(axes: Axes, requests: Any, start_us: int) -> None:
    at_s, e2e_s = (requests["arrival_us"] - start_us) / 1e6, requests["e2e_s"]
    missed = e2e_s > SLO_S
    axes.plot(at_s[~missed], e2e_s[~missed], ".", color=INK, ms=4, alpha=0.6, label="request")
    axes.plot(at_s[missed], e2e_s[missed], "o", color=RED, ms=5, label="missed its objective")
    axes.axhline(SLO_S, color=RED, lw=0.8, ls="--")
    axes.set_ylabel("end to end, s")
    axes.set_ylim(0, max(1.3, float(e2e_s.max())) * 1.25)


def draw_gaps(axes: Axes, gaps: Any, start_us: int) -> None:
    at_s = (gaps["at_us"] - start_us) / 1e6
    axes.plot(at_s, gaps["steps_since_merge"], color=BLUE, lw=1.4, label="gap so far")
    axes.axhline(128, color=GOLD, lw=0.9, ls="--", label="H_min 128")
    axes.axhline(512, color=RED, lw=0.9, ls="--", label="H_max 512")
    axes.set_ylim(0, 680)
    axes.set_ylabel("inner steps")


def shade(axes: Axes, windows: Any, start_us: int) -> None:
    for i, (start, end) in enumerate(zip(windows["start_us"], windows["end_us"], strict=True)):
        label = "merge window" if i == 0 and axes.get_subplotspec().is_first_row() else None
        axes.axvspan(
            (start - start_us) / 1e6, (end - start_us) / 1e6, color=GOLD, alpha=0.35, label=label
        )


if __name__ == "__main__":
    main()
