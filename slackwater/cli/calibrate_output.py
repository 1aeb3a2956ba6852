"""A calibration as a person reads it: one table, then where the files are."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from calibration.effect import Agreement, Contrast, Interval, Measured
    from calibration.profile import Profile
    from sidecar.experiment.record import Record

ARM_WORDS = {
    "nothing": "the server alone",
    "learners": "learners, no merges",
    "merges": "learners that merge",
    "warm_up": "warm-up, not measured",
    "interrupted": "interrupted, not measured",
}
MS = 1000


def print_measured(
    console: "Console", record: "Record", measured: "Measured", precision: float
) -> None:
    """The table of all figures."""
    rows = [
        *_set_up(record, measured),
        *_effects(measured),
        *_beside(measured),
        *_precision(measured, precision),
        ("verdict", verdict(measured.effect.merges)),
    ]
    _print(console, f"calibration of {record.set_up.server}", rows)


def verdict(found: "Contrast") -> str:
    """Whether merges make requests wait, in words."""
    shown = [
        f"{name} {_shown(one)} times"
        for name, one in (("p50", found.p50_ratio), ("p95", found.p95_ratio))
        if one is not None and one.low is not None and one.low > 1
    ]
    if shown:
        return f"merges slow requests that meet them: {', '.join(shown)}"
    if found.p50_ratio is None or found.p50_ratio.low is None:
        return (
            f"not known: {found.merges} merges are too few to say whether they slow requests; it "
            "takes 10 and 5 rounds, about ten --minutes. The profile's slowdown is a guess, and "
            "it has no `effect`"
        )
    return "not shown to slow requests that meet them"


def print_files(console: "Console", profile_path: Path | None, record: "Record") -> None:
    """Where everything is, a line each."""
    lines = [] if profile_path is None else [f"profile: {profile_path}"]
    lines.append(f"every request and merge: {record.path}")
    if profile_path is not None:
        lines += ["next:", f"slackwater evaluate --regime bursty --profile {profile_path}"]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def print_agreement(
    console: "Console", before: "Profile", found: "tuple[Agreement, ...]", word: str
) -> None:
    """Then and now, figure by figure."""
    rows = [
        (one.name, f"{_shown(one.before)} then, {_shown(one.now)} now: {_says(one)}")
        for one in found
    ]
    untold = [one.name for one in found if one.word == "unknown"]
    but = f"; not told in so short a time: {'; '.join(untold)}" if untold else ""
    says = {
        "same": f"profile {before.name!r} still fits{but}",
        "changed": f"profile {before.name!r} does not fit any more: calibrate anew",
        "unknown": "too little was measured to tell: take more --minutes",
    }
    _print(console, f"compared with {before.name}", [*rows, ("verdict", says[word])])


def _says(one: "Agreement") -> str:
    if one.ratio is None:
        return "cannot be told"
    return f"{_shown(one.ratio)} times as much, {one.word}"


def _print(console: "Console", title: str, rows: list[tuple[str, str]]) -> None:
    from rich.box import ROUNDED
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", show_header=False, box=ROUNDED)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(value))
    console.print(table)


def _set_up(record: "Record", measured: "Measured") -> Iterator[tuple[str, str]]:
    import numpy as np

    from sidecar.experiment.observing import accounts, discarded, refused

    design, window = record.set_up.design, measured.window_s
    blocks = f"{len(record.played)} of {design.rounds * len(design.arms)} blocks"
    yield "measured", f"{measured.measured_s / 60:.1f} min in {blocks}, seed {design.seed}"
    alone = record.set_up.options.get("alone_per_s")
    share = "" if alone is None else f"; one at a time, the server answers {alone:.3g}"
    yield "load", f"{design.rate_per_s:g} requests/s{share}"
    yield "merges by", record.set_up.merging
    left_out, not_done = discarded(record), refused(record)
    spent_s = sum(merge.end_us - merge.start_us for merge in left_out) / 1e6
    yield (
        "merges",
        f"{measured.effect.merges.merges} measured, window {_shown(window)} s, longest "
        f"{measured.longest_window_s:.2f} s; {len(left_out)} discarded ({spent_s:.1f} s), "
        f"{len(not_done)} not made",
    )
    lines = [
        f"{ARM_WORDS[arm]}: {one.due:,} = {one.ok:,} finished + {one.aborted} aborted + "
        f"{one.timeout} timed out + {one.error + one.dropped} failed"
        for arm, one in accounts(record).items()
    ]
    yield "requests", "\n".join(lines)
    lags_s = [
        one.lag_s
        for block in record.blocks
        if block.complete
        for one in block.requests
        if one.lag_s is not None
    ]
    p99_s, most_s = np.quantile(lags_s, [0.99, 1]) if lags_s else (0.0, 0.0)
    yield (
        "client lag",
        f"99% sent within {p99_s * MS:.0f} ms of their time, all within {most_s:.2f} s",
    )
    where = "given" if measured.slo_given else "p95 of the learners without merges"
    yield "SLO", f"{measured.slo_s:g} s ({where})"


def _effects(measured: "Measured") -> Iterator[tuple[str, str]]:
    p50, p95, p99 = (_shown(one, MS, 0) for one in measured.base_s)
    yield "without merges", f"p50 {p50} ms, p95 {p95} ms, p99 {p99} ms"
    yield "in a merge", _contrast(measured.effect.merges)
    after = measured.effect.after
    if after.lasts_s is None:
        yield "after a merge", "too few requests to judge"
    else:
        least = "" if after.bounded else " or more"
        lasts = f"harm for {after.lasts_s:g} s{least}" if after.lasts_s else "no harm shown"
        bins = [
            f"{one.from_s:g} to {one.to_s:g} s: p50 {_shown(one.p50_ratio)}"
            for one in after.bins
            if one.p50_ratio is not None
        ]
        yield "after a merge", "\n".join([lasts, *bins])
    for group in measured.effect.by_load:
        flights = f"{group.least}" if group.least == group.most else f"{group.least}-{group.most}"
        told = "nothing to compare with" if group.contrast is None else _brief(group.contrast)
        yield f"{group.level} load", f"{flights} in flight, {group.merges} merges: {told}"


def _beside(measured: "Measured") -> Iterator[tuple[str, str]]:
    if measured.effect.learners is not None:
        yield "learners alone", _contrast(measured.effect.learners)
    said = "matched" if measured.load.matched else "not shown to match"
    yield "load match", f"{said}: {measured.load.reason}"


def _precision(measured: "Measured", precision: float) -> Iterator[tuple[str, str]]:
    if measured.half_width is None or measured.more_s is None:
        yield "precision", "unknown: an interval takes 10 merges and 5 rounds or more"
        return
    said = f"p95 ratio within {measured.half_width:.0%} either side"
    more = f"{measured.more_s / 60:.0f} more minutes for {precision:.0%}"
    yield "precision", f"{said}; {more if measured.more_s else f'{precision:.0%} is reached'}"


def _contrast(found: "Contrast") -> str:
    ratios = (found.p50_ratio, found.p95_ratio, found.p99_ratio)
    names = ("p50", "p95", "p99")
    lines = [f"{name} {_shown(one)} times" for name, one in zip(names, ratios, strict=True) if one]
    return "\n".join(
        [
            ", ".join(lines) or "no ratio: requests were not answered",
            f"over the SLO {found.violating:.1%} instead of {found.base_violating:.1%}: "
            f"odds {_shown(found.odds_ratio)}, excess {_shown(found.excess_pp, 1, 1)} pp",
            f"{found.requests:,} requests against {found.base_requests:,}",
        ]
    )


def _brief(found: "Contrast") -> str:
    return (
        f"p50 {_shown(found.p50_ratio)} times, p95 {_shown(found.p95_ratio)} times, "
        f"odds {_shown(found.odds_ratio)}"
    )


def _shown(found: "Interval | None", scale: float = 1, digits: int = 2) -> str:
    """`2.34 [2.10, 2.40]`; no brackets without an interval, a dash without a figure."""
    if found is None:
        return "-"
    value = f"{found.value * scale:.{digits}f}"
    if found.low is None or found.high is None:
        return value
    return f"{value} [{found.low * scale:.{digits}f}, {found.high * scale:.{digits}f}]"
