"""The serving models by name, each made from a calibration profile."""

from collections.abc import Callable

import msgspec

from calibration.profile import Profile
from calibration.serving.closed_loop import ClosedLoop
from calibration.serving.concurrency import BurstSchedule
from calibration.serving.contract import ServingModel
from calibration.serving.overlap import Overlap
from calibration.serving.queue import Queue
from slackwater.errors import InputError


def _overlap(profile: Profile) -> Overlap:
    return Overlap(counting=profile.overlap.counting, slowdown=profile.overlap.slowdown)


def _closed_loop(profile: Profile) -> ClosedLoop:
    given, burst = profile.closed_loop, profile.closed_loop.schedule
    schedule = None if burst is None else BurstSchedule(**msgspec.structs.asdict(burst))
    return ClosedLoop(
        batch_s=given.batch_s,
        slowed_batch_s=given.slowed_batch_s,
        schedule=schedule,
        scatter=given.scatter,
        slowed_scatter=given.slowed_scatter,
    )


def _queue(profile: Profile) -> Queue:
    given = profile.queue
    return Queue(slots=given.slots, service_s=given.service_s, slowdown=given.slowdown)


MODELS: dict[str, Callable[[Profile], ServingModel]] = {
    "overlap": _overlap,
    "closed_loop": _closed_loop,
    "queue": _queue,
}


def serving_model(name: str, profile: Profile) -> ServingModel:
    """The model of this name with the profile's figures.

    Raises `InputError` for an unknown name or figures that the model cannot work with.
    """
    if name not in MODELS:
        msg = f"no serving model is named {name!r}; there are {', '.join(MODELS)}"
        raise InputError(msg)
    return MODELS[name](profile)
