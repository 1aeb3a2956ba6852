"""The reproduction for people and for programs: ours beside the published figures."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from calibration.published import Published
    from calibration.regimes import Measured
    from slackwater.cli.reproduce_job import Reproduced

SCHEMA_VERSION = 1
UNKNOWN = "-"
MIN_RUNS = 6
"""Fewer have no two-sided p under 5 %: 2^(1 - n) is the least."""


def table_of(reproduced: "Sequence[Reproduced]") -> "Table":
    """A row a published figure, in the paper's order; `K` is our arm's mean number of merges."""
    from rich.table import Table

    from calibration.published import PUBLISHED

    runs = len(reproduced[0].seeds)
    table = Table(
        title=f"published beside ours, {runs} runs each; % and pp of requests, (sd)",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("figure", "published", "ours", "K"):
        table.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    for one in reproduced:
        table.add_row(f"[bold]{one.regime}[/], {one.serving}", "", "", "")
        for row in PUBLISHED:
            if row.regime == one.regime:
                table.add_row(*_row(row, one.figures[row.key]))
    return table


def _row(row: "Published", ours: "Measured") -> list[str]:
    return [
        f"  {row.label}",
        row.said or _figure(row.value, row.sd, row.unit),
        _figure(ours.value, ours.sd, row.unit),
        "" if ours.budget is None else f"{ours.budget:.1f}",
    ]


def lines_of(reproduced: "Sequence[Reproduced]") -> Iterator[str]:
    """Below the table: why figures may differ, one line each, and what the runs are too few for."""
    from calibration.published import PUBLISHED

    yield "why they may differ:"
    shown = {one.regime for one in reproduced}
    for row in PUBLISHED:
        if row.difference and row.regime in shown:
            yield f"  {row.regime}, {row.label}: {row.difference}"
    runs = len(reproduced[0].seeds)
    least = 100 * min(1.0, 2.0 ** (1 - runs))
    if runs < MIN_RUNS:
        yield (
            f"note: {runs} run{'s' if runs > 1 else ''} a regime cannot show a p under 5 %, "
            f"{least:.3g} % at the least: take --runs {MIN_RUNS} or more"
        )


def _figure(value: float | None, sd: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    shown = f"{value:.3g}" if abs(value) < 10 or unit == "" else f"{value:.1f}"
    return " ".join([shown, unit]).strip() + ("" if sd is None else f" ({sd:.2f})")


def document(
    runs: int, draws: int, seed: int, reproduced: "Sequence[Reproduced]"
) -> dict[str, Any]:
    """Configuration, versions, and each regime's figures and arms as plain values."""
    from slackwater.cli.evaluate_document import versions

    return {
        "schema_version": SCHEMA_VERSION,
        "configuration": {"runs": runs, "draws": draws, "seed": seed},
        "versions": versions(),
        "regimes": [_regime(one) for one in reproduced],
    }


def _regime(one: "Reproduced") -> dict[str, Any]:
    from calibration.published import PUBLISHED

    return {
        "regime": one.regime,
        "serving": one.serving,
        "draws": one.draws,
        "seeds": list(one.seeds),
        "figures": [
            {"published": asdict(row), "ours": asdict(one.figures[row.key])}
            for row in PUBLISHED
            if row.regime == one.regime
        ],
        "arms": [asdict(arm) for arm in one.arms],
    }
