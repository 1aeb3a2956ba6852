"""Plain SQL over a run log, to run by hand or by name, and how Python finds it.

`schema.sql` makes the tables, `macros/` and `staging/` are what the rest is built of, `marts/`
are views and `analyses/` are queries that each answer the question in their first line.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SCHEMA_VERSION = 1
VIEW_FOLDERS = ("macros", "staging", "marts")


@dataclass(frozen=True, slots=True)
class Script:
    """One file of SQL: its name without `.sql`, its folder, its question and its text."""

    name: str
    folder: str
    question: str
    text: str


def schema() -> str:
    """The statements that make the tables of an empty database."""
    return files(__name__).joinpath("schema.sql").read_text(encoding="utf-8")


@cache
def tables() -> tuple[str, ...]:
    """The names of the tables, in the order in which they are made."""
    return tuple(re.findall(r"^CREATE TABLE (\w+)", schema(), re.MULTILINE))


@cache
def scripts(folder: str) -> tuple[Script, ...]:
    """The scripts of `macros`, `staging`, `marts` or `analyses`, by name."""
    found = [f for f in files(__name__).joinpath(folder).iterdir() if f.name.endswith(".sql")]
    texts = ((f.name.removesuffix(".sql"), f.read_text(encoding="utf-8")) for f in found)
    return tuple(Script(name, folder, _question(text), text) for name, text in sorted(texts))


def views() -> str:
    """The statements that make or renew every macro and view, in the order they need."""
    return "\n".join(script.text for folder in VIEW_FOLDERS for script in scripts(folder))


def _question(text: str) -> str:
    return text.split("\n", 1)[0].removeprefix("--").strip()
