"""`slackwater schema`: write or check the published schema of the events."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.errors import InputError, SlackwaterError


def schema(
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write JSON Schema and AsyncAPI files into this folder."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Fail when a file in this folder is not current."),
    ] = None,
) -> None:
    """Write or check the published schema of the events (JSON Schema and AsyncAPI 3.0)."""
    from slackwater import schema as published

    if (write is None) == (check is None):
        msg = "give --write DIR or --check DIR, one of the two"
        raise InputError(msg)
    if write is not None:
        _write(write)
    elif check is not None and (old := published.stale(check)):
        msg = f"not current in {check}: {', '.join(old)}; run slackwater schema --write {check}"
        raise SlackwaterError(msg)


def _write(folder: Path) -> None:
    from slackwater import schema as published

    try:
        for path in published.write(folder):
            typer.echo(path)
    except OSError as error:
        msg = f"cannot write into {folder}: {error.strerror}; choose a folder you may write to"
        raise InputError(msg) from None
