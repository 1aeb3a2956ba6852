"""`slackwater plan`: runs that a gain needs, and what the runs at hand could show."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.cli import main

SHORT = ("--segment", 60, "--max-gap", 40)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["slackwater", "plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        out, error = capsys.readouterr()
        return (code if isinstance(code, int) else 0, " ".join(out.split()), error)

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    at_s = np.sort(np.random.default_rng(1).uniform(0, 500, 2000))
    row = {"input_length": 100, "output_length": 20, "hash_ids": []}
    rows = [{"timestamp": round(1000 * at), **row} for at in [*at_s, 500.0]]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("policy", [(), ("--policy", "fixed_h")])
def test_trace_says_what_it_holds_and_what_that_could_show(
    plan: Any, trace: Path, tmp_path: Path, policy: tuple[str, ...]
) -> None:
    out = tmp_path / "plan.json"
    code, told, _ = plan(trace, "--gain", 50, *SHORT, *policy, "--json", out)
    assert code == 0
    assert "8 runs of 60 s are held, which are enough to show 50 pp: 6 are needed" in told
    assert "trace.jsonl: segments of one trace are no independent runs" in told
    written = json.loads(out.read_text())
    assert (written["pilot_runs"], written["independent"]) == (8, False)
    assert (written["pilot_mean_gain_pp"] is None) == (not policy)
    assert [one["held"] for one in written["lengths"]] == [8, 4, 2]
    first, *longer = written["lengths"]
    assert first["runs"] == 6
    assert 0 < first["detectable_pp"] < 50
    assert [one["detectable_pp"] for one in longer] == [None, None]

    _, told, _ = plan(trace, "--gain", first["detectable_pp"] / 4, *SHORT, *policy)
    assert "too few to show" in told


def test_runs_of_a_regime_are_independent(plan: Any, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    asked = ("--regime", "constant", "--runs", 6, "--gain", 1, *SHORT, "--json", out)
    code, told, _ = plan(*asked)
    assert code == 0
    assert "no independent runs" not in told
    assert json.loads(out.read_text())["independent"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--regime", "constant", "--gain", 0), "--gain is 0; it must be above 0"),
        (("--regime", "constant", "--gain", 1, "--power", 1), "--power is 1"),
        (("--regime", "constant", "--gain", 1, "--max-runs", 5), "--max-runs is 5"),
        (("--regime", "constant", "--gain", 1, "--runs", 5), "give --runs 6 or more"),
        (("--regime", "constant", "--gain", 1, "--policy", "best"), "there is no policy 'best'"),
        (("--regime", "constant"), "Missing option '--gain'"),
    ],
)
def test_mistakes_end_in_one_line(plan: Any, arguments: tuple[object, ...], said: str) -> None:
    code, told, error = plan(*arguments)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert said in error


def test_too_few_segments_say_what_to_do(plan: Any, trace: Path) -> None:
    code, _, error = plan(trace, "--gain", 1, "--segment", 100)
    assert code == 2
    assert "4 segments of 100 s" in error
    assert "take --segment 83 or less" in error
    assert plan(trace, "--gain", 1, "--segment", 83)[0] == 0
