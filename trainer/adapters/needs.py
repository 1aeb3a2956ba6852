"""What an adapter needs of the library that it adapts, checked before anything of it is used."""

import importlib
import logging
from importlib import metadata
from types import ModuleType

from slackwater.errors import InputError

log = logging.getLogger("trainer.adapters")


def library(module: str, requirement: str) -> ModuleType:
    """Import `module`; raises `InputError` that names `requirement` when it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        name = module.partition(".")[0]
        msg = f"{name} is not installed; pip install '{requirement}'"
        raise InputError(msg) from None


def check_names(
    distribution: str, fits: str, owner: object, names: tuple[str, ...], what: str
) -> None:
    """Raise `InputError` when `owner` lacks one of the private names that an adapter uses.

    Args:
        distribution: as pip knows it.
        fits: the release whose names these are.
        owner: a class or an object of the library.
        names: attributes of it.
        what: what `owner` is called, for the message.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        msg = (
            f"this adapter fits {distribution} {fits}, and {distribution} {release(distribution)} "
            f"has no {what}.{missing[0]}; pip install --no-deps {distribution}=={fits}"
        )
        raise InputError(msg)


def warn_of_another_release(distribution: str, fits: str) -> None:
    """Say so when another release is installed than the one that an adapter was written for."""
    found = release(distribution)
    if found != fits:
        text = "%s %s is installed; this adapter was tried with %s alone"
        log.warning(text, distribution, found, fits)


def release(distribution: str) -> str:
    """The installed release; `of unknown release` where pip does not know the distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "of unknown release"
