"""One calibration from options to profile: server, learners, blocks, figures."""

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.cli.calibrate_profile import encoded, profile_of, written
from slackwater.cli.outputs import PROFILE, Output, check_outputs
from slackwater.cli.server import VLLM_LOG, ServerOptions, endpoint_of, server_of, working
from slackwater.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from calibration.effect import Interval, Measured
    from calibration.measurement import Ratio
    from calibration.profile import Profile
    from sidecar.experiment.design import Design
    from sidecar.experiment.merging import Merging
    from sidecar.experiment.play import Progress
    from sidecar.experiment.record import Record
    from sidecar.load import Anchor, Endpoint
    from sidecar.server import Server
    from slackwater.cli.saying import Saying
    from slackwater.testbed.signals import StopSignals

RUNS_DIR = Path("runs")
PREFIX = ".calibrate-"
TIMEOUT_S = 60.0
BUSY = 0.6
"""Without --rate: the share of time that the server would be busy if it took one at a time."""
DECIDING = ("p50 ratio", "window, s", "p50 without merges, ms")
"""What models and controller take of a profile: this must be shown to be as it was."""
CODES = {"same": 0, "changed": 1, "unknown": 3}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command's options; see `calibrate`."""

    server: ServerOptions
    merge_command: str | None
    learners: int
    parameters: int
    effect_free: bool
    minutes: float
    rate_per_s: float | None
    prompt_tokens: int
    output_tokens: int
    slo_s: float | None
    precision: float
    seed: int
    name: str | None
    output: Path | None
    resume: Path | None
    compare: Path | None


def run(asked: Asked, *, as_json: bool, wants_plain: bool) -> int:
    """Measure, write and print; the exit code. Raises `InputError` and `SlackwaterError`."""
    from rich.console import Console

    from slackwater.cli import calibrate_output
    from slackwater.testbed.signals import StopSignals

    before = _before(asked)
    asked = asked if before is None else _as_before(asked, before)
    _check(asked)
    with StopSignals() as signals:
        record, whole = _recorded(asked, signals, Console(stderr=True), wants_plain)
    if record is None:
        Console(stderr=True).print("stopped before anything was measured")
        return signals.exit_code
    out = Console(highlight=False)
    try:
        measured = _measured(record, asked)
    except InputError as error:
        if whole and not record.whole:
            msg = f"{error}; --resume {record.path} with --launch-vllm or --endpoint goes on"
            raise InputError(msg) from None
        if whole:
            raise
        Console(stderr=True).print(f"stopped early: {error}; --resume {record.path} goes on")
        return signals.exit_code
    profile_path = record.path.with_suffix("") if before is None or asked.output else None
    profile = profile_of(asked.name or record.path.with_suffix("").stem, record, measured)
    if profile_path is not None:
        written(profile_path, profile)
    if as_json:
        out.print(encoded(profile).decode(), end="", soft_wrap=True, markup=False)
    else:
        calibrate_output.print_measured(out, record, measured, asked.precision)
    code = 0
    if before is not None:
        code = compared(out if not as_json else Console(stderr=True), before, profile)
    if not as_json:
        calibrate_output.print_files(out, profile_path, record)
        if whole and not record.whole:
            out.print("blocks are missing: --resume with --launch-vllm or --endpoint plays them")
    return code if whole else signals.exit_code


def _measured(record: "Record", asked: Asked) -> "Measured":
    import numpy as np

    from calibration.effect import measure
    from sidecar.experiment.observing import observed

    rng = np.random.default_rng(record.set_up.design.seed)
    given = asked.slo_s if asked.slo_s is not None else record.set_up.options.get("slo_s")
    return measure(observed(record), slo_s=given, precision=asked.precision, rng=rng)


def _check(asked: Asked) -> None:
    if asked.slo_s is not None and not 0 < asked.slo_s < 1e6:
        msg = f"--slo is {asked.slo_s:g}; it must be above 0 s"
        raise InputError(msg)
    if not 0 < asked.precision < 1e3:
        msg = f"--precision is {asked.precision:g}; it must be a share such as 0.1"
        raise InputError(msg)
    if asked.resume is not None and asked.output is not None:
        msg = "--resume writes the profile beside its record; leave --output out"
        raise InputError(msg)
    if asked.resume is not None and asked.resume.suffix != ".jsonl":
        msg = f"--resume {asked.resume} is no record; give the .jsonl file beside the profile"
        raise InputError(msg)
    own = asked.resume.with_suffix("") if asked.resume and asked.compare is None else None
    outputs = [
        Output("--output", asked.output, PROFILE),
        Output("the profile of --resume,", own, PROFILE),
    ]
    check_outputs(outputs, (asked.compare, asked.resume))


def _before(asked: Asked) -> "Profile | None":
    from slackwater.cli.stream_profile import read_measured

    return None if asked.compare is None else read_measured(asked.compare, "--compare")[0]


