"""Numbers as people read them: unknown is a dash, never a zero."""

from collections.abc import Sequence

UNKNOWN = "–"  # noqa: RUF001
BLOCKS = "▁▂▃▄▅▆▇█"
PASSED, NOT_YET = "┿", "┊"
"""How a gap's bar marks H_min: reached or not."""


def number(value: float | None, digits: int = 0, unit: str = "") -> str:
    """`1,234.5 s`, or a dash for None."""
    if value is None:
        return UNKNOWN
    return f"{value:,.{digits}f}{unit}"


def percent(part: float | None, whole: float | None) -> str:
    """`3.5 %`, or a dash where there is no whole."""
    if part is None or not whole:
        return UNKNOWN
    return f"{100 * part / whole:.1f} %"


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One block a value, on a scale from 0 to `top`; a blank where the value is unknown."""
    return "".join(_block(value, top) for value in values)


def _block(value: float | None, top: float) -> str:
    if value is None:
        return " "
    share = value / top if top > 0 else 0.0
    return BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))]


def gap_bar(gap: int | None, low: int, high: int, width: int) -> str:
    """A gap on its way from 0 to H_max, with H_min marked; empty where the gap is unknown."""
    filled = 0 if gap is None else min(width, round(width * gap / high))
    cells = ["━"] * filled + ["╌"] * (width - filled)
    mark = min(width - 1, round(width * low / high))
    cells[mark] = PASSED if mark < filled else NOT_YET
    return "".join(cells)
