"""One learner process from settings to summary: join the group, attach, train, leave."""

import contextlib
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from slackwater.attach import Attachment, Corridor, HostPressure
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from trainer.join import Place, StoppedError
from trainer.learner import Learner, LearnerSummary
from trainer.peers import Peers
from trainer.settings import LearnerSettings
from trainer.text import Shard, read_text
from trainer.training import Training

log = logging.getLogger("trainer")


def run_learner(
    settings: LearnerSettings,
    run: RunSettings,
    clock: RunClock,
    place: Place,
    *,
    stopping: Callable[[], bool],
    ready: Callable[[], None],
) -> LearnerSummary:
    """Train until a limit or `stopping`; what was done is in the summary, in any case.

    `ready` is called once the group is together. Raises `InputError` for what cannot be used,
    `JoinError` when the others do not come, `CheckpointError` when a checkpoint cannot be
    written.
    """
    settings.check()
    settings.check_place(place.rank, place.world_size)
    corridor = Corridor(settings.min_gap_steps, settings.max_gap_steps)
    # Learners share the host with what they must not disturb: one core each, at most.
    torch.set_num_threads(1)
    shard = Shard.cut(read_text(settings.text), place.rank, place.world_size)
    training = Training(settings, shard, place.rank)
    with contextlib.ExitStack() as stack:
        folder = _checkpoint_folder(settings.checkpoint_dir, stack)
        path = folder / f"{settings.learner}.safetensors"
        peers = Peers(
            settings.participants,
            place,
            quorum=settings.needed,
            room=f"{run.run_id}/{run.group}",
            timeout_s=settings.peer_timeout_s,
            join_timeout_s=settings.join_timeout_s,
            stopping=stopping,
        )
        attachment = Attachment(
            run,
            settings.learner,
            settings.participants,
            corridor,
            clock,
            quorum=settings.needed,
            pressure=HostPressure(network_bytes_per_s=settings.network_bytes_per_s),
        )
        learner = Learner(
            settings, training, attachment, peers, checkpoint=path, clock=clock, stopping=stopping
        )
        if settings.resume and path.exists():
            # Before the others compare their first weights with these.
            learner.diloco.load(path)
        # The attachment last: it has to report a merge that ends as the learner does.
        with attachment, contextlib.ExitStack() as joined:
            try:
                joined.enter_context(learner.diloco)
            except StoppedError as stopped:
                log.info("%s ends before its first step: %s", settings.learner, stopped)
            else:
                if not stopping():
                    ready()
                learner.run()
        return learner.summary()


def _checkpoint_folder(given: Path | None, stack: contextlib.ExitStack) -> Path:
    if given is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slackwater-")))
    try:
        given.mkdir(exist_ok=True)
    except OSError as error:
        msg = f"cannot make --checkpoint-dir {given}: {error.strerror}; choose another folder"
        raise InputError(msg) from None
    return given