def _as_before(asked: Asked, before: "Profile") -> Asked:
    """The same load and objective, or the comparison would be of these."""
    then = before.measurement
    assert then is not None  # noqa: S101 - checked as it was read
    figures = _compared(before)
    if untold := [name for name in DECIDING if not _known(figures[name])]:
        msg = (
            f"--compare {asked.compare}: it has no interval for {'; '.join(untold)}, so nothing "
            "measured now can be shown to be the same; make a profile of 10 merges and 5 rounds "
            "or more first (ten --minutes)"
        )
        raise InputError(msg)
    return replace(
        asked,
        rate_per_s=then.rate_per_s,
        prompt_tokens=then.prompt_tokens,
        output_tokens=then.output_tokens,
        slo_s=before.slo_s,
    )


def compared(out: "Console", before: "Profile", now: "Profile") -> int:
    """Print how two measured profiles agree; the exit code."""
    from calibration.effect import agreement
    from calibration.effect.agreement import overall
    from slackwater.cli.calibrate_output import print_agreement

    found = agreement(_compared(before), _compared(now))
    word = overall(found, DECIDING)
    print_agreement(out, before, found, word)
    return CODES[word]


def _compared(profile: "Profile") -> "dict[str, Interval | None]":
    """The figures of a measured profile that are compared."""
    from calibration.effect import Interval

    one = profile.measurement
    assert one is not None  # noqa: S101 - both are measured
    known = {
        "p50 ratio": one.merging_effect.p50_ratio,
        "p95 ratio": one.merging_effect.p95_ratio,
        "window, s": one.window_s,
        "p50 without merges, ms": one.p50_s,
        "p95 without merges, ms": one.p95_s,
    }

    def told(name: str, r: "Ratio") -> Interval:
        scale = 1e3 if name.endswith("ms") else 1.0
        low, high = (None if end is None else scale * end for end in (r.low, r.high))
        return Interval(scale * r.value, low, high)

    return {name: None if r is None else told(name, r) for name, r in known.items()}


def _known(figure: "Interval | None") -> bool:
    """Whether it has an interval."""
    return figure is not None and figure.low is not None and figure.low > 0


def _recorded(
    asked: Asked, signals: "StopSignals", console: "Console", wants_plain: bool
) -> "tuple[Record | None, bool]":
    """Every block played that can be, and whether that is all; None when there was to be none."""
    from sidecar.held import held
    from sidecar.load import Anchor
    from sidecar.server import changed, check_same
    from slackwater.cli.saying import Saying
    from slackwater.testbed.signals import Interrupted

    kept = None if asked.resume is None else _reopened(asked.resume, asked)
    if kept is not None and (kept.whole or not asked.server.given):
        return kept, True
    with contextlib.ExitStack() as stack:
        path = asked.resume or _new_path(asked)
        stack.enter_context(held(path))
        if kept is not None:
            # Another process may have gone on with it until now.
            kept = _reopened(path, asked)
        say = Saying(console, wants_plain)
        stack.callback(say.end)
        # On the disk of the record: /tmp is memory on many machines.
        work = stack.enter_context(working(path.parent, PREFIX, say.word))
        anchor = Anchor.now()
        seed = asked.seed if kept is None else kept.set_up.design.seed
        merging = _merging(replace(asked, seed=seed), anchor, work.scratch)
        if kept is None:
            # What is wrong with it is known before any server is asked.
            _design(asked, merging, asked.rate_per_s or 1.0)
        else:
            _check_same(kept, merging)
            check_same(kept.set_up.endpoint, server_of(asked.server), kept.path)

        def told(text: str) -> None:
            signals.check()
            say.word(text)

        try:
            endpoint = endpoint_of(asked.server, work.logs / VLLM_LOG, stack, told)
            server = server_of(asked.server, endpoint)
            if kept is None:
                load = _load(asked, endpoint, signals, say)
                record = _new_record(path, asked, endpoint, server, load, merging, anchor)
            else:
                record = kept
                if words := changed(kept.set_up.endpoint, server):
                    say.word(words)
        except Interrupted:
            return kept, False
        return record, _play(record, endpoint, merging, anchor, signals, say)


def _reopened(path: Path, asked: Asked) -> "Record":
    """A record to go on with, of the load that it is to be compared under."""
    from sidecar.experiment.record import Record

    record = Record.reopen(path)
    if asked.compare is not None:
        _check_load(record, asked)
    return record


def _new_path(asked: Asked) -> Path:
    """Where a new record goes; raises `InputError` where one is there."""
    from sidecar.experiment.record import check_new

    profile = asked.output
    if profile is None:
        RUNS_DIR.mkdir(exist_ok=True)
        profile = RUNS_DIR / f"calibrate-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    path = profile.with_name(profile.name + ".jsonl")
    check_new(path)
    return path


