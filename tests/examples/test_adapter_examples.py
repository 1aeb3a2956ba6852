"""The examples of the adapters: two processes beside the real library, merging through Kafka."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from attach_shell import ROOT, Shell, end, run_pair

from slackwater.broker import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.adapters, pytest.mark.timeout(900)]
# Importing these libraries alone takes a busy machine a minute.
LIBRARY_PATIENCE_S = 600.0
COMMANDED = ("--policy", "fixed_h", "--set", "controller.fixed_steps=200")
EXAMPLES = ["attach_torchft.py", "attach_huggingface.py", "attach_lightning.py"]
MERGES = """
    SELECT step, reason, digests FROM (
        SELECT max(step) AS step, any_value(reason) AS reason, count(*) AS learners,
            count(DISTINCT digest) AS digests, min(bytes_exchanged) AS bytes, min(seconds) AS s
        FROM merges WHERE type = 'finished' GROUP BY merge_id)
    WHERE learners = 2 AND bytes > 0 AND s > 0 ORDER BY step
"""


@contextlib.contextmanager
def lighthouse(shell: Shell) -> Iterator[None]:
    """torchft's own server, on loopback."""
    port = free_port()
    command = [Path(sys.executable).with_name("torchft_lighthouse"), "--min_replicas", "2"]
    command += ["--bind", f"127.0.0.1:{port}", "--join_timeout_ms", "2000"]
    with (shell.folder / "lighthouse.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        shell.env["TORCHFT_LIGHTHOUSE"] = f"http://127.0.0.1:{port}"
        try:
            yield
        finally:
            process.kill()
            process.wait()


def merges_of_both(shell: Shell, stream: tuple[str, ...], *example: str) -> list[Any]:
    """(last step, reason, digests) of each merge that the log says both learners finished."""
    address = f"127.0.0.1:{free_port()}"
    shell.env |= {"KAFKA_BOOTSTRAP_SERVERS": address, "SLACKWATER_RUN_ID": "mine"}
    with (
        lighthouse(shell),
        shell.part("broker", "--port", address.rpartition(":")[2]) as broker,
        shell.part("stream", "--db", "run.duckdb", "--expect-learners", "2", *stream) as job,
    ):
        printed = run_pair(shell, *example, patience_s=LIBRARY_PATIENCE_S)
        end(job)
        end(broker)
    assert all("errors=0" in one for one in printed), printed
    with duckdb.connect(str(shell.folder / "run.duckdb"), read_only=True) as log:
        return log.execute(MERGES).fetchall()


@pytest.mark.parametrize("example", EXAMPLES)
def test_both_merge_on_command_into_equal_weights(shell: Shell, example: str) -> None:
    merged = merges_of_both(shell, COMMANDED, example, "--steps", "500", "--step-s", "0.03")
    assert merged
    assert all(digests == 1 for *_, digests in merged)
    assert "period_due" in {reason for _, reason, _ in merged}


@pytest.mark.parametrize("example", EXAMPLES)
def test_both_merge_at_h_max_when_no_policy_has_asked(shell: Shell, example: str) -> None:
    merged = merges_of_both(shell, (), example, "--steps", "540", "--step-s", "0")
    ((step, reason, digests),) = merged
    # Learners that count unequal steps merge at one moment, before any of them is at H_max.
    assert step <= 512
    assert (reason, digests) == ("h_max", 1)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_attachment_is_at_most_ten_lines(example: str) -> None:
    text = (ROOT / "examples" / example).read_text()
    ours = [line for line in text.splitlines() if line.endswith("  # attach")]
    assert 0 < len(ours) <= 10
