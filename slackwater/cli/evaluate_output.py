"""The evaluation for people: one table a load, what may be claimed first."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slackwater.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table

    from calibration.experiment import Scored
    from calibration.fairness import Bearer
    from calibration.results import Run
    from calibration.verdict import Verdict
    from slackwater.cli.evaluate_job import Group
    from slackwater.cli.evaluate_sources import Traffic

UNKNOWN = "-"
LEGEND = (
    "Means over the runs. K: merges; harm: requests that the policy's windows touch, of the run's; "
    "random: the same for random schedules with as many merges; gain: how far below; ceil: what an "
    "oracle gains that knows the rate alone; oracle: share of the best schedule's gain; rank: "
    "random schedules whose mean is less; p: two-sided, corrected for all policies but one that "
    "was claimed. A request counts in each window that touches it."
)
EVEN_BURDEN = 1.05
MANY = 100
COLOURS = {"placement gain": "green", "budget only": "yellow"}


def print_group(group: "Group", claim: str | None, console: "Console") -> None:
    """What may be claimed, the table of policies, and what to know about the runs."""
    told = [v for v in group.verdicts if claim is None or v.policy == claim]
    for verdict in told if claim else []:
        console.print(sentence(group.name, verdict), markup=False)
    console.print(table_of(group))
    bound = bound_line(group)
    lines = [*([bound] if bound else []), *burden_lines(group), *price_lines(group), LEGEND]
    for line in (*lines, *(f"note: {note}" for note in group.notes)):
        console.print(line, highlight=False, markup=False)


def print_reading(traces: "Sequence[Traffic]", console: "Console") -> None:
    """What a person should know about how the traces were read."""
    for note in (note for traffic in traces for note in traffic.notes):
        console.print(f"note: {note}", highlight=False, markup=False)


def sentence(load: str, verdict: "Verdict") -> str:
    """The claimed policy's verdict in one sentence."""
    if verdict.verdict != "placement gain":
        return f"{load}: {verdict.policy}: {verdict.verdict}: {verdict.reason}"
    return (
        f"{load}: {verdict.policy}: placement gain of {verdict.gain_pp:.2f} percentage points of "
        f"requests over matched random ({_interval(verdict)}, p = {verdict.p_value:.3g}, "
        f"n = {verdict.n}), for the {verdict.tier}"
    )


