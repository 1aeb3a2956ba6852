"""One trial from options to verdict: design, server, runs, log, judgement."""

import contextlib
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from slackwater.cli.heeded import refuse
from slackwater.cli.server import VLLM_LOG, ServerOptions, endpoint_of, server_of, working
from slackwater.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from sidecar.trial.design import TrialDesign
    from sidecar.trial.record import TrialLog
    from slackwater.testbed.signals import StopSignals

RUNS_DIR = Path("runs")
OPTIONS = {
    "blocks": "--runs",
    "run_s": "--run-s",
    "rate_per_s": "--rate",
    "slo_s": "--slo",
    "window_s": "--window-s",
    "step_s": "--step-s",
    "assignments": "--set",
    "least_gain_percent": "--least-gain",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command's options; `design` holds those of the design that were given."""

    server: ServerOptions
    design: dict[str, Any]
    profile: Path | None = None
    minutes: float | None
    db: Path | None
    resume: Path | None
    claim: str | None


def run(asked: Asked, *, as_json: bool, wants_plain: bool) -> int:
    """Play what is left, judge and print; the exit code. Raises `SlackwaterError`."""
    from rich.console import Console

    from sidecar.held import held
    from sidecar.trial.record import TrialLog
    from slackwater.cli.trial_judge import judged
    from slackwater.cli.trial_output import print_document, print_trial
    from slackwater.testbed.signals import StopSignals

    _check(asked)
    if asked.resume is not None:
        design, claim = _resumed(asked.resume, asked.claim)
    else:
        design, claim = design_of(asked), asked.claim
        _check_claim(claim, design)
    log = TrialLog(asked.resume or _new_path(asked.db))
    whole, interrupted = True, 130
    if asked.server.given:
        with held(log.path), StopSignals() as signals:
            whole = _play(asked, design, claim, log, signals, Console(stderr=True), wants_plain)
            interrupted = signals.exit_code
    out = Console(highlight=False)
    if not (whole or as_json or log.path.exists()):
        out.print("ended before its first run was whole: nothing is kept")
        return interrupted
    document = judged(log, design, claim)
    if as_json:
        print_document(out, document)
    else:
        print_trial(out, document)
    return 0 if whole else interrupted


def _check(asked: Asked) -> None:
    asked.server.check(needed=asked.resume is None)
    if asked.resume is not None:
        own = {option(name): value for name, value in asked.design.items()}
        more = {"--db": asked.db, "--minutes": asked.minutes, "--profile": asked.profile}
        refuse("--resume goes on by the options of its log", own | more)
        if not asked.resume.is_file():
            msg = f"--resume {asked.resume}: there is no such file"
            raise InputError(msg)
    if asked.minutes is not None and "blocks" in asked.design:
        msg = "--runs and --minutes both say how long it takes; leave out one"
        raise InputError(msg)


def design_of(asked: Asked) -> "TrialDesign":
    """The design that was asked for; raises `InputError` that names the option."""
    import msgspec

    from sidecar.trial.design import TrialDesign, fitting

    def designed(given: dict[str, Any]) -> TrialDesign:
        try:
            return msgspec.convert(given, TrialDesign)
        except msgspec.ValidationError as error:
            raise InputError(_in_words(str(error), given)) from None

    design = designed(asked.design)
    # Logs have such designs, and play and judge the arm once.
    if len(set(design.baselines)) < len(design.baselines):
        msg = f"--baselines {','.join(design.baselines)} names an arm twice"
        raise InputError(msg)
    if asked.profile is not None:
        design = designed(_profiled(asked.profile, design) | asked.design)
    if asked.minutes is None:
        return design
    return fitting(asked.minutes, design, shorten="run_s" not in asked.design)


def _profiled(path: Path, design: "TrialDesign") -> dict[str, Any]:
    """What a calibration says of the design: its load, its objective and its window.

    Bursts come at the rate that was calibrated: at that mean rate they would break the objective
    by themselves.
    """
    from replay_producer.generators import peak_over_mean
    from slackwater.cli.stream_profile import read_measured

    profile, measurement = read_measured(path, "--profile")
    peak = peak_over_mean(design.regime, design.shape)
    return {
        "rate_per_s": float(f"{measurement.rate_per_s / peak:.2g}"),
        "prompt_tokens": measurement.prompt_tokens,
        "output_tokens": measurement.output_tokens,
        "slo_s": profile.slo_s,
        "window_s": profile.window_s,
    }


def option(field: str) -> str:
    """The option that sets a field of the design."""
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def _in_words(error: str, given: dict[str, Any]) -> str:
    from sidecar.trial.design import Count

    found = re.fullmatch(r"(.*) - at `\$\.(\w+).*`", error)
    if found is None:
        return error
    what, field = found.groups()
    said = what.replace("Expected `float`", "must be a number")
    said = said.replace("Expected `int`", "must be a whole number")
    if field == "count":
        said = f"must be {' or '.join(get_args(Count))}"
    return f"{option(field)} is {given[field]}; it {said.removesuffix('.0')}"


def _check_claim(claim: str | None, design: "TrialDesign") -> None:
    if claim is not None and claim not in design.policies:
        msg = f"--claim {claim} is not judged here; --policies are {list(design.policies)}"
        raise InputError(msg)


def _resumed(path: Path, claim: str | None) -> "tuple[TrialDesign, str | None]":
    """The design and the claim of a log; one named now is none that was named beforehand."""
    from sidecar.trial.record import TrialLog

    known = TrialLog(path).about()
    if not known:
        msg = f"--resume {path}: no run of a trial is in this log; begin one without --resume"
        raise InputError(msg)
    first = known[0][1]
    if claim is not None and claim != first.claim:
        then = "no policy was named" if first.claim is None else f"{first.claim} was named"
        msg = (
            f"--claim {claim}: {then} before the first run of {path}, and a claim cannot be named "
            "after it; leave --claim out"
        )
        raise InputError(msg)
    return first.design, first.claim


def _new_path(db: Path | None) -> Path:
    if db is None:
        db = RUNS_DIR / f"trial-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.duckdb"
    from slackwater.testbed.preflight import NEEDED_BYTES, check_run_log, check_space

    if db.exists():
        msg = f"--db {db} is there already; --resume {db} goes on with it, or name another"
        raise InputError(msg)
    check_run_log(db)
    check_space(db.parent, NEEDED_BYTES)
    return db


def _play(
    asked: Asked,
    design: "TrialDesign",
    claim: str | None,
    log: "TrialLog",
    signals: "StopSignals",
    console: "Console",
    wants_plain: bool,
) -> bool:
    from sidecar.load import Endpoint
    from sidecar.server import Server, changed, check_same
    from sidecar.trial.play import Progress, Trial
    from slackwater.cli.saying import Saying
    from slackwater.cli.trial_progress import line, plan
    from slackwater.testbed.signals import Interrupted
    from slackwater.testbed.workdir import PREFIX

    def trial(endpoint: Endpoint, server: Server | None = None) -> Trial:
        word = re.sub(r"[^A-Za-z0-9]+", "-", log.path.stem).strip("-")[:40] or "trial"
        name = f"{word}-{secrets.token_hex(2)}"
        return Trial(name, design, log, endpoint, signals, show, say.word, claim, server)

    def show(now: Progress) -> None:
        say.progress(line(now), (now.number, now.status.phase))

    with contextlib.ExitStack() as stack:
        say = Saying(console, wants_plain)
        stack.callback(say.end)
        work = stack.enter_context(working(log.path.parent, PREFIX, say.word))
        then = next((about.server for _, about in log.about() if about.server), None)
        check_same(then, server_of(asked.server), log.path)
        trial(Endpoint(url="http://127.0.0.1:1", model="none")).check()
        say.word(plan(design))

        def told(text: str) -> None:
            signals.check()
            say.word(text)

        try:
            endpoint = endpoint_of(asked.server, work.logs / VLLM_LOG, stack, told)
        except Interrupted:
            return False
        server = server_of(asked.server, endpoint)
        if words := changed(then, server):
            say.word(words)
        return trial(endpoint, server).run()
