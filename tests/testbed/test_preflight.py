import os
import sys
import tempfile
from pathlib import Path

import pytest

from slackwater.cli import main
from slackwater.errors import InputError, RunLogError
from slackwater.testbed import preflight
from slackwater.testbed.plan import Plan


def test_a_run_log_needs_a_directory_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no directory"):
        preflight.check_run_log(tmp_path / "nowhere" / "r.duckdb")


def test_a_run_log_needs_a_name() -> None:
    with pytest.raises(InputError, match="names no file"):
        preflight.check_run_log(Path())


@pytest.mark.parametrize("left", ["r.duckdb", "r.duckdb.wal"])
def test_a_run_never_writes_into_the_log_of_another(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()

    with pytest.raises(InputError, match="there already"):
        preflight.check_run_log(tmp_path / "r.duckdb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(InputError, match="not writable"):
        preflight.check_run_log(tmp_path / "r.duckdb")


def test_a_disk_too_full_to_begin_is_told_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(RunLogError, match=r"only \d+ MB are free .* needs 1000000000 MB"):
        preflight.check_space(tmp_path, 10**15)


def test_a_missing_library_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "NEEDED_MODULES", {"no_such_module": "slackwater-server"})

    with pytest.raises(InputError, match="pip install 'slackwater-server'"):
        preflight.check_modules(embedded=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy": "clever"}, "no policy 'clever'; choose one of fixed_h"),
        ({"shadow": "slack,clever"}, "no policy 'clever'; choose one of fixed_h"),
        ({"set": "controller.nothing=1"}, "nothing"),
        ({"set": "db=other.duckdb"}, "the testbed sets db by --db"),
        ({"set": "controller.max_gap_steps=9"}, "the testbed sets max_gap_steps by"),
        ({"regime": "calm"}, "regime 'calm' is not known; it must be one of ordinary"),
        ({"trace": Path("nope.csv")}, "nope.csv: no such file"),
        ({"trace": Path("nope.csv"), "regime": "bursty"}, "leave out one of the two"),
        ({"kafka": "127.0.0.1:1"}, "no Kafka broker answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    words: str,
) -> None:
    options = [f"--{name}={value}" for name, value in changes.items() if name != "trace"]
    trace = [str(value) for name, value in changes.items() if name == "trace"]
    command = ["slackwater", "testbed", "--db", str(tmp_path / "r.duckdb"), *options, *trace]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(SystemExit) as ended:
        main()

    out, err = capsys.readouterr()
    assert ended.value.code == (1 if "kafka" in changes else 2)
    assert out == ""
    assert len(err.splitlines()) == 1
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_enough_to_prepare_the_replay(tmp_path: Path) -> None:
    plan = Plan(run_id="r", db=tmp_path / "r.duckdb", regime="constant", duration_s=5, speed=2)

    prepared = preflight.prepare_replay(plan)

    assert prepared.subject.duration_us == 10_000_000
