"""`slackwater evaluate`: tables, JSON, and errors of one clear line."""

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from slackwater.cli import main

TRACES = Path(
    os.environ.get("SLACKWATER_TRACES") or Path(__file__).parents[3] / "shared" / "traces"
)
SHORT = ("--segment", 120, "--draws", 200)


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["slackwater", "evaluate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def trace(folder: Path, arrivals_s: Any) -> Path:
    rows = [
        {"timestamp": round(1000 * at), "input_length": 100, "output_length": 20, "hash_ids": []}
        for at in arrivals_s
    ]
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def steady(duration_s: float, rate_per_s: float = 4.0) -> Any:
    return np.arange(0, duration_s + 1e-9, 1 / rate_per_s)


def test_trace_gives_a_table_for_people_and_all_figures_as_json(
    evaluate: Any, tmp_path: Path
) -> None:
    path, out = trace(tmp_path, steady(260)), tmp_path / "out.json"
    result = evaluate(path, *SHORT, "--policies", "fixed_h,slack", "--json", out)
    assert result.code == 0
    assert re.search(r"fixed_h +\d+\.\d", result.out)
    assert "segments of one trace" in " ".join(result.out.split())
    written = json.loads(out.read_text())
    assert written["schema_version"] == 1
    assert written["configuration"]["policies"] == ["fixed_h", "slack"]
    assert written["configuration"]["window_s"] == 8.0
    assert written["configuration"]["controller"]["min_gap_steps"] == 36
    assert {"slackwater", "python", "numpy"} <= set(written["versions"])
    (load,) = written["loads"]
    assert load["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load["requests"] == 1041
    assert [(r["segment"], r["policy"]) for r in written["runs"]] == [
        (segment, policy) for segment in (0, 1) for policy in ("fixed_h", "slack")
    ]
    wanted = {"trace", "segment", "policy", "budget", "cost", "random_mean", "random_p05"}
    wanted |= {"oracle_exact", "oracle_greedy", "gain", "capture", "percentile"}
    assert wanted <= set(written["runs"][0])
    assert [v["policy"] for v in written["verdicts"]] == ["fixed_h", "slack"]
    wanted = {"policy", "verdict", "n", "gain_pp", "interval", "p_value", "capture"}
    assert wanted <= set(written["verdicts"][0])
    assert written["verdicts"][0]["verdict"] == "no claim"
    assert written["verdicts"][0]["interval"] is None


def test_regime_gives_independent_runs_with_seeds_that_are_recorded(
    evaluate: Any, tmp_path: Path
) -> None:
    figures = []
    for seed in (0, 0, 1):
        out = tmp_path / "out.json"
        asked = ("--regime", "bursty", "--runs", 2, "--policies", "fixed_h", "--seed", seed)
        assert evaluate(*asked, *SHORT, "--json", out).code == 0
        written = json.loads(out.read_text())
        assert len({load["seed"] for load in written["loads"]}) == 2
        figures.append(written["runs"])
    assert figures[0] == figures[1]
    assert figures[0] != figures[2]
    assert [run["segment"] for run in figures[0]] == [0, 0]


def test_bound_on_harm_runs_beside_each_policy_and_its_price_is_said(
    evaluate: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    asked = ("--regime", "uneven", "--runs", 2, "--policies", "slack", "--max-burden", 1.1)
    result = evaluate(*asked, *SHORT, "--claim", "slack+burden1.1", "--json", out)
    assert result.code == 0
    assert result.out.startswith("uneven: slack+burden1.1: no claim")
    assert re.search(r"bound 1.1 on slack: gain .* pp, so it costs", " ".join(result.out.split()))
    written = json.loads(out.read_text())
    assert [run["policy"] for run in written["runs"]] == 2 * ["slack", "slack+burden1.1"]
    (price,) = written["bounds"]
    said = " ".join(result.out.split())
    assert (
        f"harm {price['harmed_pp']:.1f} to {price['bounded_harmed_pp']:.1f} % of requests, merges "
        f"{price['budget']:.1f} to {price['bounded_budget']:.1f};" in said
    )
    assert price["exceeded"] == ("above the bound, which forced windows may break" in said)
    assert (price["load"], price["policy"], price["max_burden"]) == ("uneven", "slack", 1.1)
    assert price["worst"]["name"] in {"steady", "bursty"}
    assert written["configuration"]["max_burden"] == 1.1


def test_claim_is_said_first_and_in_one_sentence(evaluate: Any) -> None:
    result = evaluate("--regime", "aperiodic", "--runs", 2, *SHORT, "--claim", "slack")
    first = result.out.splitlines()[0]
    assert first.startswith("aperiodic: slack: no claim: 2 runs cannot reach p = 0.05")


def test_every_regime_named_is_judged_by_itself(evaluate: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    asked = ("--regime", "constant", "--regime", "bursty", "--runs", 1, "--policies", "fixed_h")
    evaluate(*asked, *SHORT, "--json", out)
    written = json.loads(out.read_text())
    assert [v["load"] for v in written["verdicts"]] == ["constant", "bursty"]
    assert [v["n"] for v in written["verdicts"]] == [1, 1]


def test_duplicate_times_count_each(evaluate: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    path = trace(tmp_path, np.repeat(steady(130, 2.0), 2))
    evaluate(path, *SHORT, "--policies", "fixed_h", "--serving", "arrivals", "--json", out)
    (run,) = json.loads(out.read_text())["runs"]
    assert run["requests"] == 480
    assert run["cost"] == run["budget"] * 32


def test_unsorted_trace_is_sorted_and_said_to_be(evaluate: Any, tmp_path: Path) -> None:
    times = steady(130)
    times[[5, 6]] = times[[6, 5]]
    result = evaluate(trace(tmp_path, times), *SHORT, "--policies", "fixed_h")
    assert result.code == 0
    assert "1 rows stood before an earlier one" in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give trace files or --regime NAME"),
        (("t.csv", "--regime", "constant"), "give trace files or --regime NAME"),
        (("--regime", "calm"), "regime 'calm' is not known"),
        (("--regime", "constant", "--regime", "constant"), "constant is given twice"),
        (("--regime", "constant", "--policies", "best"), "there is no policy 'best'"),
        (("--regime", "constant", "--policies", "slack,slack"), "names a policy twice"),
        (
            ("--regime", "constant", "--policies", "slack", "--claim", "fixed_h"),
            "--claim fixed_h is not among the policies to run: slack",
        ),
        (("--regime", "constant", "--serving", "magic"), "--serving magic is not known"),
        (("--regime", "constant", "--runs", 0), "--runs is 0"),
        (("--regime", "constant", "--seed", -1), "--seed is -1"),
        (("--regime", "constant", "--draws", 0), "draws is 0"),
        (("--regime", "constant", "--max-burden", 1), "--max-burden is 1; it must be above 1"),
        (("t.csv", "--runs", 3), "--runs is for regimes"),
        (("--regime", "constant", "--json", "/no/such/folder/x.json"), "a folder that exists"),
        (
            ("--regime", "constant", "--min-gap", 72, "--segment", 150),
            "asks for 2 merges or more, the least allows 1 at the most",
        ),
        (("--regime", "constant", "--min-gap", 90), "largest gap of 72 s is below the least gap"),
        (("--regime", "constant", "--draws", 99), "--draws is 99; an envelope needs 100 or more"),
        (("--regime", "constant", "--draws", 10**12), "GB of memory or more"),
        (("--regime", "constant", "--policies", ","), "has an empty name; give NAME"),
        (("--regime", "constant", "--slo", "inf"), "slo_s is inf; it must be above 0 s"),
        (("--regime", "constant", "--window", "inf"), "window_s is inf; it must be above 0 s"),
        (("--regime", "constant", "--window", 1e300), "a window of 1e+300 s: it must be at most"),
        (("--regime", "constant", "--min-gap", "nan"), "least gap of nan s: it must be above 0 s"),
        (("--regime", "constant", "--max-gap", "inf"), "largest gap of inf s: it must be at most"),
        (("--regime", "constant", "--segment", 0), "a run of 0 s: it must be above 0 s"),
        (("--regime", "constant", "--segment", -5), "a run of -5 s: it must be above 0 s"),
        (("--regime", "constant", "--segment", "nan"), "a run of nan s: it must be above 0 s"),
        (("--regime", "constant", "--db", "/dev/full"), "the run log has to be a file"),
        (("missing.csv",), "missing.csv"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(
    evaluate: Any, arguments: tuple[object, ...], said: str
) -> None:
    result = evaluate(*arguments)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert said in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("arrivals_s", "said"),
    [
        ([], "an empty file"),
        ([5.0], "shorter than a corridor"),
        (steady(20), "shorter than a corridor: the first merge may start at 18 s"),
        (steady(100), "take a longer trace, or --segment 100 --min-gap 16 --max-gap 33"),
        (steady(27), "shorter than one run of 120 s and too short for gaps of 18 to 72 s"),
    ],
)
def test_traces_too_short_for_a_run_are_refused(
    evaluate: Any, tmp_path: Path, arrivals_s: Any, said: str
) -> None:
    result = evaluate(trace(tmp_path, arrivals_s), *SHORT)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert said in result.err


def test_corridor_that_is_said_to_fit_a_short_trace_does(evaluate: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    asked = ("--segment", 100, "--min-gap", 16, "--max-gap", 33, "--draws", 100, "--json", out)
    assert evaluate(trace(tmp_path, steady(100)), *asked, "--policies", "fixed_h").code == 0
    assert json.loads(out.read_text())["configuration"]["smallest_budget"] >= 2


def test_long_enough_trace_is_told_the_segment_alone(evaluate: Any, tmp_path: Path) -> None:
    said = evaluate(trace(tmp_path, steady(200))).err
    assert "shorter than one run of 600 s; take --segment 200 or less" in said


def test_trace_of_a_header_alone_is_refused(evaluate: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    result = evaluate(path)
    assert (result.code, "no request in it" in result.err) == (2, True)


@pytest.mark.skipif(not (TRACES / "azure_code_2023.csv").exists(), reason="no public traces here")
def test_slack_captures_over_half_of_the_oracles_gain_on_the_code_trace(
    evaluate: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    path = TRACES / "azure_code_2023.csv"
    evaluate(path, "--policies", "slack", "--draws", 1000, "--json", out)
    written = json.loads(out.read_text())
    (verdict,) = written["verdicts"]
    assert verdict["n"] == 5
    assert verdict["capture"] > 0.5
    assert verdict["verdict"] == "no claim"  # Five runs cannot reach 5% two-sided.


def test_hostile_names_and_bad_rows_are_told_and_one_full_device_stops_no_other_output(
    evaluate: Any, tmp_path: Path
) -> None:
    path = trace(tmp_path, steady(260))
    path.write_text(path.read_text() + '{"timestamp": "soon", "input_length": 1}\n')
    hostile = path.rename(tmp_path / "\x1b[31m\n[bold]\udcff.jsonl")
    report, log = tmp_path / "r.html", tmp_path / "r.duckdb"
    asked = (hostile, *SHORT, "--policies", "slack", "--json", "/dev/full", "--report", report)
    refused = evaluate(*asked)
    assert (refused.code, report.exists()) == (2, False)
    assert "\x1b" not in refused.err
    assert "use --skip-bad" in refused.err
    result = evaluate(*asked, "--skip-bad", "--db", log)
    assert result.code == 1
    assert "cannot write --json /dev/full: No space left" in result.err
    assert log.exists()
    page = report.read_text()
    for told in (result.out, result.err, page):
        assert "\x1b" not in told
    assert "\\x1b[31m\\n[bold]\\xff.jsonl" in page
    assert "1 of 1042 rows left out" in " ".join(result.out.split())
