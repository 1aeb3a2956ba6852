"""Tuned settings in an evaluation: whose they are, and no claim on traffic that they have seen."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.cli.evaluate_figures import read_file
from slackwater.errors import InputError
from slackwater.printable import printable

if TYPE_CHECKING:
    from calibration.tuning.tuned import Tuned
    from calibration.verdict import Verdict
    from controller.settings import ControllerSettings
    from slackwater.cli.evaluate_sources import Traffic

STEP = "unseen traffic"


@dataclass(frozen=True, slots=True)
class TunedFile:
    """A file of tuned settings, and its hash."""

    path: Path
    sha256: str
    tuned: "Tuned"

    def applied(self, base: "ControllerSettings") -> "ControllerSettings":
        """The settings of an evaluation's corridor, with those tuned."""
        from calibration.tuning.space import with_values

        return with_values(base, self.tuned.settings, f"--settings {self.path}")

    def seen(self, load: str, traffic: "Sequence[Traffic]") -> list[str]:
        """Names of the sources, of those to be judged, that the search saw."""
        return [
            printable(one.source.name)
            for one in traffic
            for trained in self.tuned.training
            if trained.same_as(one.sha256, load, one.seed)
        ]

    def record(self) -> dict[str, Any]:
        """What the evaluation's document says of it."""
        return {
            "path": printable(str(self.path)),
            "sha256": self.sha256,
            "policy": self.tuned.policy,
            "settings": self.tuned.settings,
        }


def tuned_by_policy(paths: Sequence[Path]) -> dict[str, TunedFile]:
    """The files of tuned settings; raises `InputError` for two of one policy."""
    from calibration.tuning.tuned import decode_tuned

    found: dict[str, TunedFile] = {}
    for path in paths:
        text = read_file(path, "--settings")
        tuned = decode_tuned(text, f"--settings {path}")
        if tuned.policy in found:
            first = found[tuned.policy].path
            msg = f"--settings {first} and {path} are both for {tuned.policy}; give one a policy"
            raise InputError(msg)
        found[tuned.policy] = TunedFile(path, hashlib.sha256(text).hexdigest(), tuned)
    return found


def unclaimed(
    verdicts: "Sequence[Verdict]",
    tuned: Mapping[str, TunedFile],
    load: str,
    traffic: "Sequence[Traffic]",
) -> "list[Verdict]":
    """The verdicts, with none of a policy on traffic that its settings were tuned on.

    Each tuned policy's steps say whether its traffic was unseen.
    """
    return [
        _checked(v, tuned[v.policy], load, traffic) if v.policy in tuned else v for v in verdicts
    ]


def _checked(
    verdict: "Verdict", file: TunedFile, load: str, traffic: "Sequence[Traffic]"
) -> "Verdict":
    from calibration.gate import Step

    seen = file.seen(load, traffic)
    if not seen:
        reason = f"no run is of the traffic that {printable(file.path.name)} was tuned on"
        step = Step(STEP, passed=True, figures={"sources_seen": 0}, reason=reason)
        return replace(verdict, steps=(*verdict.steps, step))
    reason = f"its settings were tuned on {_few(seen)}: judge them on other traffic"
    step = Step(STEP, passed=False, figures={"sources_seen": len(seen)}, reason=reason)
    steps = (*verdict.steps, step)
    return replace(verdict, verdict="no claim", tier="none", steps=steps, reason=reason)


def notes_of(
    tuned: Mapping[str, TunedFile], load: str, traffic: "Sequence[Traffic]"
) -> tuple[str, ...]:
    """What a person should know of the tuned settings that ran on this load."""
    told = []
    for policy, file in tuned.items():
        named = ", ".join(f"{name} {value:g}" for name, value in file.tuned.settings.items())
        told.append(f"{policy} runs by {printable(file.path.name)}: {named}")
        seen = file.seen(load, traffic)
        if seen:
            told.append(f"{policy} was tuned on {_few(seen)}, so nothing is claimed of it here")
    return tuple(told)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
