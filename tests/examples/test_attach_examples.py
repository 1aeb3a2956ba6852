"""The examples merge by command, against the commands that docs/attach.md names."""

import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from attach_shell import ROOT, Shell, end, run_pair

from slackwater.broker import free_port

pytestmark = pytest.mark.kafka
# Unbuffered, a text and its newline are two writes: another learner's text may come between.
MERGED = re.compile(r"step (\d+): (\S+), (\S+), weights ([0-9a-f]+)")
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


def commanded(path: Path) -> list[Any]:
    """The commanded merges that the run log says both learners finished alike."""
    with duckdb.connect(str(path), read_only=True) as log:
        return log.execute(
            "SELECT step, merge_id, reason FROM merge_windows WHERE reason <> 'h_max' "
            "AND learners_finished = 2 AND same_step IS NOT FALSE AND same_digest ORDER BY step"
        ).fetchall()


@pytest.mark.slow
def test_two_plain_learners_merge_at_the_commanded_steps_with_equal_weights(shell: Shell) -> None:
    periods = ("--policy", "fixed_h", "--set", "controller.fixed_steps=200")
    merged = merges_of_both(
        shell, periods, "attach_plain.py", "--steps", "1100", "--step-s", "0.005"
    )
    by_command = [(int(step), name, why) for step, name, why, _ in merged if why == "period_due"]
    assert by_command
    assert commanded(shell.folder / "run.duckdb") == by_command


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_loop_wrapped_by_diloco_merges_at_the_commanded_steps(shell: Shell) -> None:
    periods = ("--policy", "fixed_h", "--set", "controller.fixed_steps=200")
    example = ("diloco_torch.py", "--steps", "900", "--step-s", "0.005")
    merges_of_both(shell, periods, *example)
    found = commanded(shell.folder / "run.duckdb")
    assert found
    assert {why for _, _, why in found} == {"period_due"}
    with duckdb.connect(str(shell.folder / "run.duckdb"), read_only=True) as log:
        sizes = log.execute(
            "SELECT DISTINCT bytes_exchanged, parameters FROM merges WHERE type = 'finished'"
        ).fetchall()
    # 64 * 128 + 128 + 128 + 1 parameters: a byte each, and four for each 256.
    assert sizes == [(8449 + 4 * 34, 8449)]
    for name in ("learner-0", "learner-1"):
        assert (shell.folder / f"{name}.safetensors").stat().st_size > 8 * 8449


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_as_it_stands_leads_to_a_merge_that_the_forecast_chose(shell: Shell) -> None:
    page = (ROOT / "docs" / "attach.md").read_text()
    script = "".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for learner in ("attach_torch.py 0", "attach_torch.py 1"):
        assert learner in script
        script = script.replace(learner, f"{learner} --steps 2000")
    (shell.folder / "examples").symlink_to(ROOT / "examples")
    shell.env["PATH"] = f"{Path(sys.executable).parent}:{shell.env['PATH']}"
    shell.env["MASTER_PORT"] = str(free_port())
    done = shell.run_script(script.replace("9092", str(free_port())))
    assert done.returncode == 0, done.stderr
    merged = set(MERGED.findall(done.stdout))
    by_command = sorted((int(n), name, why) for n, name, why, _ in merged if why != "h_max")
    assert by_command
    assert commanded(shell.folder / "runs" / "first-try.duckdb") == by_command