def table_of(group: "Group") -> "Table":
    """One row a policy: means over the runs, and the verdict.

    `K` is the budget; `harm` and `random` are requests in windows, in % of all requests: the
    policy's, and matched random schedules'. `gain` is their difference in % of `random`, `ceil`
    the predictable ceiling in the same; `oracle` is how much of the exact oracle's gain `gain`
    is; `rank` is the % of random schedules whose mean over the runs is lower.
    """
    from rich.table import Table

    requests = sum(one.runs[0].requests for one in group.scored)
    table = Table(
        title=f"{group.name}: {len(group.scored)} runs, {requests:,} requests; figures in %",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("policy", no_wrap=True)
    for name in ("K", "harm", "random", "gain", "ceil", "oracle", "rank", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for verdict in group.verdicts:
        drawn = [one.random_pp[verdict.policy] for one in group.scored]
        table.add_row(*_row(verdict, runs_of(verdict.policy, group.scored), drawn))
    return table


def runs_of(policy: str, scored: "Sequence[Scored]") -> "list[Run]":
    """One policy's runs."""
    return [run for one in scored for run in one.runs if run.policy == policy]


def _row(verdict: "Verdict", runs: "list[Run]", drawn: "list[NDArray[np.float64]]") -> list[str]:
    from calibration.gate import rank_of

    colour = COLOURS.get(verdict.verdict, "default")
    return [
        verdict.policy,
        f"{_mean([run.budget for run in runs]):.1f}",
        f"{_mean([100 * run.cost / run.requests for run in runs]):.1f}",
        f"{_mean([100 * run.random_mean / run.requests for run in runs]):.1f}",
        _percent(verdict.gain),
        _percent(ceiling_of(runs)),
        _percent(verdict.capture),
        f"{rank_of([100 * run.cost / run.requests for run in runs], drawn):.0f}",
        f"{verdict.p_value:.2g}",
        f"[{colour}]{verdict.verdict}[/]",
    ]


def ceiling_of(runs: "list[Run]") -> float | None:
    """The ceiling of all runs together: each one's share of what matched random costs in it."""
    known = [(run.ceiling, run.random_mean) for run in runs if run.ceiling is not None]
    paid = sum(mean for _, mean in known)
    return sum(ceiling * mean for ceiling, mean in known) / paid if paid > 0 else None


def bound_line(group: "Group") -> str | None:
    """How much of the 2Ke bound each policy used up, means over runs; None where unknown."""
    told = []
    for verdict in group.verdicts:
        runs = runs_of(verdict.policy, group.scored)
        shares = [100 * run.bound_share for run in runs if run.bound_share is not None]
        if shares:
            told.append(f"{verdict.policy} {_mean(shares):.0f}")
    return f"above the best schedule, in % of 2Ke: {', '.join(told)}" if told else None


def burden_lines(group: "Group") -> Iterator[str]:
    """Who bears most harm for its requests under each policy, the runs put together."""
    from calibration.results import worst_sidecar, worst_tenant

    for kind, worst in (("sidecar", worst_sidecar), ("tenant", worst_tenant)):
        found = [(v.policy, worst(runs_of(v.policy, group.scored))) for v in group.verdicts]
        known = [(policy, bearer) for policy, bearer in found if bearer is not None]
        if known:
            yield f"worst {kind}'s share of harm over its share of requests: {_worst(known)}"


def _worst(known: "list[tuple[str, Bearer]]") -> str:
    """Each policy's; the largest alone where all are close to what is due."""
    policy, largest = max(known, key=lambda pair: pair[1].burden or 0.0)
    if (largest.burden or 0.0) < EVEN_BURDEN:
        return f"{_burden(largest)} at most, under {policy}"
    return ", ".join(f"{policy} {_burden(bearer)}" for policy, bearer in known)


def price_lines(group: "Group") -> Iterator[str]:
    """What a bound on the worst sidecar's burden cost each policy, and what it did to that."""
    for price in group.prices:
        share = "" if price.price_share is None else f", {_percent(price.price_share)}% of it"
        interval = "no interval"
        if price.price_interval_pp is not None:
            interval = "95% interval {:.2f} to {:.2f}".format(*price.price_interval_pp)
        worst = [
            UNKNOWN if bearer is None else _burden(bearer)
            for bearer in (price.worst, price.bounded_worst)
        ]
        missed = ", above the bound, which forced windows may break" if price.exceeded else ""
        yield (
            f"bound {price.max_burden:g} on {price.policy}: gain {price.gain_pp:.2f} to "
            f"{price.bounded_gain_pp:.2f} pp, so it costs {price.price_pp:.2f} pp{share} "
            f"({interval}); harm {price.harmed_pp:.1f} to {price.bounded_harmed_pp:.1f} % of "
            f"requests, merges {price.budget:.1f} to {price.bounded_budget:.1f}; worst burden "
            f"{worst[0]} to {worst[1]}{missed}"
        )


def _burden(bearer: "Bearer") -> str:
    return f"{bearer.burden:.2f} ({printable(bearer.name)})"


def _mean(values: "list[float]") -> float:
    return sum(values) / len(values)


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}"


def _interval(verdict: "Verdict") -> str:
    if verdict.interval_pp is None:
        return "no interval"
    low, high = verdict.interval_pp
    return f"95% interval {low:.2f} to {high:.2f}"


@contextlib.contextmanager
def progress(total: int, name: str = "runs") -> Iterator[Callable[[], None]]:
    """A bar on stderr, when a person looks at it; else one line where there is much to wait for."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if total >= MANY and not console.is_terminal:
        console.print(f"slackwater: {total:,} {name} to go", highlight=False)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.advance(task)
