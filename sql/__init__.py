"""Plain SQL over a run log, to run by hand or by name, and how Python finds it.

`schema.sql` makes the tables, `macros/`, `staging/` and `sampling/` are what the rest is built
of, `marts/` are views and `analyses/` are queries that each answer the question in their first
line, and `comments.sql` says what the columns of the views mean.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SCHEMA_VERSION = 4
VIEW_FOLDERS = ("macros", "staging", "sampling", "marts")
START_HERE = (
    *("slo", "merge_agreement", "timeline", "late_merges", "health", "forecast"),
    *("merge_times", "traffic", "harm"),
)
COMPARED = (
    *("envelope", "placement_gain", "sign_flip", "excess_violation"),
    "switchback_intervals",
)
NEED_EVALUATION = ("matched_random_envelope",)


@dataclass(frozen=True, slots=True)
class Script:
    """One file of SQL: its name without `.sql`, its folder, its question and its text.

    `about` is all that its head says, the question included.
    """

    name: str
    folder: str
    question: str
    about: str
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
    return tuple(_script(name, folder, text) for name, text in sorted(texts))


def definitions() -> str:
    """The statements that make or renew every macro and view, in the order they need."""
    return "\n".join(
        script.text for folder in VIEW_FOLDERS for script in _needed_first(scripts(folder))
    )


def views() -> str:
    """`definitions`, and the comments that say what each view and column means."""
    comments = files(__name__).joinpath("comments.sql").read_text(encoding="utf-8")
    return f"{definitions()}\n{comments}"


def listed() -> dict[str, list[Script]]:
    """The analyses and the views that answer a question, by heading, in the order to try them."""
    by_name = {s.name: s for folder in ("analyses", "marts") for s in scripts(folder)}
    first = [by_name.pop(name) for name in START_HERE]
    compared = [by_name.pop(name) for name in COMPARED]
    last = [by_name.pop(name) for name in NEED_EVALUATION]
    return {
        "start here": first,
        "was placement worth anything": compared,
        "in detail": [*by_name.values()],
        "needs an evaluation": last,
    }


def _needed_first(given: tuple[Script, ...]) -> Iterator[Script]:
    """The scripts of one folder, each after those of it whose names it mentions."""
    waiting = list(given)
    while waiting:
        ready = [s for s in waiting if not any(_mentions(s, other) for other in waiting)]
        if not ready:
            msg = f"{', '.join(s.name for s in waiting)} need one another"
            raise ValueError(msg)
        yield from ready
        waiting = [s for s in waiting if s not in ready]


def _mentions(script: Script, other: Script) -> bool:
    """Whether the statements of a script, its comments apart, name another one."""
    code = re.sub(r"--.*", "", script.text)
    return other is not script and re.search(rf"\b{other.name}\b", code) is not None


def _script(name: str, folder: str, text: str) -> Script:
    head = re.match(r"(?:--.*\n)+", text)
    lines = [line.removeprefix("--").strip() for line in head[0].splitlines()] if head else [""]
    about = lines[0] if lines[0].endswith((".", "?")) else f"{lines[0]}."
    return Script(name, folder, lines[0], " ".join([about, *lines[1:]]), text)
