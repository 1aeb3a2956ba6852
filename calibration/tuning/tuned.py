"""Tuned settings as a versioned JSON document: what was found, how, and on which traffic."""

import re
from typing import Any, Literal

import msgspec

from calibration.tuning.space import space_of
from slackwater.errors import InputError

SCHEMA_VERSION: Literal[1] = 1
KIND: Literal["slackwater tuned settings"] = "slackwater tuned settings"
SHA256 = re.compile("[0-9a-fA-F]{64}")


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One source that the search saw: a file by its hash, or a generated run by regime and seed."""

    name: str
    runs: int
    requests: int
    sha256: str | None = None
    regime: str | None = None
    seed: int | None = None

    def same_as(self, sha256: str | None, regime: str | None, seed: int | None) -> bool:
        """Whether this is the same file, or the same regime with the same seed."""
        if self.sha256 is not None:
            return sha256 is not None and self.sha256.lower() == sha256.lower()
        return (self.regime, self.seed) == (regime, seed)


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Means over runs: merges, harmed in %, gain as a share and in points; capture of all."""

    runs: int
    budget: float
    cost_pp: float
    gain: float
    gain_pp: float
    capture: float | None
    objective: float
    pinned_runs: int


class Scores(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Default and tuned on the training runs, and by cross-validation; None without it.

    `held_out_tuned` are the settings found without a fold, on that fold's runs: what tuning is
    worth on traffic of this kind that it has not seen.
    """

    training_default: Summary
    training_tuned: Summary
    held_out_default: Summary | None = None
    held_out_tuned: Summary | None = None


class Search(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the search was made, so that it can be made again."""

    seed: int
    random_candidates: int
    rounds: int
    folds: int
    candidates_scored: int
    objective: str
    guard: str
    smallest_budget: int
    largest_budget: int
    parameters: list[dict[str, Any]]
    folds_found: list[dict[str, float]]


class Tuned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of tuned settings.

    Attributes:
        kind: what the document is.
        schema_version: of this document.
        policy: whose settings they are.
        settings: by dotted name in the controller's settings.
        conditions: corridor and serving model that they were found under.
        training: every source that the search saw.
        search: its configuration.
        scores: default and tuned.
        versions: of what the figures depend on.
    """

    kind: Literal["slackwater tuned settings"]
    schema_version: Literal[1]
    policy: str
    settings: dict[str, float]
    conditions: dict[str, Any]
    training: list[Training]
    search: Search
    scores: Scores
    versions: dict[str, str]


class _Versioned(msgspec.Struct, frozen=True):
    kind: str
    schema_version: int


def decode_tuned(text: bytes | str, where: str) -> Tuned:
    """Read tuned settings from JSON; `where` names the source in messages.

    Raises `InputError` for text that is no such document, another version, settings that are not
    this policy's, and a training list that does not name its traffic. A list that names other
    traffic cannot be told from a true one.
    """
    try:
        head = msgspec.json.decode(text, type=_Versioned)
        if head.kind != KIND or head.schema_version != SCHEMA_VERSION:
            msg = (
                f"{where}: {head.kind!r}, schema_version {head.schema_version}; this slackwater "
                f"reads {KIND!r}, {SCHEMA_VERSION}"
            )
            raise InputError(msg)
        tuned = msgspec.json.decode(text, type=Tuned)
    except msgspec.MsgspecError as error:
        msg = f"{where}: no file of tuned settings: {error}; make one with slackwater tune"
        raise InputError(msg) from None
    known = [parameter.name for parameter in space_of(tuned.policy)]
    for name in tuned.settings:
        if name not in known:
            msg = f"{where}: {name} is none of {tuned.policy}'s settings: {', '.join(known)}"
            raise InputError(msg)
    _check_training(tuned.training, where)
    return tuned


def _check_training(training: list[Training], where: str) -> None:
    """Refuse a file that does not say what it was tuned on: no traffic could then be unseen."""
    if not training:
        msg = f"{where}: training names no traffic; make the file again with slackwater tune"
        raise InputError(msg)
    for one in training:
        generated = one.regime is not None and one.seed is not None
        if one.sha256 is not None and not SHA256.fullmatch(one.sha256):
            wrong = f"sha256 is {one.sha256[:70]!r}; it must be 64 hexadecimal digits"
        elif one.sha256 is None and not generated:
            wrong = "neither a file's sha256 nor regime and seed are given"
        else:
            continue
        msg = f"{where}: training {one.name!r}: {wrong}; make the file again with slackwater tune"
        raise InputError(msg)


def encode_tuned(tuned: Tuned) -> bytes:
    """The document as indented JSON, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(tuned), indent=2) + b"\n"
