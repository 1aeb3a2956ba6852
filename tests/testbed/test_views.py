import io
import os
from pathlib import Path

from slackwater.testbed.plan import Plan
from slackwater.testbed.status import Status
from slackwater.testbed.supervisor import Phase
from slackwater.testbed.views import RunConsole, view_for

PLAN = Plan(run_id="r", db=Path("r.duckdb"), regime="constant")


def status(phase: Phase) -> Status:
    return Status(PLAN, phase, None, 1.0)


def test_without_a_terminal_each_phase_is_one_line() -> None:
    out = io.StringIO()
    with view_for(RunConsole(file=out), wants_plain=False) as show:
        for phase in [Phase.BROKER] * 3 + [Phase.STREAM] * 3:
            show(status(phase))

    assert [line.split("s  ")[1] for line in out.getvalue().splitlines()] == [
        "starting the broker", "starting the stream job",
    ]  # fmt: skip
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_screen_is_drawn_in_place_and_gone_at_the_end() -> None:
    out = io.StringIO()
    console = RunConsole(file=out, force_terminal=True, width=80, height=24)
    with view_for(console, wants_plain=False) as show:
        show(status(Phase.STREAM))
        assert "starting the stream job" in out.getvalue()
        assert "\x1b[?25l" in out.getvalue()

    assert out.getvalue().rstrip().endswith("\x1b[2K")
    assert "\x1b[?25h" in out.getvalue()


def test_plain_is_plain_on_a_terminal_too() -> None:
    out = io.StringIO()
    console = RunConsole(file=out, force_terminal=True, width=80)
    with view_for(console, wants_plain=True) as show:
        show(status(Phase.STREAM))

    assert "\x1b[?25l" not in out.getvalue()


def test_a_reader_who_leaves_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    out = os.fdopen(writing, "w")
    with out, view_for(RunConsole(file=out), wants_plain=True) as show:
        show(status(Phase.BROKER))
        out.flush()
        show(status(Phase.STREAM))


def test_a_terminal_that_is_closed_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    console = RunConsole(file=Gone(), force_terminal=True, width=80)
    with view_for(console, wants_plain=True) as show:
        show(status(Phase.BROKER))
        show(status(Phase.STREAM))