def _check_load(record: "Record", asked: Asked) -> None:
    """Refuse to compare a profile with what was measured under another load."""
    design = record.set_up.design
    there = (design.rate_per_s, design.prompt_tokens, design.output_tokens)
    wanted = (asked.rate_per_s, asked.prompt_tokens, asked.output_tokens)
    if there != wanted:
        words = "{:g} requests/s of {} + {} tokens"
        msg = (
            f"--resume {record.path} is of {words.format(*there)}, and --compare {asked.compare} "
            f"of {words.format(*wanted)}: they would not be alike; leave --resume out"
        )
        raise InputError(msg)


def _check_same(record: "Record", merging: "Merging") -> None:
    """Refuse to go on with other merges: no figure would say that there were two kinds."""
    if merging.name != record.set_up.merging:
        msg = (
            f"--resume {record.path} was begun with {record.set_up.merging}, and these options "
            f"make {merging.name}; give those of then (--learners, --parameters, --effect-free, "
            "--merge-command)"
        )
        raise InputError(msg)


def _play(
    record: "Record",
    endpoint: "Endpoint",
    merging: "Merging",
    anchor: "Anchor",
    signals: "StopSignals",
    say: "Saying",
) -> bool:
    from sidecar.experiment.play import Experiment
    from sidecar.load import Limits
    from slackwater.testbed.signals import Interrupted

    try:
        say.word("starting the learners")
        merging.start(signals.check)
        experiment = Experiment(
            record=record,
            endpoint=endpoint,
            merging=merging,
            anchor=anchor,
            stopping=lambda: signals.first is not None,
            show=lambda now: say.progress(_line(now), None),
            limits=Limits(timeout_s=TIMEOUT_S),
            hastening=lambda: signals.hasten,
            say=say.word,
        )
        return experiment.run()
    except Interrupted:
        return False
    finally:
        merging.stop()


def _merging(asked: Asked, anchor: "Anchor", folder: Path) -> "Merging":
    from sidecar.experiment.led import Learners, LedLearners
    from sidecar.experiment.merging import CommandMerging

    if asked.merge_command is not None:
        return CommandMerging(asked.merge_command, anchor)
    learners = Learners(
        number=asked.learners,
        parameters=asked.parameters,
        effect_free=asked.effect_free,
        seed=asked.seed,
    )
    return LedLearners(learners, anchor, folder)


@dataclass(frozen=True, kw_only=True)
class _Load:
    """Requests a second; and how many the server answers one at a time, None if not measured."""

    rate_per_s: float
    alone_per_s: float | None


def _load(asked: Asked, endpoint: "Endpoint", signals: "StopSignals", say: "Saying") -> _Load:
    """The rate that was asked for, or a share of what the server answers one at a time."""
    from sidecar.load import Limits
    from sidecar.load.alone import answers_alone_per_s

    signals.check()
    if asked.rate_per_s is not None:
        return _Load(rate_per_s=asked.rate_per_s, alone_per_s=None)
    say.word("asking the server, one request at a time")
    alone_per_s = answers_alone_per_s(
        endpoint,
        prompt_tokens=asked.prompt_tokens,
        output_tokens=asked.output_tokens,
        check=signals.check,
        limits=Limits(timeout_s=TIMEOUT_S),
    )
    return _Load(rate_per_s=float(f"{BUSY * alone_per_s:.2g}"), alone_per_s=alone_per_s)


def _design(asked: Asked, merging: "Merging", rate_per_s: float) -> "Design":
    """What is to be played; raises `InputError`."""
    from sidecar.experiment.design import Design, fitting

    rounds, block_s = fitting(asked.minutes, merging.arms)
    return Design(
        arms=merging.arms,
        rounds=rounds,
        block_s=block_s,
        rate_per_s=rate_per_s,
        prompt_tokens=asked.prompt_tokens,
        output_tokens=asked.output_tokens,
        seed=asked.seed,
    )


def _new_record(
    path: Path,
    asked: Asked,
    endpoint: "Endpoint",
    server: "Server",
    load: _Load,
    merging: "Merging",
    anchor: "Anchor",
) -> "Record":
    from sidecar.experiment.host import hardware, versions
    from sidecar.experiment.record import Record, SetUp

    set_up = SetUp(
        started_us=anchor.now_us(),
        design=_design(asked, merging, load.rate_per_s),
        server=f"{endpoint.model} at {endpoint.base}",
        endpoint=server,
        merging=merging.name,
        hardware=hardware(),
        versions=versions(server.version),
        options={
            "slo_s": asked.slo_s,
            "minutes": asked.minutes,
            "alone_per_s": load.alone_per_s,
        },
    )
    return Record.open_new(path, set_up)


def _line(now: "Progress") -> str:
    """One line on a block: what is played, and how much of all is left."""
    from slackwater.cli.calibrate_output import ARM_WORDS

    return (
        f"{ARM_WORDS.get(now.what, now.what)}; {now.requests:,} requests, {now.merges} merges; "
        f"{now.left_s / 60:.1f} min left"
    )
