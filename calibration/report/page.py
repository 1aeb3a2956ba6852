"""The page: everything that is drawn, handed to one template that escapes all it is given."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from calibration.report.axis import Axis
from calibration.report.bearers import Bearers, bearers, most_burdened
from calibration.report.envelopes import Envelope, envelopes
from calibration.report.forest import Gain, forest
from calibration.report.headline import Headline, headline, loads_of
from calibration.report.rows import Fields, Policy, policies_of, shown_first
from calibration.report.tiers import Tier, ladder, needed
from calibration.report.timeline import SHOWN_RUNS, Timeline, timelines
from slackwater.printable import printable

TEMPLATES = "templates"
UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Part:
    """All that the page says of one load; `shown` is the policy that it is about."""

    number: int
    load: str
    shown: Policy
    policies: tuple[Policy, ...]
    headline: Headline
    envelopes: tuple[Envelope, ...]
    timelines: tuple[Timeline, ...]
    runs: int
    near: Axis | None
    gains: tuple[Gain, ...]
    ladder: tuple[Tier, ...]
    needed: tuple[str, ...]
    bearers: tuple[Bearers, ...]


def render(document: Fields) -> str:
    """The whole page for a document with `traffic` and `envelopes`.

    Args:
        document: of `slackwater evaluate --json` or of run logs, with a picture of each run's
            traffic (`traffic_picture`), one of each policy's envelope (`envelope_picture`) and the
            command that made it.
    """
    parts = [_part(document, number, load) for number, load in enumerate(loads_of(document))]
    page = _environment().get_template("page.html.j2")
    return page.render(document=document, parts=parts, shown_runs=SHOWN_RUNS)


def answer(document: Fields) -> str:
    """The page's first sentence, for a terminal; of several loads the first one's."""
    return _part(document, 0, loads_of(document)[0]).headline.sentence


def _part(document: Fields, number: int, load: str) -> Part:
    policies = policies_of(document, load)
    shown = shown_first(policies, document["configuration"].get("claim"))
    ordered = (shown, *(policy for policy in policies if policy is not shown))
    pictures = [one for one in document["envelopes"] if one["load"] == load]
    drawn = envelopes(ordered, pictures)
    return Part(
        number=number,
        load=load,
        shown=shown,
        policies=ordered,
        headline=headline(document, load, shown),
        envelopes=drawn,
        near=drawn[0].near() if drawn else None,
        timelines=timelines(ordered, document["configuration"]["window_s"]),
        runs=len({run["run"] for policy in policies for run in policy.runs}),
        gains=forest(ordered),
        ladder=ladder(shown.verdict),
        needed=needed(shown.verdict),
        bearers=bearers(shown),
    )


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("calibration.report", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.globals["most_burdened"] = most_burdened
    found.filters["figure"] = figure
    found.filters["percent"] = percent
    found.filters["json"] = _json
    found.filters["clock"] = clock
    return found


def _shown(value: Any) -> Any:
    """Names come from traces and logs: what steers a terminal or a page is shown as an escape."""
    return printable(value, keep="\n\t") if type(value) is str else value


def figure(value: Any) -> str:
    """A figure for people: unknown is a dash, numbers have four digits at most."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def percent(share: float | None) -> str:
    """A share in percent; unknown is a dash."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as `m:ss.s`, minutes and seconds of a run."""
    minutes, rest = divmod(round(10 * seconds), 600)
    return f"{minutes}:{rest / 10:04.1f}"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
