"""The document of live runs: of one form with an evaluation's, so that one page shows both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.errors import InputError
from slackwater.printable import printable

if TYPE_CHECKING:
    from calibration.live import LiveRun, LiveScored
    from calibration.verdict import Verdict
    from slackwater.cli.report_logs import Logged

LOAD = "run logs"
COUNTED = {
    "arriving": (
        "a window harms the requests that arrive in it. Those in service as it opens are not "
        "counted: measured latencies hold the merges' own harm, which would favour the policy"
    ),
    "in_service": (
        "a window harms the requests that arrive in it or are in service as it opens. Measured "
        "latencies hold the merges' own harm: a random window just after a real one looks "
        "costlier than it was, which favours the policy"
    ),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asked for; the fields are the command's options."""

    claim: str | None
    count: str
    draws: int
    seed: int
    least_gain_percent: float


def judge_logs(logs: Sequence[Path], asked: Options) -> tuple[dict[str, Any], str]:
    """The document of all runs in these logs, and the answer in one sentence.

    Raises `InputError` for logs without merges and for a claim of a policy that is not there.
    """
    import numpy as np

    from calibration.live import Asked, live_verdicts, score
    from calibration.live.verdict import arm_of
    from calibration.report import answer
    from calibration.simulate import CELL_S
    from slackwater.cli.report_logs import read_log

    logged = [run for path in logs for run in read_log(path)]
    unmerged = _controls(logged)
    merged = [one.run for one in logged if one.run.merges]
    _check(logged, merged, asked.claim)
    how = Asked(asked.count, CELL_S, asked.draws, asked.seed)  # type: ignore[arg-type]
    scored = [score(run, i, arm_of(run, unmerged), how) for i, run in enumerate(merged)]
    rng = np.random.default_rng([asked.seed, len(scored)])
    least = asked.least_gain_percent / 100
    found = live_verdicts(scored, unmerged, asked.claim, CELL_S, rng, least_gain=least)
    fields = _document(logs, logged, scored, found, asked)
    return fields, answer(fields)


def _controls(logged: "Sequence[Logged]") -> "list[LiveRun]":
    """The runs in which nobody ever merged."""
    return [one.run for one in logged if not one.run.merges and not one.run.late_merges]


def _check(logged: "Sequence[Logged]", merged: "Sequence[LiveRun]", claim: str | None) -> None:
    names = [one.run.name for one in logged]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        msg = f"run {repeated[0]} is in two of the logs; a run that repeats is no evidence"
        raise InputError(msg)
    if not merged:
        msg = (
            f"no merge has begun during the traffic of {', '.join(names)}; there is no placement "
            "to judge yet"
        )
        raise InputError(msg)
    policies = sorted({run.policy for run in merged})
    if claim is not None and claim not in policies:
        msg = f"--claim {claim} is not a policy of these runs: {', '.join(policies)}"
        raise InputError(msg)


def _document(
    logs: Sequence[Path],
    logged: "Sequence[Logged]",
    scored: "Sequence[LiveScored]",
    found: "Sequence[Verdict]",
    asked: Options,
) -> dict[str, Any]:
    from calibration.report import envelope_picture
    from slackwater.cli.evaluate_document import SCHEMA_VERSION, versions
    from slackwater.cli.evaluate_report import command

    by_policy: dict[str, list[LiveScored]] = {}
    for one in scored:
        by_policy.setdefault(one.run.policy, []).append(one)
    return {
        "schema_version": SCHEMA_VERSION,
        "configuration": _configuration(logs, logged, scored, asked),
        "versions": versions(),
        "loads": [_load(one) for one in logged],
        "runs": [{"load": LOAD, **asdict(one.run)} for one in scored],
        "verdicts": [_verdict(verdict) for verdict in found],
        "notes": _notes(logged, scored, asked),
        "command": command(),
        "traffic": [_traffic(one) for one in scored],
        "envelopes": [
            envelope_picture(
                LOAD,
                policy,
                [one.random_pp for one in runs],
                [100 * one.run.cost / one.run.requests for one in runs],
            )
            for policy, runs in by_policy.items()
        ],
        "live": [
            {"run": one.run.name, "policy": one.run.policy, **row}
            for one in logged
            for row in one.slo
        ],
    }


def _configuration(
    logs: Sequence[Path],
    logged: "Sequence[Logged]",
    scored: "Sequence[LiveScored]",
    asked: Options,
) -> dict[str, Any]:
    import msgspec

    from calibration.simulate import CELL_S

    def decoded(about: dict[str, Any], field: str) -> Any:
        return msgspec.json.decode(about[field]) if about[field] else None

    return {
        **asdict(asked),
        "logs": [printable(str(path)) for path in logs],
        "cell_s": CELL_S,
        "window_s": None,
        "model": {"name": "overlap", "counting": asked.count},
        "corridors_cells": {one.run.run: asdict(one.placed.corridor) for one in scored},
        "runs": {
            one.run.name: {
                **{name: one.about[name] for name in ("status", "created_us", "finished_us")},
                "settings": decoded(one.about, "settings"),
                "versions": decoded(one.about, "versions"),
            }
            for one in logged
        },
    }


def _load(one: "Logged") -> dict[str, Any]:
    return {
        "load": LOAD,
        "trace": f"{one.run.trace} ({one.run.name})",
        "format": "run log",
        "sha256": one.about["trace_sha256"],
        "seed": one.about["seed"],
        "requests": len(one.run.arrival_s),
        "duration_s": one.run.span_s,
        "skipped": 0,
        "first_cells": [0],
    }


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    fields = asdict(verdict)
    return {"load": LOAD, **fields, "interval": fields["interval_pp"]}


def _traffic(one: "LiveScored") -> dict[str, Any]:
    import numpy as np

    from calibration.report import traffic_picture
    from calibration.simulate import CELL_S

    sidecars = len(np.unique(one.live.sidecar))
    picture = traffic_picture(LOAD, one.run.run, one.counts, CELL_S, sidecars)
    return {**picture, "window_s": one.placed.corridor.window_cells * CELL_S}


def _notes(logged: "Sequence[Logged]", scored: "Sequence[LiveScored]", asked: Options) -> list[str]:
    from calibration.live.verdict import arm_of

    notes = [COUNTED[asked.count]]
    notes += [note for one in scored for note in one.placed.notes]
    unmerged = _controls(logged)
    notes += [
        f"{one.run.run}: no run without merges on its load ({one.live.load}) is among the logs, "
        "so neither the load match nor the excess violation is known; give one"
        for one in scored
        if not arm_of(one.live, unmerged)
    ]
    notes += [f"{run.name}: no merge was made; it is a control" for run in unmerged]
    notes += [
        f"{one.run.name}: its merges all began after the traffic had ended; it is left out"
        for one in logged
        if one.run.late_merges and not one.run.merges
    ]
    notes += [
        f"{one.run.name}: {one.about['status']}, so what was in service at its end is not in it"
        for one in logged
        if one.about["status"] != "complete"
    ]
    return notes
