"""From options to settings: checked as a whole, so that one line says what is wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from controller.policies import policy_named
from controller.settings import ControllerSettings
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.policies import NO_POLICY
from slackwater.settings import RunSettings
from streams.settings import ROLES, StreamSettings

WALL_TIMES = ("command_lead_s", "learner_stale_s")
DEFAULT_SKEW_S = 60.0


def stream_settings(
    run: RunSettings,
    clock: RunClock,
    job: Mapping[str, Any],
    controller: Mapping[str, Any],
    assignments: Sequence[str] = (),
) -> StreamSettings:
    """Settings of a stream process; raises `InputError` naming the value that is wrong.

    `assignments` are `NAME=VALUE` or `controller.NAME=VALUE`, values as JSON or plain text; they
    win. How long a command travels and how long a learner may be silent or behind are times on the
    wall: event time that runs faster stretches them by the clock's speed.
    """
    tree: dict[str, Any] = {**job, "controller": {"group": run.group, **controller}}
    for assignment in assignments:
        _assign(tree, assignment)
    defaults = ControllerSettings()
    for name in WALL_TIMES:
        given = tree["controller"].get(name, getattr(defaults, name))
        tree["controller"][name] = clock.speed * _number(name, given)
    tree["skew_s"] = clock.speed * _number("skew_s", tree.get("skew_s", DEFAULT_SKEW_S))
    settings = _convert({**tree, "run": msgspec.to_builtins(run)})
    commander = () if settings.policy == NO_POLICY else (settings.policy,)
    for name in (*commander, *settings.shadow):
        policy_named(name)
    return settings


def _convert(tree: dict[str, Any]) -> StreamSettings:
    unknown = sorted(set(tree["roles"]) - set(ROLES)) if "roles" in tree else []
    if unknown:
        msg = f"role {unknown[0]!r} is not known; choose from {', '.join(ROLES)}"
        raise InputError(msg)
    try:
        return msgspec.convert(tree, StreamSettings, dec_hook=_path)
    except msgspec.ValidationError as error:
        msg = f"a stream setting cannot be used: {error}"
        raise InputError(msg) from None


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError


def _number(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    msg = f"{name} is {value!r}; it must be a number of seconds"
    raise InputError(msg)


def _assign(tree: dict[str, Any], assignment: str) -> None:
    path, equals, text = assignment.partition("=")
    if not equals or not path:
        msg = f"--set {assignment!r}: it must be NAME=VALUE or controller.NAME=VALUE"
        raise InputError(msg)
    if path in {"run", "controller"} or path.startswith("run.") or path == "controller.group":
        msg = f"--set {assignment!r}: {path} cannot be set; the environment names the run"
        raise InputError(msg)
    *parents, name = path.split(".")
    place = tree
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            msg = f"--set {assignment!r}: {parent} has no settings of its own"
            raise InputError(msg)
    try:
        place[name] = msgspec.json.decode(text)
    except msgspec.DecodeError:
        place[name] = text
