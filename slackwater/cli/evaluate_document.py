"""The evaluation for programs: every figure, and all that repeats it, as plain values for JSON."""

import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater import __version__
from slackwater.cli.outputs import write_output
from slackwater.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.verdict import Verdict
    from slackwater.cli.evaluate_figures import Figures
    from slackwater.cli.evaluate_job import Evaluation, Group
    from slackwater.cli.evaluate_sources import Traffic

SCHEMA_VERSION = 1


def document(evaluation: "Evaluation", groups: "Sequence[Group]") -> dict[str, Any]:
    """Configuration, versions, loads, runs and verdicts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "configuration": configuration(evaluation),
        "versions": versions(),
        "loads": [_load(group, traffic) for group in groups for traffic in group.traffic],
        "runs": [
            {"load": group.name, **asdict(run)}
            for group in groups
            for one in group.scored
            for run in one.runs
        ],
        "verdicts": [_verdict(group, verdict) for group in groups for verdict in group.verdicts],
        "bounds": [
            {"load": group.name, **asdict(price)} for group in groups for price in group.prices
        ],
        "notes": [note for group in groups for note in group.notes],
    }


def write(path: Path, fields: dict[str, Any]) -> None:
    """Write the document as indented JSON; raises `SlackwaterError` when that fails."""
    import msgspec

    encoded = msgspec.json.encode(fields, enc_hook=plain)
    write_output("--json", path, msgspec.json.format(encoded, indent=2) + b"\n")


def plain(value: object) -> object:
    """What numpy holds as what JSON does; the encoder's hook for values it does not know."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    msg = f"{type(value)} has no JSON form"
    raise TypeError(msg)


def configuration(evaluation: "Evaluation") -> dict[str, Any]:
    """All that was asked, and all that follows from it."""
    import msgspec

    job, protocol = evaluation.job, evaluation.protocol
    figures = evaluation.ground.figures
    fitting = protocol.corridor.budgets()
    return {
        **asdict(job),
        "traces": [printable(str(path)) for path in job.traces],
        "policies": [entrant.name for entrant in evaluation.entrants],
        "settings": [tuned.record() for tuned in evaluation.tuned.values()],
        "cell_s": protocol.cell_s,
        "window_s": figures.window_s,
        **figures_of(figures),
        "controller": msgspec.to_builtins(evaluation.controller),
        "smallest_budget": fitting[0],
        "largest_budget": fitting[-1],
    }


def figures_of(figures: "Figures") -> dict[str, Any]:
    """The serving model, its profile, and every figure used with where it came from."""
    import msgspec

    named = None
    if figures.profile is not None:
        effect = msgspec.to_builtins(figures.effect)
        named = {"name": figures.profile, "sha256": figures.profile_sha256, "effect": effect}
    return {
        "slo_s": figures.slo_s,
        "model": {"name": figures.model.name, **asdict(figures.model)},  # type: ignore[call-overload]
        "profile": named,
        "figures": [asdict(figure) for figure in figures.used],
    }


def _load(group: "Group", traffic: "Traffic") -> dict[str, Any]:
    return {
        "load": group.name,
        "trace": traffic.source.name,
        "format": traffic.format,
        "sha256": traffic.sha256,
        "seed": traffic.seed,
        "requests": len(traffic.source.requests),
        "duration_s": traffic.duration_s,
        "skipped": traffic.skipped,
        "first_cells": list(traffic.source.first_cells),
    }


def _verdict(group: "Group", verdict: "Verdict") -> dict[str, Any]:
    fields = asdict(verdict)
    fields["interval"] = fields.pop("interval_pp")
    return {"load": group.name, **fields}


def versions() -> dict[str, str]:
    """What a result depends on beside its configuration."""
    from importlib.metadata import version

    return {
        "slackwater": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }
