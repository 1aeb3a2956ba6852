import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_in_parts import MakePart, alive, ends

from slackwater.errors import BrokerError
from slackwater.testbed.parts import Part
from slackwater.testbed.signals import StopSignals
from slackwater.testbed.supervisor import Limits, Outcome, Phase, Supervisor

LIMITS = Limits(ready_s=20, settle_s=0.3, quiet_s=0.05, drain_s=0.3, end_s=10, hasty_end_s=0.2)


class StandInBroker:
    log_path = None

    def __init__(self, refuses: bool = False) -> None:
        self.alive = True
        self.refuses = refuses
        self.events: list[str] = []

    def start(self) -> None:
        if self.refuses:
            raise BrokerError("no broker binary")
        self.events.append("started")

    def stop(self) -> None:
        self.events.append("stopped")


class StandInLog:
    def __init__(self, pending: int | None = 0, missing: int | None = 0) -> None:
        self.pending = pending
        self.missing_events = missing
        self.asked_of: list[dict[str, Any]] = []

    def hold_merges(self) -> None:
        pass

    def pending_merges(self) -> int | None:
        return self.pending

    def missing(self, summaries: dict[str, dict[str, Any]]) -> int | None:
        self.asked_of.append(summaries)
        return self.missing_events


class Bench:
    """A supervisor over stand-ins, and all the parts it made."""

    def __init__(self, make_part: MakePart, tmp_path: Path) -> None:
        self.make_part = make_part
        self.order_path = tmp_path / "order"
        self.broker = StandInBroker()
        self.log = StandInLog()
        self.parts: list[Part] = []
        self.restarts = 0
        self.phases: list[Phase] = []
        self.on_tick: Callable[[Phase], None] = lambda phase: None

    def part(self, name: str, mode: str) -> Part:
        self.parts.append(self.make_part(name, mode, restarts=self.restarts))
        return self.parts[-1]

    def run(
        self,
        stream: str = "works",
        learners: tuple[str, ...] = ("works", "works"),
        replay: str = "plays",
        limits: Limits = LIMITS,
    ) -> Outcome:
        with StopSignals() as signals:
            return Supervisor(
                broker=self.broker,
                stream=lambda: self.part("stream", stream),
                learners=lambda: [
                    self.part(f"learner-{i}", mode) for i, mode in enumerate(learners)
                ],
                replay=lambda: self.part("replay", replay),
                log=self.log,
                signals=signals,
                on_tick=self.tick,
                limits=limits,
            ).run()

    def tick(self, phase: Phase, played_s: float | None) -> None:
        if phase not in self.phases:
            self.phases.append(phase)
        self.on_tick(phase)

    def left_behind(self) -> list[int | None]:
        return [part.pid for part in self.parts if alive(part.pid)]

    def send_in(self, phase: Phase, *numbers: signal.Signals) -> None:
        waiting = list(numbers)

        def on_tick(now: Phase) -> None:
            if now is phase and waiting:
                os.kill(os.getpid(), waiting.pop(0))

        self.on_tick = on_tick


@pytest.fixture
def bench(make_part: MakePart, tmp_path: Path) -> Bench:
    return Bench(make_part, tmp_path)


def test_a_run_in_which_all_goes_well_is_complete_and_ends_in_order(bench: Bench) -> None:
    outcome = bench.run()

    assert (outcome.status, outcome.failure) == ("complete", None)
    assert outcome.summaries["replay"] == {"acked": 7}
    assert bench.log.asked_of[-1]["replay"] == {"acked": 7}
    ended = bench.order_path.read_text().split()
    assert sorted(ended[:2]) == ["learner-0", "learner-1"]
    assert ended[2] == "stream"
    assert bench.broker.events == ["started", "stopped"]
    assert bench.phases[-1] is Phase.DONE
    assert bench.left_behind() == []


@pytest.mark.parametrize("who", ["stream", "learner-1", "replay"])
@pytest.mark.parametrize("mode", ["dies", "dies-later"])
def test_a_part_that_dies_fails_the_run_with_its_name_and_last_words(
    bench: Bench, who: str, mode: str
) -> None:
    modes = {"stream": "works", "learner-1": "works", "replay": "works"} | {who: mode}

    outcome = bench.run(modes["stream"], ("works", modes["learner-1"]), modes["replay"])

    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert outcome.failure.part == who
    words = "cannot open the flux capacitor" if mode == "dies" else "CUDA is on fire"
    assert outcome.failure.last_lines == [words]
    assert ("exit code 3" if mode == "dies" else "SIGKILL") in outcome.failure.what
    assert bench.left_behind() == []
    assert bench.broker.events[-1] == "stopped"


def test_a_learner_that_dies_is_started_again_and_the_run_goes_on(bench: Bench) -> None:
    bench.restarts = 2

    outcome = bench.run(learners=("works", "dies-once"), limits=Limits(quiet_s=0.05, end_s=10))

    assert (outcome.status, outcome.failure) == ("complete", None)
    assert outcome.restarts == {"learner-1": 1}
    assert outcome.summaries["learner-1"] == {"mode": "dies-once"}
    assert bench.left_behind() == []


def test_a_learner_that_dies_again_and_again_fails_the_run_in_the_end(bench: Bench) -> None:
    bench.restarts = 1

    outcome = bench.run(learners=("works", "dies"), replay="works")

    assert outcome.failure is not None
    assert outcome.failure.part == "learner-1"
    assert outcome.failure.last_lines == ["cannot open the flux capacitor"] * 2
    assert outcome.restarts == {"learner-1": 1}
    assert bench.left_behind() == []


