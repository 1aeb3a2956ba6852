"""`slackwater reproduce`: a row for every published figure, JSON of the same, and clear errors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from calibration.published import PUBLISHED, REGIMES
from slackwater.cli import main

pytestmark = pytest.mark.slow


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(sys, "argv", ["slackwater", "reproduce", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code if isinstance(end.value.code, int) else 0


def test_every_published_figure_has_a_row_and_ours_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for out in (first, second):
        assert ended(monkeypatch, "--runs", 1, "--draws", 20, "--json", out) == 0
    lines = capsys.readouterr().out.splitlines()
    for row in PUBLISHED:
        assert any(row.label in line and row.difference in line for line in lines)
    assert lines[-1] == (
        "note: 1 run a regime cannot show a p under 5 %, 100 % at the least: take --runs 6 or more"
    )
    table = lines[: lines.index("why they may differ:")]
    assert len([line for line in table if line.strip()]) == 1 + 1 + len(REGIMES) + len(PUBLISHED)
    assert not [line for line in lines if "None" in line or "nan" in line]
    written: dict[str, Any] = json.loads(first.read_text())
    assert written == json.loads(second.read_text())
    assert written["schema_version"] == 1
    assert written["configuration"] == {"runs": 1, "draws": 20, "seed": 0}
    assert [one["regime"] for one in written["regimes"]] == list(REGIMES)
    figures = [figure for one in written["regimes"] for figure in one["figures"]]
    assert [figure["published"]["label"] for figure in figures] == [row.label for row in PUBLISHED]
    unknown = [f["published"]["key"] for f in figures if f["ours"]["value"] is None]
    assert unknown == ["gaining"]


def test_page_shows_every_published_figure_as_it_is_printed() -> None:
    page = Path(__file__).parents[2] / "docs" / "reproduce.md"
    lines = page.read_text().splitlines()
    for row in PUBLISHED:
        shown = row.said or f"{row.value:.3g}"
        assert any(line.startswith(f"  {row.label} ") and shown in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--runs", 0), "--runs is 0; it must be 1 or more"),
        (("--draws", 0), "--draws is 0; it must be 1 or more"),
        (("--seed", -1), "--seed is -1; it must be 0 or more"),
        (("--json", "/no/such/folder/x.json"), "a folder that exists"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[object, ...],
    said: str,
) -> None:
    assert ended(monkeypatch, *arguments) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert said in told.err
    assert told.out == ""
