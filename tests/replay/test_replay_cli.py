"""`slackwater replay` without a broker: descriptions, exports, and errors of one clear line."""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trace_samples as samples

from slackwater.cli import main
from slackwater.codec import Codec
from slackwater.topics import REQUESTS


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.delenv("SLACKWATER_CLOCK", raising=False)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["slackwater", "replay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def test_dry_run_describes_a_trace_as_one_json_object(replay: Any, tmp_path: Path) -> None:
    path = samples.write(tmp_path, samples.guidellm())
    result = replay(path, "--dry-run", "--json")
    described = json.loads(result.out)
    assert result.code == 0
    assert described["schema_version"] == 1
    assert (described["format"], described["requests"]) == ("guidellm", 4)
    assert described["duration_s"] == 0.01
    assert described["prompt_tokens"] == {"known": 4, "p50": 25.0, "p95": 38.5, "max": 40.0}
    assert described["e2e_s"]["p50"] == samples.E2E_S
    assert described["dispersion"] is None


def test_dry_run_without_json_is_a_table_for_a_person(replay: Any, tmp_path: Path) -> None:
    result = replay(samples.write(tmp_path, samples.mooncake()), "--dry-run")
    assert result.code == 0
    assert re.search(r"format\W+mooncake", result.out)
    assert re.search(r"prompt\W+median [\d,.]+, p95 [\d,.]+, largest [\d,.]+ tokens", result.out)
    assert "requests/s over the whole length" in result.out


def test_dry_run_leaves_out_what_a_trace_does_not_have(replay: Any, tmp_path: Path) -> None:
    bare = replay(samples.write(tmp_path, samples.mooncake()), "--dry-run").out
    for absent in ("starts", "recorded", "sidecars", "tenants", "skipped", "notes"):
        assert absent not in bare
    full = replay(samples.write(tmp_path, samples.guidellm()), "--dry-run", "--speed", 20).out
    assert re.search(r"starts\W+\d{4}-\d\d-\d\d [\d:.]+ UTC", full)
    assert "recorded latency" in full
    assert "on the wall at speed 20" in full


def test_dry_run_of_a_recording_counts_its_events(replay: Any, tmp_path: Path) -> None:
    replay("--regime", "constant", "--duration", 5, "--export", tmp_path / "e.jsonl")
    described = json.loads(replay(tmp_path / "e.jsonl", "--dry-run", "--json").out)
    assert described["format"] == "recording"
    assert described["types"]["load"] > 100
    assert described["types"]["request"] > 10


@pytest.mark.parametrize(
    "regime", ["ordinary", "high_pressure", "constant", "bursty", "aperiodic", "uneven"]
)
def test_the_same_regime_and_seed_export_the_same_bytes(
    regime: str, replay: Any, tmp_path: Path
) -> None:
    one, two, other = (tmp_path / name for name in ("1", "2", "3"))
    for path, seed in ((one, 7), (two, 7), (other, 8)):
        result = replay("--regime", regime, "--duration", 4, "--seed", seed, "--export", path)
        assert result.code == 0, result.err
    assert one.read_bytes() == two.read_bytes() != other.read_bytes()
    assert not Codec(REQUESTS).decode(one.read_bytes()).bad


def test_speed_stretches_the_duration_into_event_time(replay: Any) -> None:
    result = replay("--regime", "constant", "--duration", 6, "--speed", 20, "--dry-run", "--json")
    assert json.loads(result.out)["duration_s"] == 120


def test_a_trace_longer_than_asked_for_is_cut_and_a_shorter_one_says_so(
    replay: Any, tmp_path: Path
) -> None:
    path = samples.write(tmp_path, samples.mooncake())
    cut = json.loads(replay(path, "--duration", 0.005, "--dry-run", "--json").out)
    assert (cut["requests"], cut["notes"]) == (2, [])
    whole = json.loads(replay(path, "--duration", 90, "--dry-run", "--json").out)
    assert whole["requests"] == 4
    assert "shorter than the duration asked for" in whole["notes"][0]


def test_skipped_rows_are_reported(replay: Any, tmp_path: Path) -> None:
    path = samples.write(tmp_path, '{"input_length": 1}\n' + samples.mooncake())
    result = replay(path, "--dry-run")
    assert (result.code, "1 of 5 rows" in result.err) == (2, True)
    described = json.loads(replay(path, "--skip-bad", "--dry-run", "--json").out)
    assert (described["requests"], described["skipped"]) == (4, 1)


def test_a_clock_in_the_environment_sets_origin_and_speed(
    replay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_CLOCK", "1800000000000000,1800000000000000,20.0")
    monkeypatch.setenv("SLACKWATER_RUN_ID", "run-1")
    path = tmp_path / "e.jsonl"
    assert replay("--regime", "constant", "--duration", 1, "--export", path).code == 0
    first = Codec(REQUESTS).decode_line(path.read_bytes().split(b"\n")[0])
    assert (first.at_us, first.run_id) == (1_800_000_000_000_000, "run-1")
    agreed = replay("--regime", "constant", "--duration", 1, "--speed", 20, "--dry-run")
    assert agreed.code == 0
    clash = replay("--regime", "constant", "--speed", 2, "--dry-run")
    assert clash.code == 2
    assert "SLACKWATER_CLOCK says 20" in clash.err


TRACE = "TRACE"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--duration", "-5"], "--duration is -5 s"),
        (["--duration", "0"], "--duration is 0 s"),
        (["--duration", "nan"], "--duration is nan"),
        (["--speed", "0"], "--speed is 0"),
        (["--speed", "-1"], "--speed is -1"),
        (["--speed", "inf"], "--speed is inf"),
        (["--regime", "tidal"], "regime 'tidal' is not known"),
        (["--rate", "-1"], "rate is -1"),
        (["--slots", "0"], "--slots is 0"),
        (["--sidecars", "0"], "--sidecars is 0"),
        (["--latency", "guessed"], "must be one of model, recorded"),
        (["--latency", "recorded"], "no recorded latency"),
        (["--format", "azure"], "is for a file"),
        (["--seed", "x"], "--seed"),
        (["nowhere.csv"], "no such file"),
        ([TRACE, "--format", "parquet"], "format 'parquet' is not known"),
        ([TRACE, "--format", "azure"], "no column TIMESTAMP"),
        ([TRACE, "--regime", "bursty"], "leave out one of the two"),
        ([TRACE, "--rate", "5"], "leave out one of the two"),
        ([TRACE, "--dry-run", "--export", "x"], "give one of the two"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, replay: Any, tmp_path: Path
) -> None:
    path = samples.write(tmp_path, samples.mooncake())
    given = [str(path) if item is TRACE else item for item in arguments]
    result = replay(*given, *([] if "--export" in given else ["--dry-run"]))
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_no_broker_named_is_exit_code_2(replay: Any) -> None:
    result = replay("--regime", "constant")
    assert (result.code, "KAFKA_BOOTSTRAP_SERVERS" in result.err) == (2, True)


def test_an_export_never_replaces_the_trace_it_reads(replay: Any, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,10,5\n")
    before = trace.read_bytes()
    result = replay(trace, "--export", tmp_path / "." / "t.csv")
    assert (result.code, "is the trace itself" in result.err) == (2, True)
    assert trace.read_bytes() == before


def test_an_export_that_cannot_be_written_leaves_nothing_behind(
    replay: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    targets = {folder: (2, "not a regular file"), tmp_path / "none" / "e": (1, "cannot write")}
    for target, (code, said) in targets.items():
        result = replay("--regime", "constant", "--duration", 1, "--export", target)
        assert (result.code, said in result.err) == (code, True)
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_no_half_written_file(
    replay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if mode != "xb":
            return opened(self, mode, *rest, **options)
        opened(self, mode).close()
        return opened(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", full)
    result = replay("--regime", "constant", "--duration", 1, "--export", tmp_path / "e.jsonl")
    assert (result.code, "No space left" in result.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_option_with_its_unit(replay: Any) -> None:
    text = replay("--help").out
    for default in ("ordinary without a TRACE", "by regime", "the whole trace", "by content"):
        assert default in " ".join(text.replace("│", " ").split())
    for option in ("--regime", "--rate", "--duration", "--speed", "--sidecars", "--slots",
                   "--seed", "--format", "--skip-bad", "--latency", "--kafka", "--dry-run",
                   "--export", "--ready-file", "--json"):  # fmt: skip
        assert option in text
