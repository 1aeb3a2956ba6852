"""Files that a command writes: nothing but an older one of the same kind is ever replaced."""

import os
from pathlib import Path

import pytest

from slackwater.cli import main
from slackwater.cli.outputs import (
    DOCUMENT,
    REPORT,
    RUN_LOG,
    TUNED,
    Failures,
    Output,
    check_outputs,
    write_output,
)
from slackwater.errors import InputError, SlackwaterError

OLD_DOCUMENT = b'{\n  "schema_version": 1,\n  "configuration": {}\n}\n'
OLD_TUNED = b'{\n  "kind": "slackwater tuned settings",\n  "schema_version": 1\n}\n'
OLD_REPORT = b"\n<!doctype html>\n<html>\n<title>Slackwater report: slack on traces</title>\n"


@pytest.mark.parametrize(
    ("held", "kind"),
    [(OLD_DOCUMENT, DOCUMENT), (OLD_TUNED, TUNED), (OLD_REPORT, REPORT), (b"", DOCUMENT)],
)
def test_an_older_output_of_the_same_kind_is_replaced(
    tmp_path: Path, held: bytes, kind: str
) -> None:
    path = tmp_path / "old"
    path.write_bytes(held)
    path.chmod(0o640)
    check_outputs([Output("--json", path, kind)])
    write_output("--json", path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", DOCUMENT),
        (b'{"timestamp": 0, "input_length": 1}\n', DOCUMENT),
        (b'{"schema_version": 1, "name": "a profile"}\n', DOCUMENT),
        (b"\0\0DUCK", DOCUMENT),
        (OLD_TUNED, DOCUMENT),
        (OLD_DOCUMENT, REPORT),
        (b"<!doctype html><title>my notes</title>", REPORT),
        (OLD_DOCUMENT, TUNED),
    ],
)
def test_any_other_file_is_refused_before_work(tmp_path: Path, held: bytes, kind: str) -> None:
    path = tmp_path / "mine"
    path.write_bytes(held)
    with pytest.raises(InputError, match=f"is there and is not {kind}"):
        check_outputs([Output("--json", path, kind)])
    assert path.read_bytes() == held


def test_outputs_are_distinct_and_never_an_input(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("")
    (tmp_path / "link").symlink_to(trace)
    os.link(trace, tmp_path / "hard")
    for name in ("trace.csv", "link", "hard"):
        with pytest.raises(InputError, match="is read by this command"):
            check_outputs([Output("--json", tmp_path / name, DOCUMENT)], [None, trace])
    new = tmp_path / "new"
    log = Output("--db", new, RUN_LOG)
    for other in (new, tmp_path / "new.wal", tmp_path / "." / "new"):
        with pytest.raises(InputError, match="is what --db writes"):
            check_outputs([log, Output("--json", other, DOCUMENT)])
    check_outputs([log, Output("--json", tmp_path / "x", DOCUMENT), Output("-o", None, REPORT)])


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_bytes(OLD_DOCUMENT)
    link.symlink_to(path)
    write_output("--json", link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old"
    path.write_bytes(OLD_DOCUMENT)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SlackwaterError, match=r"cannot write --json .*No space left"):
        write_output("--json", path, b"new")
    assert path.read_bytes() == OLD_DOCUMENT
    assert list(tmp_path.iterdir()) == [path]


def test_one_failure_is_kept_until_all_is_written() -> None:
    failed = Failures()
    failed.end()
    with failed.later():
        write_output("--json", Path("/dev/full"), b"x")
    with failed.later():
        raise SlackwaterError("second")
    with pytest.raises(SlackwaterError, match=r"cannot write --json /dev/full: .*; second") as told:
        failed.end()
    assert told.value.exit_code == 1


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RuntimeError("Query interrupted"), 130, "slackwater: interrupted\n"),
        (MemoryError("Unable to allocate 7 TiB"), 1, "not enough memory for this (Unable to"),
    ],
)
def test_interrupts_within_duckdb_and_a_full_memory_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: Exception,
    code: int,
    said: str,
) -> None:
    def fails(**_: object) -> None:
        raise raised

    monkeypatch.setattr("slackwater.cli.app.app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert said in capsys.readouterr().err
