"""The examples merge by command, against the commands that docs/attach.md names."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from attach_shell import Shell, end, run_pair

from slackwater.broker import free_port

pytestmark = pytest.mark.kafka
MERGED = re.compile(r"^step (\d+): (\S+), (\S+), weights (\w+)$", re.MULTILINE)
CORRIDOR = ("--min-gap-steps", "128", "--max-gap-steps", "512")


def merges_of_both(shell: Shell, stream: tuple[str, ...], *example: str) -> list[tuple[str, ...]]:
    """(step, merge_id, reason, digest) of the merges that the learners printed alike."""
    address = f"127.0.0.1:{free_port()}"
    shell.env |= {"KAFKA_BOOTSTRAP_SERVERS": address, "SLACKWATER_RUN_ID": "mine"}
    with (
        shell.part("broker", "--port", address.rpartition(":")[2]) as broker,
        shell.part(
            "stream", "--db", "run.duckdb", "--expect-learners", "2", *CORRIDOR, *stream
        ) as job,
        shell.part("replay", "--regime", "aperiodic", "--duration", "300") as replay,
    ):
        first, second = (MERGED.findall(out) for out in run_pair(shell, *example))
        end(replay)
        end(job)
        end(broker)
    assert first == second
    return first


def commanded(folder: Path) -> list[Any]:
    """The commanded merges that the run log says both learners finished alike."""
    with duckdb.connect(str(folder / "run.duckdb"), read_only=True) as log:
        return log.execute(
            "SELECT step, merge_id, reason FROM merge_windows WHERE reason <> 'h_max' "
            "AND learners_finished = 2 AND same_step AND same_digest ORDER BY step"
        ).fetchall()


def test_two_plain_learners_merge_at_the_commanded_steps_with_equal_weights(shell: Shell) -> None:
    periods = ("--policy", "fixed_h", "--set", "controller.fixed_steps=200")
    merged = merges_of_both(
        shell, periods, "attach_plain.py", "--steps", "1100", "--step-s", "0.005"
    )
    by_command = [(int(step), name, why) for step, name, why, _ in merged if why == "period_due"]
    assert by_command
    assert commanded(shell.folder) == by_command


@pytest.mark.slow
def test_two_torch_learners_merge_when_the_forecast_says_so(shell: Shell) -> None:
    merged = merges_of_both(shell, (), "attach_torch.py", "--steps", "2000")
    by_command = [(int(step), name, why) for step, name, why, _ in merged if why != "h_max"]
    assert {why for *_, why in by_command} == {"score_above"}
    assert commanded(shell.folder) == by_command
