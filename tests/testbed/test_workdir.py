import fcntl
from pathlib import Path

from slackwater.testbed.workdir import PREFIX, WorkDir


def test_nothing_stays_after_success(tmp_path: Path) -> None:
    with WorkDir(tmp_path) as work:
        (work.logs / "stream.log").write_text("fine")
        (work.scratch / "checkpoint").write_text("big")

    assert list(tmp_path.iterdir()) == []


def test_the_logs_alone_stay_after_a_failure(tmp_path: Path) -> None:
    with WorkDir(tmp_path) as work:
        (work.logs / "stream.log").write_text("oh no")
        (work.scratch / "checkpoint").write_text("big")
        work.keep_logs = True

    kept = {path.relative_to(work.path) for path in work.path.rglob("*")}
    assert kept == {Path("logs"), Path("logs/stream.log")}


def test_what_a_killed_supervisor_left_is_removed_by_the_next_run(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    (left / "scratch").mkdir(parents=True)
    (left / "lock").touch()

    with WorkDir(tmp_path):
        assert not left.exists()


def test_the_directory_of_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    with WorkDir(tmp_path) as first, WorkDir(tmp_path):
        assert first.scratch.is_dir()


def test_kept_logs_are_not_taken_for_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    with WorkDir(tmp_path) as failed:
        failed.keep_logs = True

    with WorkDir(tmp_path):
        assert failed.logs.is_dir()


def test_the_lock_is_held_while_the_run_lives(tmp_path: Path) -> None:
    with WorkDir(tmp_path) as work, (work.path / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    raise AssertionError("the lock was free")
