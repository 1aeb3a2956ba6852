"""A learner that is led by its parent, before the others have come; and a port that cannot be."""

import io
import sys
from pathlib import Path

import msgspec
import pytest

from slackwater.broker import free_port
from slackwater.errors import InputError
from trainer import ondemand
from trainer.meeting import serve


def test_the_end_of_its_parent_is_heard_while_it_waits_for_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ondemand.OnDemand(
        rank=0,
        learners=2,
        port=free_port(),
        folder=str(tmp_path),
        parameters=100_000,
        pause_s=0.0,
        patience_s=5.0,
    )
    monkeypatch.setattr(sys, "argv", ["ondemand", msgspec.json.encode(asked).decode()])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ondemand.main()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_said_in_one_line(port: int) -> None:
    with pytest.raises(InputError, match=f"port {port}; it must be from 0 to 65535"):
        serve("127.0.0.1", port)
