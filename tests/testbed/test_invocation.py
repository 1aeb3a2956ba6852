import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.testbed.invocation import program

PYTHON = ["/usr/bin/python3"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named slackwater in a folder with a space."""
    script = tmp_path / "a b" / "slackwater"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", os.devnull)
    return script


def test_a_program_off_the_search_path_is_named_by_its_quoted_path(installed: Path) -> None:
    assert program(str(installed), PYTHON) == f"'{installed}'"


def test_a_program_on_the_search_path_is_named_alone(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))

    assert program(str(installed), PYTHON) == "slackwater"


def test_another_program_of_that_name_on_the_search_path_is_not_meant(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    other = tmp_path / "slackwater"
    other.touch()

    assert program(str(other), PYTHON) == str(other)


def test_a_module_is_named_by_its_python(installed: Path) -> None:
    assert program("/x/slackwater/__main__.py", PYTHON) == "/usr/bin/python3 -m slackwater"


def test_what_is_named_can_be_run() -> None:
    command = f"{program('-m', [sys.executable])} --version"

    said = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # noqa: S602

    assert said.stdout.startswith("slackwater ")
