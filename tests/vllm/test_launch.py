"""The launcher ends what it started, says what is missing, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sidecar.launch import LaunchedVllm, ServerError
from slackwater.errors import InputError


def test_a_missing_environment_is_named_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make vllm"):
        LaunchedVllm(tmp_path / "python", log=tmp_path / "log").start()


def test_a_server_that_ends_while_it_starts_is_told_with_its_last_words(tmp_path: Path) -> None:
    # An interpreter without vLLM: the one of the tests.
    server = LaunchedVllm(Path(sys.executable), log=tmp_path / "log")
    said = r"exit code 1 .*let `make vllm` end.*\n(.*\n)*.*No module named"
    with pytest.raises(ServerError, match=said):
        server.start()


@pytest.mark.skipif(sys.platform != "linux", reason="the leash is the Linux kernel's")
def test_a_group_dies_with_the_process_that_holds_its_keeper(tmp_path: Path) -> None:
    """A starter is killed -9; the server it kept, and that one's child, end too."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    # Both hold the pipe open for writing; it is read to its end when both are gone.
    child = f"open({str(pipe)!r}, 'w'); import signal; signal.pause()"
    server = f"import subprocess, sys; w = open({str(pipe)!r}, 'w'); w.write('x'); w.flush();" + (
        f"subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    )
    starter = textwrap.dedent(f"""
        import subprocess, sys
        subprocess.Popen(
            [sys.executable, "-m", "sidecar.keeper", sys.executable, "-c", {server!r}],
            stdin=subprocess.PIPE,
            start_new_session=True,
        ).wait()
    """)
    started = subprocess.Popen([sys.executable, "-c", starter])
    with pipe.open() as alive:
        assert alive.read(1) == "x"
        started.send_signal(signal.SIGKILL)
        started.wait()
        assert alive.read() == ""


def test_the_keeper_ends_as_its_server_did() -> None:
    killed = "import os; os.kill(os.getpid(), 9)"
    for program, code in (("raise SystemExit(3)", 3), (killed, 137)):
        command = [sys.executable, "-m", "sidecar.keeper", sys.executable, "-c", program]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as kept:
            assert kept.wait() == code
