"""The plan for people: runs that a gain needs, runs that there are, and what those could show."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from slackwater.cli.plan_job import Length, PlanJob, Planned

LEGEND = (
    "needed: independent runs that show the gain with the power asked for; held: runs of that "
    "length in this traffic, of a regime as many as --runs; shows: the least gain that the held "
    "runs show with that power, none under 6."
)


def print_plan(planned: "Planned", job: "PlanJob", console: "Console") -> None:
    """The table, and what it takes to be true."""
    console.print(_table(planned, job))
    console.print(LEGEND, highlight=False, markup=False)
    for line in notes(planned, job):
        console.print(f"note: {line}", highlight=False, markup=False)


def notes(planned: "Planned", job: "PlanJob") -> list[str]:
    """What a person must know: enough runs or not, and whether they are independent."""
    first = planned.lengths[0]
    told = [_pilot(planned, job), _worth(planned, job), _enough(first, job)]
    if planned.cut:
        told.append(
            f"{', '.join(planned.cut)}: segments of one trace are no independent runs; what they "
            "show holds for this trace alone, and a claim beyond it needs runs of other traffic"
        )
    told.append("a longer run is taken as the mean of independent ones: too hopeful under drift")
    return told


def _pilot(planned: "Planned", job: "PlanJob") -> str:
    noise = f"{planned.pilot} pilot runs, standard deviation {planned.sd_pp:.2f} pp a run"
    if planned.mean_gain_pp is None:
        return f"{noise}, of random schedules about their mean; a policy's may vary more: --policy"
    return f"{noise}, of {job.policy}, whose mean gain there is {planned.mean_gain_pp:.2f} pp"


def _worth(planned: "Planned", job: "PlanJob") -> str:
    least = (
        f"a gain of under {planned.least_pp:.2f} pp, {job.least_gain_percent:g}% of the "
        f"{planned.random_pp:.2f} pp that matched random harms, is worth no claim (--least-gain)"
    )
    return f"{least}: {job.gain_pp:g} pp is less" if job.gain_pp < planned.least_pp else least


def _enough(first: "Length", job: "PlanJob") -> str:
    run, asked = f"runs of {first.plan.run_s:g} s", f"{job.gain_pp:g} pp"
    there = f"{first.held} {run} are held"
    if first.plan.runs is None:
        return f"{there}, and {job.max_runs} are too few to show {asked} (power {_power(first)})"
    if first.held >= first.plan.runs:
        return f"{there}, which are enough to show {asked}: {first.plan.runs} are needed"
    return f"{there}, which are too few to show {asked}: {first.plan.runs} are needed"


def _power(length: "Length") -> str:
    return f"{length.plan.power:.2f}"


def _table(planned: "Planned", job: "PlanJob") -> "Table":
    from rich.table import Table

    table = Table(
        title=f"a gain of {job.gain_pp:g} pp of requests, power {job.power:g}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for name in ("run", "needed", "in all", "power", "held", "shows"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in planned.lengths:
        plan = one.plan
        table.add_row(
            f"{plan.run_s:g} s",
            f"over {job.max_runs}" if plan.runs is None else str(plan.runs),
            "-" if plan.total_s is None else f"{plan.total_s / 3600:.1f} h",
            _power(one),
            str(one.held),
            "-" if one.detectable_pp is None else f"{one.detectable_pp:.2f} pp",
        )
    return table