def test_a_part_that_never_gets_ready_fails_the_run_by_its_limit(bench: Bench) -> None:
    outcome = bench.run(
        learners=("works", "never-ready"), limits=Limits(ready_s=1.0, end_s=10, drain_s=0.1)
    )

    assert outcome.failure is not None
    assert str(outcome.failure) == "learner-1 was not ready within 1 s"
    assert [part.name for part in bench.parts] == ["stream", "learner-0", "learner-1"]
    assert bench.left_behind() == []


def test_a_part_that_ignores_sigterm_is_killed_and_the_run_is_not_complete(bench: Bench) -> None:
    outcome = bench.run(stream="deaf", limits=Limits(quiet_s=0.05, end_s=0.5))

    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert outcome.failure.part == "stream"
    assert "was killed" in outcome.failure.what
    assert bench.left_behind() == []


def test_a_part_that_ends_badly_when_told_to_end_fails_the_run(bench: Bench) -> None:
    outcome = bench.run(learners=("works", "ends-badly"))

    assert outcome.status == "failed"
    assert str(outcome.failure) == "learner-1 ended with exit code 4"


def test_what_a_part_has_started_ends_with_it(bench: Bench) -> None:
    bench.run(stream="parent")

    grandchild = int(bench.parts[0].log_path.read_text())
    assert ends(grandchild)


def test_a_broker_that_does_not_start_fails_the_run_before_any_part(bench: Bench) -> None:
    bench.broker = StandInBroker(refuses=True)

    outcome = bench.run()

    assert str(outcome.failure) == "the broker did not start: no broker binary"
    assert bench.parts == []


def test_a_broker_that_dies_fails_the_run(bench: Bench) -> None:
    def on_tick(phase: Phase) -> None:
        bench.broker.alive = bench.broker.alive and phase is not Phase.RUNNING

    bench.on_tick = on_tick

    outcome = bench.run(replay="works")

    assert outcome.failure is not None
    assert outcome.failure.part == "the broker"
    assert bench.left_behind() == []


@pytest.mark.parametrize("phase", [Phase.STREAM, Phase.LEARNERS, Phase.REPLAY, Phase.RUNNING])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_any_phase_ends_all_parts_in_order(
    bench: Bench, phase: Phase, number: signal.Signals
) -> None:
    bench.send_in(phase, number)

    outcome = bench.run(replay="works")

    assert outcome.status == "interrupted"
    assert bench.left_behind() == []
    assert bench.broker.events == ["started", "stopped"]


def test_a_second_signal_does_not_wait_for_a_part_that_will_not_end(bench: Bench) -> None:
    bench.send_in(Phase.RUNNING, signal.SIGINT)
    tick = bench.on_tick

    def on_tick(phase: Phase) -> None:
        tick(phase)
        if phase is Phase.STOPPING_LEARNERS and not hastened:
            hastened.append(phase)
            os.kill(os.getpid(), signal.SIGINT)

    hastened: list[Phase] = []
    bench.on_tick = on_tick

    outcome = bench.run(
        learners=("deaf",), replay="works", limits=Limits(end_s=1000, hasty_end_s=0.2)
    )

    assert outcome.status == "interrupted"
    assert bench.left_behind() == []


def test_merges_that_are_never_finished_fail_the_run(bench: Bench) -> None:
    bench.log = StandInLog(pending=2)

    outcome = bench.run()

    assert str(outcome.failure) == "learner-1 did not finish 2 merges within 0.3 s"


def test_a_log_that_does_not_answer_is_not_blamed_on_a_learner(bench: Bench) -> None:
    bench.log = StandInLog(pending=None)

    outcome = bench.run()

    said = "stream did not say within 0.3 s whether a merge is under way"
    assert str(outcome.failure) == said


@pytest.mark.parametrize(("missing", "said"), [(12, "12"), (None, "an unknown number of")])
def test_events_that_are_never_logged_fail_the_run(
    bench: Bench, missing: int | None, said: str
) -> None:
    bench.log = StandInLog(missing=missing)

    outcome = bench.run()

    assert outcome.status == "failed"
    assert str(outcome.failure) == f"stream left {said} acknowledged events unlogged for 0.3 s"


ORPHANS = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from slackwater.broker import EmbeddedBroker
    from slackwater.testbed.parts import Part, PartSpec

    broker = EmbeddedBroker().start()
    part = Part(PartSpec("deaf", [sys.executable, "-S", sys.argv[1], "deaf"]), Path(sys.argv[2]))
    part.start()
    while not part.ready:
        time.sleep(0.02)
    print(broker.pid, part.pid, flush=True)
    time.sleep(600)
    """
)


@pytest.mark.kafka
@pytest.mark.skipif(sys.platform != "linux", reason="the leash is the Linux kernel's")
def test_parts_and_broker_die_with_a_supervisor_killed_by_sigkill(
    make_part: MakePart, tmp_path: Path
) -> None:
    script = tmp_path / "stand_in.py"
    supervisor = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(script), str(tmp_path)], stdout=subprocess.PIPE
    )
    assert supervisor.stdout is not None
    pids = [int(word) for word in supervisor.stdout.readline().split()]
    assert len(pids) == 2

    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()

    assert [ends(pid) for pid in pids] == [True, True]
