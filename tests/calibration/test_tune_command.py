"""`slackwater tune` and `evaluate --settings`: what was found, and no claim on what it has seen."""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.protocol import Protocol, corridor_of
from calibration.serving import Overlap
from calibration.tuning.tuned import decode_tuned
from calibration.verdict import Verdict
from slackwater.cli import main
from slackwater.cli.evaluate_ground import seeds_of
from slackwater.cli.evaluate_sources import from_regime
from slackwater.cli.evaluate_tuned import TunedFile, unclaimed
from slackwater.errors import InputError

pytestmark = pytest.mark.slow

SHORT = ("--segment", 120)
QUICK = (*SHORT, "--candidates", 2, "--rounds", 0)


@pytest.fixture
def slackwater(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["slackwater", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return (code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def trace(folder: Path, name: str, seed: int) -> Path:
    at_s = np.sort(np.random.default_rng(seed).uniform(0, 260, 1000))
    row = {"input_length": 100, "output_length": 20, "hash_ids": []}
    rows = [{"timestamp": round(1000 * at), **row} for at in [*at_s, 260.0]]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_file_says_what_was_found_and_on_which_traces_and_those_are_not_claimed(
    slackwater: Any, tmp_path: Path
) -> None:
    seen, other = trace(tmp_path, "seen.jsonl", 1), trace(tmp_path, "other.jsonl", 2)
    out, result = tmp_path / "tuned.json", tmp_path / "result.json"
    code, told, said = slackwater("tune", seen, *QUICK, "--folds", 2, "--output", out)
    assert code == 0
    first, *rounds = said.splitlines()
    passes = int(first.removesuffix(" passes").rpartition(" ")[2])
    assert rounds == [
        "slackwater: candidates done",
        *(f"slackwater: round {i} of {passes - 1} done" for i in range(1, passes)),
    ]
    assert "held out tuned" in told
    assert "runs are segments of one trace" in told
    tuned = json.loads(out.read_text())
    digest = hashlib.sha256(seen.read_bytes()).hexdigest()
    assert tuned["training"] == [
        {"name": "seen.jsonl", "runs": 2, "requests": 1001, "sha256": digest}
        | {"regime": None, "seed": None}
    ]
    assert set(tuned["settings"]) == {"stopping_tau_s", "half_life_s", "history_s"}
    assert (tuned["search"]["seed"], tuned["search"]["folds"]) == (0, 2)
    assert tuned["scores"]["held_out_tuned"]["runs"] == 2

    tuned["settings"] = {"stopping_tau_s": 2.5}
    out.write_text(json.dumps(tuned))
    asked = (*SHORT, "--draws", 100, "--policies", "slack,fixed_h", "--settings", out)
    for traces, step in (((other,), True), ((other, seen), False)):
        code, told, _ = slackwater("evaluate", *traces, *asked, "--json", result)
        assert code == 0
        assert ("slack was tuned on seen.jsonl, so nothing is claimed" in told) is not step
        written = json.loads(result.read_text())
        verdicts = {v["policy"]: v for v in written["verdicts"]}
        last = verdicts["slack"]["steps"][-1]
        assert (last["name"], last["passed"]) == ("unseen traffic", step)
        assert verdicts["fixed_h"]["steps"][-1]["name"] != "unseen traffic"
        if not step:
            assert verdicts["slack"]["verdict"] == "no claim"
            assert "tuned on seen.jsonl" in verdicts["slack"]["reason"]
        (record,) = written["configuration"]["settings"]
        assert record["settings"] == {"stopping_tau_s": 2.5}
        assert record["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    starts = {run["policy"]: run["starts_s"] for run in written["runs"]}
    slackwater("evaluate", other, seen, *asked[:-2], "--json", result)
    defaults = {run["policy"]: run["starts_s"] for run in json.loads(result.read_text())["runs"]}
    assert starts["fixed_h"] == defaults["fixed_h"]
    assert starts["slack"] != defaults["slack"]


def test_runs_tuned_on_are_not_those_that_evaluate_makes_of_the_same_seed(
    slackwater: Any, tmp_path: Path
) -> None:
    out = tmp_path / "tuned.json"
    asked = ("--regime", "bursty", "--runs", 1, "--candidates", 1, "--rounds", 0, *SHORT)
    code, told, _ = slackwater("tune", *asked, "--output", out)
    assert code == 0
    assert "not cross-validated" in told
    (training,) = json.loads(out.read_text())["training"]
    assert training["regime"] == "bursty"
    assert training["sha256"] is None
    assert training["seed"] not in seeds_of(0, 64)


GAIN = Verdict(
    policy="slack", verdict="placement gain", tier="serving model", n=6, gain_pp=3.0, gain=0.3,
    interval_pp=(2.0, 4.0), p_value=0.03, p_raw=0.03, capture=0.6, spared_requests=30.0,
    policies=1, steps=(), reason="costs less",
)  # fmt: skip


TRAINED = {"name": "a.csv", "runs": 1, "requests": 9}


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ([], "training names no traffic"),
        ([{**TRAINED, "sha256": None}], "neither a file's sha256 nor regime and seed are given"),
        ([{**TRAINED, "regime": "bursty"}], "neither a file's sha256 nor regime and seed"),
        ([{**TRAINED, "sha256": "abc"}], "it must be 64 hexadecimal digits"),
        ([{**TRAINED, "sha256": "g" * 64}], "it must be 64 hexadecimal digits"),
    ],
)
def test_file_that_does_not_say_what_it_was_tuned_on_is_refused(
    training: list[dict[str, object]], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        decode_tuned(json.dumps({**MINIMAL, "training": training}), "t.json")


def test_hashes_are_compared_whatever_their_case() -> None:
    trained = {**TRAINED, "sha256": "AB" * 32}
    (found,) = decode_tuned(json.dumps({**MINIMAL, "training": [trained]}), "t.json").training
    assert found.same_as("ab" * 32, None, None)
    assert not found.same_as("ac" * 32, None, None)
    assert not found.same_as(None, "bursty", 7)


@pytest.mark.parametrize(
    ("load", "seed", "verdict", "tier"),
    [
        ("bursty", 7, "no claim", "none"),
        ("bursty", 8, "placement gain", "serving model"),
        ("aperiodic", 7, "placement gain", "serving model"),
    ],
)
def test_gain_on_a_generated_run_that_was_trained_on_is_not_claimed(
    load: str, seed: int, verdict: str, tier: str
) -> None:
    trained = {"name": "bursty/7", "runs": 1, "requests": 9, "regime": "bursty", "seed": 7}
    tuned = decode_tuned(json.dumps({**MINIMAL, "training": [trained]}), "t.json")
    files = {"slack": TunedFile(Path("t.json"), "", tuned)}
    protocol = Protocol(corridor_of(120, 8, 18, 72, 0.5), 0.5, Overlap(), draws=1, seed=0)
    traffic = [from_regime(load, seed, protocol)]
    fixed = replace(GAIN, policy="fixed_h")
    found, other = unclaimed([GAIN, fixed], files, load, traffic)
    assert (found.verdict, found.tier) == (verdict, tier)
    assert found.steps[-1].passed == (verdict == "placement gain")
    assert other == fixed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "fixed_h"), "policy 'fixed_h' cannot be tuned"),
        (("--candidates", 0), "--candidates is 0; it must be 1 or more"),
        (("--folds", -1), "--folds is -1"),
        (("--output", "/no/such/folder/x.json"), "cannot write --output /no/such/folder/x.json"),
        (("--min-gap", 90), "largest gap of 72 s is below the least gap of 90 s"),
        (("--model", "slots=4"), "a figure of the overlap model"),
    ],
)
def test_mistakes_end_in_one_line(
    slackwater: Any, tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    out = () if "--output" in arguments else ("--output", tmp_path / "x.json")
    code, told, error = slackwater("tune", "--regime", "bursty", *out, *arguments)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert said in error


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("missing", "cannot read --settings"),
        ("{}", "no file of tuned settings"),
        ({"schema_version": 2}, "schema_version 2; this slackwater reads"),
        ({"colour": 1}, "unknown field `colour`"),
        ({"settings": {"window_s": 1.0}}, "window_s is none of slack's settings"),
        ({"settings": {"half_life_s": -1.0}}, "a setting cannot be used"),
        ({"policy": "wa_diloco", "settings": {}}, "is for wa_diloco, not among the policies"),
        ("twice", "are both for slack"),
    ],
)
def test_settings_that_cannot_be_used_say_why(
    slackwater: Any, tmp_path: Path, change: Any, said: str
) -> None:
    path = tmp_path / "tuned.json"
    if isinstance(change, dict):
        path.write_text(json.dumps({**MINIMAL, **change}))
    elif change != "missing":
        path.write_text(json.dumps(MINIMAL) if change == "twice" else change)
    given = ("--settings", path) * (2 if change == "twice" else 1)
    asked = ("--regime", "bursty", "--policies", "slack", *given)
    code, told, error = slackwater("evaluate", *asked)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert said in error


SUMMARY = {"runs": 1, "budget": 9, "cost_pp": 1, "gain": 0, "gain_pp": 0, "capture": None}
SUMMARY |= {"objective": 0, "pinned_runs": 0}
MINIMAL = {
    "kind": "slackwater tuned settings",
    "schema_version": 1,
    "policy": "slack",
    "settings": {"stopping_tau_s": 4.0},
    "conditions": {},
    "training": [{"name": "a.csv", "runs": 1, "requests": 9, "sha256": "0" * 64}],
    "search": {
        **{"seed": 0, "random_candidates": 1, "rounds": 0, "folds": 0, "candidates_scored": 2},
        **{"objective": "gain", "guard": "inner", "smallest_budget": 3, "largest_budget": 9},
        **{"parameters": [], "folds_found": []},
    },
    "scores": {"training_default": SUMMARY, "training_tuned": SUMMARY},
    "versions": {},
}
