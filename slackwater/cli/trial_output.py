"""What a trial found, for people and as JSON."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from slackwater.policies import NO_POLICY
from slackwater.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

MOST_ALONE_PP = 50.0
LEAST_VIOLATING_PP = 10.0
LEAST_ADDED = 0.25
"""Of the violations: where windows make fewer, policies have little to spare."""
HOW = {
    "ok": "answered",
    "aborted": "cut off",
    "timeout": "timed out",
    "error": "refused",
    "dropped": "never sent",
}
PASSED = {True: "passed", False: "failed", None: "not known"}


def print_document(out: "Console", document: dict[str, Any]) -> None:
    """All of it, as one JSON object."""
    out.print(json.dumps(document), soft_wrap=True, markup=False)


def print_trial(out: "Console", document: dict[str, Any]) -> None:
    """The arms, the verdicts with the gate's steps, and what did not go as it should."""
    from rich.table import Table

    design = document["design"]
    part = document["runs_played"] < document["runs_planned"]
    for verdict in document["verdicts"]:
        out.print(headline(verdict, part=part), soft_wrap=True, markup=False, style="bold")
    table = Table(title=None, box=None, pad_edge=False)
    for name in (
        "arm",
        "runs",
        "requests",
        "merges",
        "window s",
        "violate %",
        "excess",
        "p95 s",
    ):
        table.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
    for row in document["arms"]:
        table.add_row(
            row["arm"],
            str(row["runs"]),
            f"{row['requests']:,}",
            _number(row["merges"], 1),
            _number(row["window_s"], 2),
            _number(row["violations_pp"], 2),
            _number(row["excess_pp"], 2),
            _number(row["p95_s"], 3),
        )
    out.print(
        f"{document['runs_played']} of {document['runs_planned']} runs of {design['run_s']:g} s; a "
        f"request violates above {design['slo_s']:g} s or without an answer; excess is what "
        f"windows added; judged by {design['count']}; means over runs",
        soft_wrap=True,
    )
    out.print(table)
    for verdict in document["verdicts"]:
        _print_steps(out, verdict)
    for line in remarks(document):
        out.print(line, soft_wrap=True, markup=False)
    out.print(f"run log: {printable(document['run_log'])}", soft_wrap=True, markup=False)
    if part:
        out.print("--resume it, with the server's options again, to play the rest")


def headline(verdict: dict[str, Any], *, part: bool) -> str:
    """One sentence: what may be claimed, and of a part of a trial that it is one."""
    gain, interval = verdict["gain_pp"], verdict["interval_pp"]
    within = "" if interval is None else f" (95% interval {interval[0]:.2f} to {interval[1]:.2f})"
    interim = "; an interim look: 5% are for the whole trial" if part else ""
    figures = f"{gain:+.2f} pp of requests against matched random{within}"
    return (
        f"{verdict['policy']}: {verdict['verdict']}: {figures}, p = {verdict['p_value']:.4g}, "
        f"n = {verdict['n']}, on measured requests{interim}"
    )


def remarks(document: dict[str, Any]) -> list[str]:
    """Power, mismatches and notes."""
    found: list[str] = []
    for verdict in document["verdicts"]:
        found += power(verdict)
        blocks = verdict["blocks_of_other_budget"]
        if blocks:
            named = ", ".join(map(str, blocks))
            found.append(
                f"{verdict['policy']}: its control made another number of merges in block {named}; "
                "these pairs count as they were meant"
            )
    found += [
        f"block {one['block']}: {one['arm']} was to make {one['intended']} merges and made "
        f"{one['made']}"
        for one in document["mismatches"]
    ]
    found += accounted(document["arms"])
    alone = next(
        (row["violations_pp"] for row in document["arms"] if row["arm"] == NO_POLICY), None
    )
    if alone is not None and alone > MOST_ALONE_PP:
        found.append(
            f"{alone:.0f} % of requests violate without any merge: there is little left for merges "
            "to harm, or for a policy to spare; take a larger --slo, a lower --rate, or a machine "
            "that does nothing else"
        )
    found += not_by_merges(document["arms"])
    if document["runs_failed"]:
        count = document["runs_failed"]
        found.append(f"{count} runs failed and were played again; they are in no figure")
    return [*found, *document["notes"]]


def not_by_merges(arms: list[dict[str, Any]]) -> list[str]:
    """A word on arms whose violations are mostly no merge's doing: there is little to spare."""
    merging = [row for row in arms if row["arm"] != NO_POLICY and row["excess_pp"] is not None]
    violating = [row["violations_pp"] for row in merging]
    if not merging or (usual := sum(violating) / len(merging)) < LEAST_VIOLATING_PP:
        return []
    added = sum(row["excess_pp"] for row in merging) / len(merging)
    if added > LEAST_ADDED * usual:
        return []
    return [
        f"{usual:.0f} % of requests violate, of which windows added {max(0.0, added):.1f}: the "
        "rest violates without merges, where a merge then costs nothing; take a larger --slo, a "
        "lower --rate, or learners that step less often (--step-s)"
    ]


def accounted(arms: list[dict[str, Any]]) -> list[str]:
    """What became of every request that came due."""
    total = Counter[str]()
    for row in arms:
        total.update(row["ended"])
    if not total:
        return []
    parts = ", ".join(f"{count:,} {HOW[how]}" for how, count in total.items())
    unanswered = sum(row["unanswered"] for row in arms)
    ill = f"; the {unanswered:,} without an answer are violations" if unanswered else ""
    return [f"{sum(row['requests'] for row in arms):,} requests came due: {parts}{ill}"]


def power(verdict: dict[str, Any]) -> list[str]:
    """What so many runs can show, and how many a gain as large as this one takes."""
    name, n = verdict["policy"], verdict["n"]
    if verdict["detectable_pp"] is None:
        return [f"{name}: fewer than 6 runs can show no gain at all; this has {n}"]
    lines = [
        f"{name}: {n} runs such as these show a gain of {verdict['detectable_pp']:.2f} pp in 4 "
        "trials of 5"
    ]
    needed = verdict["needed"]
    if needed is not None and needed["runs"] is not None:
        more = max(0, needed["runs"] - n)
        lines.append(
            f"{name}: a gain as large as the one seen takes {needed['runs']} runs for that, "
            f"{more} more"
        )
    elif needed is not None:
        lines.append(f"{name}: a gain as large as the one seen is not shown by hundreds of runs")
    return lines


def _print_steps(out: "Console", verdict: dict[str, Any]) -> None:
    out.print(
        f"{verdict['policy']}: {verdict['verdict']}: {verdict['reason']}",
        soft_wrap=True,
        markup=False,
    )
    for step in verdict["steps"]:
        text = f"  {step['name']:<17} {PASSED[step['passed']]:<10} {step['reason']}"
        out.print(text, soft_wrap=True, markup=False)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
