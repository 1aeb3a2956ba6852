"""A report as its reader finds it: parsed, its texts, tables and drawings by what they say."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Self

import pytest

from slackwater.cli import main

SECTIONS = (
    "The envelope",
    "When each policy merged",
    "Gains, all policies",
    "The gate",
    "What may be claimed",
    "Who bears the harm",
    "Everything needed to repeat it",
)
VOID = {"meta", "br"}
HIDDEN = {"style", "title"}


def run_command(*arguments: object, code: int = 0) -> None:
    """Run the command line in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["slackwater", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code


class Page(HTMLParser):
    """`text` is what is read; `starts` are the elements with attributes and depth within svg."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.starts: list[tuple[str, dict[str, str], int]] = []
        self.attributes: list[tuple[str, str]] = []
        self._open: list[list[str]] = []
        self._tags: list[str] = []
        self._told: list[tuple[str, str, str]] = []
        self._rows: list[list[str]] = []
        self._text: list[str] = []
        self.feed(html)
        assert self._tags == []
        self.text = " ".join("".join(self._text).split())

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.attributes += list(known.items())
        self.starts.append((tag, known, self._tags.count("svg")))
        if tag == "tr":
            self._rows.append([])
        if tag not in VOID:
            self._tags.append(tag)
            self._open.append([known.get("class", "")])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._tags.pop() == tag
        kind, *parts = self._open.pop()
        text = " ".join("".join(parts).split())
        self._told.append((tag, kind, text))
        if tag in {"td", "th"}:
            self._rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        if not HIDDEN & set(self._tags):
            self._text.append(data)
            for parts in self._open:
                parts.append(data)

    def tags(self, tag: str, kind: str | None = None) -> list[dict[str, str]]:
        """The attributes of all such elements."""
        found = [attributes for name, attributes, _ in self.starts if name == tag]
        return [a for a in found if kind is None or a.get("class") == kind]

    def texts(self, tag: str, kind: str | None = None) -> list[str]:
        """The texts of all such elements, in order of their ends."""
        return [text for name, k, text in self._told if name == tag and kind in {None, k}]

    def rows(self) -> list[list[str]]:
        """The cells of every table row."""
        return self._rows

    def labels(self) -> list[str]:
        """What each drawing is called."""
        return [a["aria-label"] for tag, a, _ in self.starts if tag == "svg" and "aria-label" in a]
