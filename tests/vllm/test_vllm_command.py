"""`slackwater vllm`: a real server in the foreground; refusals without one."""

import json
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.app import app

SLACKWATER = [sys.executable, "-m", "slackwater"]


def test_without_vllm_it_says_how_to_have_one(tmp_path: Path) -> None:
    given = ["vllm", "--vllm-python", str(tmp_path / "python"), "--log", str(tmp_path / "log")]
    found = subprocess.run([*SLACKWATER, *given], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "`make vllm` in a checkout installs one" in found.stderr


def test_a_server_that_ends_as_it_starts_shows_its_last_words(tmp_path: Path) -> None:
    ill = tmp_path / "python"
    ill.write_text("#!/bin/sh\necho no such instruction >&2\nexit 4\n")
    ill.chmod(0o755)
    given = ["vllm", "--vllm-python", str(ill), "--log", str(tmp_path / "log")]
    found = CliRunner().invoke(app, given)
    assert found.exit_code != 0
    assert "no such instruction" in str(found.exception)


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_it_answers_what_it_says_to_type_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SLACKWATER, "vllm", "--log", str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    watch = threading.Timer(500, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("vLLM answers")
        typed = shlex.split(process.stdout.readline())
        assert typed[0] == "slackwater"
        load = subprocess.run(
            [*SLACKWATER, *typed[1:], "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert load.returncode == 0, load.stderr
        report = json.loads(load.stdout)["report"]
        assert report["ended"]["ok"] == report["scheduled"] > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        watch.cancel()
        process.kill()
        process.wait()
