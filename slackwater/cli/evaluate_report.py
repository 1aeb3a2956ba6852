"""`slackwater evaluate --report`: the evaluation's document with its pictures, as one page."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.cli.outputs import write_output
from slackwater.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.cli.evaluate_job import Evaluation, Group


def write_report(path: Path, evaluation: "Evaluation", groups: "Sequence[Group]") -> None:
    """Write the page of an evaluation; raises `SlackwaterError` when that fails."""
    from slackwater.cli.evaluate_document import document

    fields = document(evaluation, groups)
    pictures = [_pictures(group, evaluation.protocol.cell_s) for group in groups]
    write_page(
        "--report",
        path,
        {
            **fields,
            "command": command(),
            "traffic": [one for traffic, _ in pictures for one in traffic],
            "envelopes": [one for _, drawn in pictures for one in drawn],
        },
    )


def write_page(option: str, path: Path, fields: dict[str, Any]) -> None:
    """Render the page and write it; raises `SlackwaterError` when it cannot be written."""
    from calibration.report import render

    write_output(option, path, render(fields).encode())


def command() -> str:
    """The command line of this process, as a shell takes it."""
    return printable(shlex.join(["slackwater", *sys.argv[1:]]))


def _pictures(group: "Group", cell_s: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Each run's traffic, and each policy's envelope over the runs."""
    from calibration.report import envelope_picture, traffic_picture
    from slackwater.cli.evaluate_output import runs_of

    sidecars = {one.source.name: _sidecars(one.source.requests.sidecar) for one in group.traffic}
    traffic = [
        traffic_picture(group.name, run.run, one.counts, cell_s, sidecars[run.trace])
        for one in group.scored
        for run in one.runs[:1]
    ]
    envelopes = [
        envelope_picture(
            group.name,
            policy,
            [one.random_pp[policy] for one in group.scored],
            [100 * run.cost / run.requests for run in runs_of(policy, group.scored)],
        )
        for policy in group.scored[0].random_pp
    ]
    return traffic, envelopes


def _sidecars(labels: Any) -> int:
    return 1 if labels is None else len(set(labels.tolist()))
