"""The broker's address, for tests that need no more of it, and the command line in this process."""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from slackwater.broker import EmbeddedBroker
from slackwater.cli import main


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap


@pytest.fixture
def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Run `slackwater ARGUMENTS` with no more of our environment than what is given."""

    def run(*arguments: str, **env: str) -> Done:
        for name in [n for n in os.environ if n.startswith(("SLACKWATER", "KAFKA"))]:
            monkeypatch.delenv(name)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["slackwater", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run
