"""A command whose parts are not installed says what to install, in one line."""

import subprocess
import sys

import pytest

COMMANDS = {
    "stream": (["stream", "--kafka", "127.0.0.1:1"], "streams"),
    "replay": (["replay", "--regime", "constant", "--dry-run"], "replay_producer"),
    "trainer": (["trainer", "--learner", "a", "--kafka", "127.0.0.1:1"], "trainer"),
}


def run_without(module, arguments):
    """Run a command where `module` cannot be imported."""
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['slackwater', *{arguments!r}]; "
        "from slackwater.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_server_names_its_distribution(command):
    arguments, module = COMMANDS[command]
    done = run_without(module, arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"needs {module}" in done.stderr
    assert "slackwater-server" in done.stderr


def test_a_module_that_is_missing_by_mistake_is_not_explained_away():
    done = run_without("slackwater.schema", ["schema", "--check", "."])
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr
