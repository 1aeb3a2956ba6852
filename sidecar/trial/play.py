"""Plays the runs of a trial that are not in its log yet, one after another."""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controller.policies.scheduled import Scheduled
from sidecar.experiment.play import GIVE_UP_S, waiting
from sidecar.load import MIN_ANSWERED, Account, Endpoint, Limits, start_open_loop
from sidecar.load import Outcome as Answer
from sidecar.load import Scheduled as Request
from sidecar.server import Server
from sidecar.trial.design import OVERHEAD_S, PlannedRun, TrialDesign, control_of, controlled
from sidecar.trial.live import ServedRun
from sidecar.trial.matched import Matched, matched
from sidecar.trial.record import About, Played, TrialLog
from sidecar.trial.sending import NAME
from slackwater.errors import RunLogError, SlackwaterError
from slackwater.policies import NO_POLICY
from slackwater.testbed.ending import closed_log, set_status
from slackwater.testbed.plan import Plan
from slackwater.testbed.preflight import (
    CHECKPOINT_BYTES_PER_PARAMETER,
    check_modules,
    check_space,
    check_stream,
)
from slackwater.testbed.signals import StopSignals
from slackwater.testbed.status import Status
from slackwater.testbed.summary import UNFINISHED, Summary, summarize
from slackwater.testbed.supervisor import Outcome
from slackwater.testbed.workdir import WorkDir

ATTEMPTS = 2
WARM_UP_S = 5.0
RUN_LOG = "run.duckdb"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a trial is.

    Attributes:
        run: being played.
        number, runs: it is the how-manyth of how many.
        left_s: about how many seconds the rest takes, this run included.
        status: of the run's parts.
    """

    run: PlannedRun
    number: int
    runs: int
    left_s: float
    status: Status


@dataclass
class Trial:
    """What is left of a design; call `run` once, from the main thread.

    Attributes:
        name: what its runs' names begin with.
        design: what is played.
        log: where runs are kept.
        endpoint: the server.
        signals: what a person wants.
        show: told where it is, many times a second.
        say: told in words what a person should know.
        claim: the policy named beforehand, kept with each run.
        server: which one it is, kept with each run.
    """

    name: str
    design: TrialDesign
    log: TrialLog
    endpoint: Endpoint
    signals: StopSignals
    show: Callable[[Progress], None]
    say: Callable[[str], None]
    claim: str | None = None
    server: Server | None = None
    _logs: Path | None = None

    def check(self) -> None:
        """Raise `InputError` or `SlackwaterError` for what can be known to be wrong beforehand."""
        design = self.design
        check_modules(embedded=True)
        for arm in design.free:
            if arm != NO_POLICY:
                check_stream(self._plan(PlannedRun(block=0, place=0, arm=arm), 0, Path("x"), None))
        needed = CHECKPOINT_BYTES_PER_PARAMETER * design.parameters * design.learners
        check_space(self._folder, needed)

    @property
    def _folder(self) -> Path:
        """For checkpoints and logs, on the disk of the trial's log: /tmp may be memory."""
        return self.log.path.parent

    def run(self) -> bool:
        """Play every run that is not in the log; false when a person ended it before that.

        Raises `SlackwaterError` when a run has failed twice in a row; runs that ended are kept.
        """
        todo = self.left()
        if not todo:
            return True
        self._warm_up()
        lasted: list[float] = []
        for number, planned in enumerate(todo):
            if self.signals.first is not None:
                return False
            began_s = time.monotonic()

            def left_s(number: int = number, began_s: float = began_s) -> float:
                usual = float(np.median(lasted or [self.design.run_s + OVERHEAD_S]))
                this = max(0.0, usual - (time.monotonic() - began_s))
                return this + usual * (len(todo) - number - 1)

            at = self.design.runs - len(todo) + number + 1
            if not self._play(planned, at, left_s):
                return False
            lasted.append(time.monotonic() - began_s)
        return True

    def left(self) -> list[PlannedRun]:
        """The runs that are still to be played, in order."""
        whole = {(a.block, a.arm) for status, a in self.log.about() if status == "complete"}
        return [one for one in self.design.planned() if (one.block, one.arm) not in whole]

    def _warm_up(self) -> None:
        """First requests run slow, whatever the arms: these are measured by nobody."""
        design = self.design
        count = max(1, math.ceil(design.rate_per_s * WARM_UP_S))
        apart_us = round(1e6 / design.rate_per_s)
        lengths = (design.prompt_tokens, design.output_tokens)
        requests = [Request(f"w{i}", i * apart_us, *lengths) for i in range(count)]
        ended: list[Answer] = []
        account = Account()
        load = start_open_loop(self.endpoint, requests, on_outcome=ended.append, account=account)
        while load.is_alive():
            if self.signals.hasten:
                load.abort()
                load.join(GIVE_UP_S)
                return
            if self.signals.first is not None:
                load.stop()
                if account.in_flight:
                    self.say(waiting(account.in_flight, again=True))
            load.join(0.1)
        load.result()
        if self.signals.first is not None:
            return
        times_s = [one.e2e_s for one in ended if one.e2e_s is not None]
        if not times_s:
            msg = (
                f"none of {count} first requests to {self.endpoint.target} ended well; is the "
                "server well, and its model the right one?"
            )
            raise SlackwaterError(msg)
        if (usual_s := float(np.median(times_s))) > design.slo_s:
            self.say(
                f"before any merge half of the answers take longer than {usual_s:.3f} s, above "
                f"the objective of {design.slo_s:g} s: merges can make little worse here. Is "
                "anything else running on this machine? Else take a larger --slo or a lower --rate"
            )

    def _play(self, planned: PlannedRun, number: int, left_s: Callable[[], float]) -> bool:
        """One run, again where its parts failed; false when a person ended it."""
        for attempt in range(ATTEMPTS):
            if self._attempt(planned, attempt, number, left_s):
                return True
            if self.signals.first is not None:
                return False
        msg = (
            f"{planned.arm} in block {planned.block} failed {ATTEMPTS} times; logs of its parts "
            f"are in {self._logs}; --resume {self.log.path} goes on"
        )
        raise SlackwaterError(msg)

    def _attempt(
        self, planned: PlannedRun, attempt: int, number: int, left_s: Callable[[], float]
    ) -> bool:
        """Play a run and keep it; false when it failed or a person ended it."""
        design, began_s = self.design, time.monotonic()
        drawn = self._drawn(planned)
        about = self._about(planned, attempt, drawn)

        def show(status: Status) -> None:
            self.show(Progress(planned, number, design.runs, left_s(), status))

        with WorkDir(self._folder) as work:
            plan = self._plan(planned, attempt, work.path / RUN_LOG, drawn)
            live = ServedRun(
                plan,
                self._info(plan, about),
                work,
                show,
                endpoint=self.endpoint,
                schedule=design.schedule(planned.block),
                limits=Limits(timeout_s=design.timeout_s),
            )
            outcome = live.run(self.signals)
            if outcome.status == "interrupted":
                return False
            summary = _summary(plan, outcome, time.monotonic() - began_s)
            if summary.status == "failed":
                work.keep_logs = True
                last = f"; it said last: {summary.last_lines[-1]}" if summary.last_lines else ""
                self.say(f"run {plan.run_id} failed: {'; '.join(summary.problems)}{last}")
                self._logs = work.logs
            if summary.rows:
                client = dict(outcome.summaries.get(NAME, {}))
                about = msgspec.structs.replace(about, client=client, problems=summary.problems)
                self._keep(plan, about)
        return summary.status == "complete"

    def _keep(self, plan: Plan, about: About) -> None:
        """Add a run to the log; one that cannot be added stays beside it, and that is said."""
        try:
            self.log.keep(plan.db, plan.run_id, about, self.say)
        except RunLogError as error:
            beside = self._folder / f"{plan.run_id}.duckdb"
            plan.db.rename(beside)
            again = f"--resume {self.log.path}" if self.log.path.exists() else "the same command"
            msg = f"{error}; it stays as {beside}, and {again} plays it again"
            raise RunLogError(msg) from error

    def _about(self, planned: PlannedRun, attempt: int, drawn: Matched | None) -> About:
        return About(
            design=self.design,
            claim=self.claim,
            server=self.server,
            block=planned.block,
            place=planned.place,
            arm=planned.arm,
            attempt=attempt,
            scheduled_steps=None if drawn is None else drawn.steps,
        )

    def _drawn(self, planned: PlannedRun) -> Matched | None:
        """The schedule of a control, drawn for the merges of its policy's run."""
        policy = controlled(planned.arm)
        if policy is None:
            return None
        design = self.design
        own = self._of(planned.block, policy)
        rng = design.draws(planned.block, policy)
        corridor = (design.min_gap_steps, design.max_gap_steps)
        return matched(own.steps, own.last_step or 0, corridor, rng)

    def _of(self, block: int, arm: str) -> Played:
        for one in self.log.played():
            if (one.about.block, one.about.arm) == (block, arm):
                return one
        msg = (
            f"block {block} of {self.log.path} has no run of {arm}, which {control_of(arm)} is "
            "to be matched to; this log is not whole: begin another"
        )
        raise SlackwaterError(msg)

    def _plan(self, planned: PlannedRun, attempt: int, db: Path, drawn: Matched | None) -> Plan:
        design, merges = self.design, planned.arm != NO_POLICY
        word = planned.arm.replace(":", "-").replace("_", "-")
        again = f"-again{attempt}" if attempt else ""
        return Plan(
            run_id=f"{self.name}-b{planned.block}-{word}{again}-{secrets.token_hex(2)}",
            db=db,
            regime=design.regime,
            rate=design.rate_per_s,
            duration_s=design.run_s,
            policy=Scheduled.name if drawn is not None else (planned.arm if merges else "fixed_h"),
            no_merges=not merges,
            assignments=design.settings(None if drawn is None else drawn.steps),
            learners=design.learners,
            sidecars=1,
            seed=design.load_seed(planned.block),
            min_gap_steps=design.min_gap_steps if drawn is None else drawn.min_gap_steps,
            max_gap_steps=design.max_gap_steps if drawn is None else drawn.forced_gap_steps,
            parameters=design.parameters,
            step_s=design.step_s,
        )

    def _info(self, plan: Plan, about: About) -> dict[str, Any]:
        """What the run log is told of a run; `trace` and seed are those of its block's load."""
        return {
            "trace": plan.source,
            "seed": plan.seed,
            "settings": {
                "slo_s": self.design.slo_s,
                "testbed": msgspec.to_builtins(plan, enc_hook=str),
                "trial": msgspec.to_builtins(about),
            },
        }


def _summary(plan: Plan, outcome: Outcome, wall_s: float) -> Summary:
    """What came of a run, its last word in its log; without `rows` where that never came to be."""
    try:
        with closed_log(plan.db) as query:
            summary = _taken(summarize(plan, outcome, query, wall_s), outcome)
        set_status(plan.db, summary)
    except RunLogError:
        # The stream job died before it had made its tables.
        if outcome.failure is None:
            raise
        summary = summarize(plan, outcome, None, wall_s)
    return summary


def _taken(summary: Summary, outcome: Outcome) -> Summary:
    """The summary: failed where server or learners were not there, whole where merges alone failed.

    Merges that did not come about are an outcome of the arm: such a run is not played again.
    """
    report = outcome.summaries.get(NAME, {}).get("report")
    if report is not None and report["ended"]["ok"] < MIN_ANSWERED * report["scheduled"]:
        missing = report["scheduled"] - report["ended"]["ok"]
        words = f"{missing} of {report['scheduled']} requests found no answer; is the server well?"
        return msgspec.structs.replace(summary, status="failed", problems=[words])
    if report is not None and summary.rows and summary.status != "interrupted":
        sent = report["scheduled"] - report["ended"]["dropped"]
        if summary.rows["requests"] != sent:
            words = f"{sent} requests were sent, and {summary.rows['requests']} are in the run log"
            return msgspec.structs.replace(
                summary, status="failed", problems=[*summary.problems, words]
            )
    if outcome.restarts:
        died = [f"{name} died and was started again" for name in outcome.restarts]
        return msgspec.structs.replace(summary, status="failed", problems=died)
    if not summary.problems or summary.failed_part is not None:
        return summary
    if all(problem.endswith(UNFINISHED) for problem in summary.problems):
        return msgspec.structs.replace(summary, status="complete")
    return summary
