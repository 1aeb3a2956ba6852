"""Switchback runs as their logs tell them: settled intervals, their coins, what is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.switchback import Intervals

RUNS = """
SELECT run_id, policy, status, created_us, settings::VARCHAR AS settings FROM runs
ORDER BY created_us
"""
KNOWN = "SELECT count(*) AS n FROM duckdb_views() WHERE view_name = 'switchback_intervals'"
INTERVALS = """
SELECT merge_group, interval_number, arm, policy_share, settled, began_us, window_end_us,
       {count} AS harm
FROM switchback_intervals WHERE run_id = {run} ORDER BY interval_number
"""
REQUESTS = """
SELECT count(*) AS n FROM stg_requests
WHERE run_id = {run} AND arrival_us >= {first_us} AND arrival_us < {until_us}
"""


class Coins(msgspec.Struct, frozen=True, kw_only=True):
    """What a switchback run's coins were tossed by, in the settings of its controller."""

    switchback: str
    switchback_share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    seed: int
    group: str


@dataclass(frozen=True, slots=True, eq=False)
class Coined:
    """One run and what may be judged of it.

    Attributes:
        run_id, policy, control: of the run; the policy without the word that it was mixed.
        intervals: those that are settled and have a window; then those that are not settled.
        waiting: intervals that are still open, or whose requests may not all have ended.
        untold: by arm, intervals that ended without a window; they have no harm to count.
        requests: that arrived from the first interval's begin to the last settled window's end.
    """

    run_id: str
    policy: str
    control: str
    intervals: "Intervals"
    waiting: int
    untold: dict[str, int]
    requests: int


def coined_runs(logs: Sequence[Path], count: str) -> list[Coined]:
    """The switchback runs of these logs; others in them are passed over.

    Raises `InputError` for a log without one, for runs of several policies, and for coins that are
    not those of the run's seed.
    """
    from slackwater.livequery import query

    found: list[Coined] = []
    for path in logs:
        here = [
            coined
            for about in query(path, RUNS).to_pylist()
            if (coined := _coined(path, about, count)) is not None
        ]
        if not here:
            msg = (
                f"{path}: no run of a switchback is in this log; slackwater stream "
                "--switchback POLICY makes one"
            )
            raise InputError(msg)
        found += here
    policies = sorted({(one.policy, one.control) for one in found})
    if len(policies) > 1:
        named = ", ".join(f"{policy} ({control})" for policy, control in policies)
        msg = f"these runs are of {named}; judge runs of one policy and one control together"
        raise InputError(msg)
    names = [one.run_id for one in found]
    for name in names:
        if names.count(name) > 1:
            msg = f"run {name} is there twice: its coins count once; name it once"
            raise InputError(msg)
    return found


def _coined(path: Path, about: dict[str, Any], count: str) -> Coined | None:
    from slackwater.cli.report_logs import settings_of
    from slackwater.livequery import query

    settings = settings_of(about, "stream", "controller")
    if not settings.get("switchback"):
        return None
    coins = _coins(path, about["run_id"], settings)
    if not query(path, KNOWN).to_pylist()[0]["n"]:
        return None
    run = "'" + about["run_id"].replace("'", "''") + "'"
    rows = query(path, INTERVALS.format(run=run, count=count)).to_pylist()
    _check_coins(path, about["run_id"], coins, rows)
    settled, waiting = _settled(rows, over=about["status"] != "running")
    told = [row for row in settled if row["harm"] is not None]
    return Coined(
        run_id=about["run_id"],
        policy=(about["policy"] or "none").removesuffix("+switchback"),
        control=coins.switchback,
        intervals=_intervals(told, rows[len(settled) :], coins.switchback_share),
        waiting=waiting,
        untold={
            arm: sum(row["harm"] is None and row["arm"] == arm for row in settled)
            for arm in ("policy", "random")
        },
        requests=_requests(path, run, rows, told),
    )


def _coins(path: Path, run_id: str, settings: dict[str, Any]) -> Coins:
    """What the coins were tossed by; raises `InputError`."""
    try:
        return msgspec.convert(settings, Coins)
    except msgspec.ValidationError as error:
        msg = (
            f"{path}: the settings of run {run_id} do not tell its coins: {error}; this log was "
            "changed, or made by another version; it is no evidence"
        )
        raise InputError(msg) from None


def _check_coins(path: Path, run_id: str, coins: Coins, rows: list[dict[str, Any]]) -> None:
    """Refuse a log whose arms are not what its seed tosses, or that has several groups."""
    from controller.switchback import coin_of, switchback_key

    groups = {row["merge_group"] for row in rows}
    if len(groups) > 1:
        msg = f"{path}: run {run_id} has several merge groups; one at a time can be judged"
        raise InputError(msg)
    key = switchback_key(coins.seed, run_id, coins.group)
    for row in rows:
        coin = coin_of(key, row["interval_number"]).random()
        if row["arm"] != ("policy" if coin < coins.switchback_share else "random"):
            msg = (
                f"{path}: interval {row['interval_number']} of run {run_id} was given to the "
                f"{row['arm']} arm, and seed {coins.seed} gives it to the other: this log "
                "was changed, or made by another version; it is no evidence"
            )
            raise InputError(msg)


def _settled(rows: list[dict[str, Any]], *, over: bool) -> tuple[list[dict[str, Any]], int]:
    """Intervals up to the last whose harm is final, in their order, and how many come after it.

    In a run that is over, what has no window at its end was cut off and is no interval.
    """
    last = max((i for i, row in enumerate(rows) if row["settled"]), default=-1)
    return rows[: last + 1], 0 if over else len(rows) - last - 1


def _intervals(
    told: list[dict[str, Any]], unsettled: list[dict[str, Any]], share: float
) -> "Intervals":
    import numpy as np

    from calibration.switchback import Intervals

    rows = [*told, *unsettled]
    harm = [*(row["harm"] for row in told), *(np.nan for _ in unsettled)]
    return Intervals(
        harm=np.array(harm, np.float64),
        by_policy=np.array([row["arm"] == "policy" for row in rows], np.bool_),
        share=share,
        began_us=np.array([row["began_us"] for row in rows], np.int64),
    )


def _requests(path: Path, run: str, rows: list[dict[str, Any]], told: list[dict[str, Any]]) -> int:
    from slackwater.livequery import query

    if not told:
        return 0
    first_us, until_us = rows[0]["began_us"], told[-1]["window_end_us"]
    text = REQUESTS.format(run=run, first_us=first_us, until_us=until_us)
    return int(query(path, text).to_pylist()[0]["n"])
