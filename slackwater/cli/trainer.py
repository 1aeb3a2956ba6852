"""`slackwater trainer`: the reference DiLoCo learner, one process a learner."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import InputError

if TYPE_CHECKING:
    from trainer.learner import LearnerSummary

LOG_FORMAT = "%(asctime)s %(name)s: %(message)s"


def trainer(
    learner: Annotated[str, typer.Option(help="This learner's name.")],
    participants: Annotated[
        str | None,
        typer.Option(
            help="The learners that are expected, by rank and comma-separated; more than one "
            "needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them.",
            show_default="this one alone",
        ),
    ] = None,
    quorum: Annotated[
        int | None,
        typer.Option(
            help="Fewer learners than this do not merge: they train on and say so.",
            show_default="more than half of the participants",
        ),
    ] = None,
    parameters: Annotated[
        int, typer.Option(help="Size of the model, in parameters of 4 bytes.")
    ] = 8_000_000,
    step_s: Annotated[
        float,
        typer.Option(
            help="Shortest inner step, in seconds of wall time; what is left of it is slept, "
            "standing for the learner's own accelerator."
        ),
    ] = 0.03,
    min_gap_steps: Annotated[
        int, typer.Option(help="H_min: no commanded merge comes sooner after another, in steps.")
    ] = 128,
    max_gap_steps: Annotated[
        int, typer.Option(help="H_max: a merge comes by then, commanded or not, in steps.")
    ] = 512,
    max_steps: Annotated[
        int | None, typer.Option(help="End after so many steps.", show_default="no limit")
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(help="End after so many seconds of wall time.", show_default="no limit"),
    ] = None,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the checkpoint.",
            show_default="one that goes at the end",
        ),
    ] = None,
    checkpoint_every_steps: Annotated[
        int | None,
        typer.Option(
            help="Write the checkpoint also after so many inner steps without one, and at the end.",
            show_default="at merges alone",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint in --checkpoint-dir, bit for bit; from the start when "
            "there is none.",
        ),
    ] = False,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Text to train on.",
            show_default="Python's language reference",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of first weights and data order; equal for all learners.")
    ] = 0,
    peer_timeout: Annotated[
        float,
        typer.Option(
            help="How long a merge may take, waiting for others included, before it is skipped; "
            "in seconds of wall time."
        ),
    ] = 10.0,
    join_timeout: Annotated[
        float,
        typer.Option(help="How long to wait for the others at the start, in seconds of wall time."),
    ] = 60.0,
    network_bytes_per_s: Annotated[
        float | None,
        typer.Option(
            help="What the network can carry in one direction, in bytes a second; its pressure is "
            "reported as a share of it.",
            show_default="unknown",
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Kafka broker; KAFKA_BOOTSTRAP_SERVERS if not given."
        ),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="An empty file to create once all learners are there."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a small language model that merges when it is told to, and at H_max by itself.

    It trains on while the broker is away, and alone when its peers are gone.
    """
    from slackwater.clock import RunClock
    from slackwater.settings import RunSettings
    from slackwater.testbed.signals import StopSignals

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    run = RunSettings.from_env(bootstrap=kafka)
    clock = RunClock.from_env()
    require_torch()
    from trainer.join import Place
    from trainer.run import run_learner
    from trainer.settings import LearnerSettings

    settings = LearnerSettings(
        learner=learner,
        participants=participants.split(",") if participants else [learner],
        quorum=quorum,
        parameters=parameters,
        step_s=step_s,
        min_gap_steps=min_gap_steps,
        max_gap_steps=max_gap_steps,
        max_steps=max_steps,
        duration_s=duration,
        checkpoint_dir=checkpoint_dir,
        checkpoint_every_steps=checkpoint_every_steps,
        resume=resume,
        text=text,
        seed=seed,
        peer_timeout_s=peer_timeout,
        join_timeout_s=join_timeout,
        network_bytes_per_s=network_bytes_per_s,
    )
    with StopSignals() as signals:
        summary = run_learner(
            settings,
            run,
            clock,
            Place.from_env(),
            stopping=lambda: signals.first is not None,
            ready=lambda: touch(ready_file),
        )
        _show(summary, json)


def require_torch() -> None:
    """Raise `InputError` where torch is not installed."""
    # torch's own C++ warnings about a peer that is gone say less than the log line does.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        msg = "the learner needs torch; pip install 'slackwater-server[trainer]'"
        raise InputError(msg) from None


def touch(path: Path | None) -> None:
    """Make a ready file; raises `InputError` where it cannot be."""
    if path is None:
        return
    try:
        path.touch()
    except OSError as error:
        msg = f"cannot create --ready-file {path}: {error.strerror}; choose another path"
        raise InputError(msg) from None


def _show(summary: "LearnerSummary", json: bool) -> None:
    import msgspec

    if json:
        typer.echo(msgspec.json.encode(summary).decode())
        return
    for name, value in msgspec.to_builtins(summary).items():
        typer.echo(f"{name:>18}  {value}")
