"""A trial's log judged: measured violations pair by pair, and windows beside random ones."""

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from slackwater.errors import InputError, RunLogError

if TYPE_CHECKING:
    from calibration.live import LiveScored
    from calibration.paired import Judged, RunOutcome
    from sidecar.trial.design import TrialDesign
    from sidecar.trial.record import Played, TrialLog

SCHEMA_VERSION = 1
DRAWS = 2000
MEASURED = "measured"
COUNTING: Literal["arriving"] = "arriving"


def judged(log: "TrialLog", design: "TrialDesign", claim: str | None) -> dict[str, Any]:
    """The document of a trial, its verdicts written to the log; without pairs it has none.

    Raises `InputError` for a log that cannot be read.
    """
    import numpy as np

    from calibration.paired import Asked, judge_pairs
    from calibration.simulate import CELL_S

    played = log.played()
    excess = log.excess(played) if played else {}
    notes: list[str] = []
    counted = played
    if design.count == "excess":
        counted = [one for one in played if one.run_id in excess]
        notes += [
            f"{one.run_id}: what its windows added cannot be told: too few requests met none, or "
            "no other run of the block is there; in no verdict"
            for one in played
            if one.run_id not in excess
        ]
    outcomes = outcomes_of(log, counted, CELL_S, excess if design.count == "excess" else None)
    rng = np.random.default_rng([design.seed, len(outcomes)])
    found: list[Judged] = []
    if _paired(counted):
        windows = _windows(log, design, counted, notes)
        least_gain = design.least_gain_percent / 100
        asked = Asked(
            claim,
            least_gain,
            design.run_s,
            CELL_S,
            _left(design, counted),
            design.count == "excess",
        )
        found = judge_pairs(outcomes, windows, asked, rng)
        try:
            log.judge([_row(log, design, one) for one in found])
        except RunLogError as error:
            notes.append(str(error))
    else:
        notes.append("no policy has a run beside its control yet: there is nothing to judge")
    if claim is None and len(design.policies) > 1:
        notes.append(
            f"no policy was named before the first run: verdicts are corrected for all of "
            f"{', '.join(design.policies)}"
        )
    return _document(log, design, claim, played, excess, found, notes)


def _left(design: "TrialDesign", played: "list[Played]") -> int:
    """How many of the planned runs are not there."""
    there = {(one.about.block, one.about.arm) for one in played}
    return sum((one.block, one.arm) not in there for one in design.planned())


def outcomes_of(
    log: "TrialLog",
    played: "list[Played]",
    cell_s: float,
    excess: dict[str, float] | None = None,
) -> "list[RunOutcome]":
    """What the gate takes of each run; `excess`, if given, in the place of all violations."""
    from calibration.paired import RunOutcome

    counts = _counts(log, cell_s) if played else {}
    return [
        RunOutcome(
            block=one.about.block,
            arm=one.about.arm,
            requests=one.requests,
            violations=one.violations if excess is None else excess[one.run_id],
            tokens=one.tokens,
            merges=one.merges,
            intended=None if one.about.scheduled_steps is None else len(one.about.scheduled_steps),
            counts=counts[one.run_id],
            place=one.about.place,
        )
        for one in played
    ]


def _counts(log: "TrialLog", cell_s: float) -> dict[str, tuple[int, ...]]:
    """Arrivals a cell, from the run's first arrival on, by run."""
    import numpy as np

    from slackwater.livequery import query

    arrivals: dict[str, list[int]] = {}
    sql = "SELECT run_id, arrival_us FROM requests ORDER BY run_id, arrival_us"
    for row in query(log.path, sql).to_pylist():
        arrivals.setdefault(row["run_id"], []).append(row["arrival_us"])
    return {
        run_id: tuple(np.bincount((np.array(us) - us[0]) // round(cell_s * 1e6)).tolist())
        for run_id, us in arrivals.items()
    }


def _paired(played: "list[Played]") -> bool:
    from sidecar.trial.design import control_of

    there = {(one.about.block, one.about.arm) for one in played}
    return any((block, control_of(arm)) in there for block, arm in there)


def _windows(
    log: "TrialLog", design: "TrialDesign", played: "list[Played]", notes: list[str]
) -> "dict[str, list[LiveScored]]":
    """The policies' own runs scored; a policy of which one cannot be is left out, and said."""
    from calibration.live import Asked, score
    from calibration.simulate import CELL_S
    from slackwater.cli.report_logs import ABOUT, read_run
    from slackwater.livequery import query

    about = {row["run_id"]: row for row in query(log.path, ABOUT).to_pylist()}
    found: dict[str, list[LiveScored]] = {}
    how = Asked(COUNTING, CELL_S, DRAWS, design.seed)
    for policy in design.policies:
        runs = [one for one in played if one.about.arm == policy]
        try:
            found[policy] = [
                score(read_run(log.path, about[one.run_id]).run, one.about.block, [], how)
                for one in runs
            ]
        except InputError as error:
            notes.append(f"{policy}: no envelope: {error}")
    return found


def _row(log: "TrialLog", design: "TrialDesign", one: "Judged") -> dict[str, Any]:
    """A row of `verdicts`."""
    verdict = one.verdict
    low, high = verdict.interval_pp or (None, None)
    return {
        "run_id": log.path.stem,
        "at_us": time.time_ns() // 1000,
        "policy": verdict.policy,
        "serving_model": MEASURED,
        "verdict": verdict.verdict,
        "runs": verdict.n,
        "gain": verdict.gain,
        "gain_pp": verdict.gain_pp,
        "gain_pp_low": low,
        "gain_pp_high": high,
        "p_value": verdict.p_value,
        "detail": json.dumps({**_verdict(one), "slo_s": design.slo_s, "count": design.count}),
    }


def _document(
    log: "TrialLog",
    design: "TrialDesign",
    claim: str | None,
    played: "list[Played]",
    excess: dict[str, float],
    found: "list[Judged]",
    notes: list[str],
) -> dict[str, Any]:
    import msgspec

    from slackwater import __version__

    about = log.about()
    return {
        "schema_version": SCHEMA_VERSION,
        "slackwater_version": __version__,
        "run_log": str(log.path),
        "design": msgspec.to_builtins(design),
        "claim": claim,
        "runs_planned": design.runs,
        "runs_played": len(played),
        "runs_failed": sum(status != "complete" for status, _ in about),
        "arms": _arms(design, played, excess),
        "verdicts": [_verdict(one) for one in found],
        "mismatches": _mismatches(played),
        "notes": notes,
    }


def _arms(
    design: "TrialDesign", played: "list[Played]", excess: dict[str, float]
) -> list[dict[str, Any]]:
    import numpy as np

    from sidecar.trial.design import control_of

    def mean(values: list[float]) -> float | None:
        return float(np.mean(values)) if values else None

    rows = []
    for policy in design.free:
        for arm in (policy, control_of(policy)) if policy in design.policies else (policy,):
            runs = [one for one in played if one.about.arm == arm]
            rows.append(
                {
                    "arm": arm,
                    "runs": len(runs),
                    "requests": sum(one.requests for one in runs),
                    "unanswered": sum(one.unanswered for one in runs),
                    "ended": _ended(runs),
                    "merges": mean([float(one.merges) for one in runs]),
                    "window_s": mean([o.window_s for o in runs if o.window_s is not None]),
                    "violations_pp": mean([one.violations_pp for one in runs]),
                    "excess_pp": mean(
                        [
                            100 * excess[one.run_id] / one.requests
                            for one in runs
                            if one.run_id in excess
                        ]
                    ),
                    "p95_s": mean([one.p95_s for one in runs if one.p95_s is not None]),
                    "lag_p95_s": mean([lag for o in runs if (lag := _lag_s(o)) is not None]),
                }
            )
    return rows


def _ended(runs: "list[Played]") -> dict[str, int]:
    """How the requests of these runs ended, by the client's account; they make `requests`."""
    total = Counter[str]()
    for one in runs:
        total.update(one.about.client.get("report", {}).get("ended", {}))
    return dict(total)


def _lag_s(one: "Played") -> float | None:
    found = one.about.client.get("lag", {}).get("p95_s")
    return None if found is None else float(found)


def _mismatches(played: "list[Played]") -> list[dict[str, Any]]:
    """Controls that did not make the merges that they were told to make."""
    return [
        {
            "run_id": one.run_id,
            "block": one.about.block,
            "arm": one.about.arm,
            "intended": len(one.about.scheduled_steps),
            "made": one.merges,
        }
        for one in played
        if one.about.scheduled_steps is not None and len(one.about.scheduled_steps) != one.merges
    ]


def _verdict(one: "Judged") -> dict[str, Any]:
    from dataclasses import asdict

    fields = asdict(one.verdict)
    return {
        **{name: fields[name] for name in fields if name not in {"tier", "capture"}},
        "rests_on": MEASURED,
        "blocks_of_other_budget": one.differing,
        "needed": None if one.needed is None else asdict(one.needed),
        "detectable_pp": one.detectable_pp,
    }
