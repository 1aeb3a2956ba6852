import json
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.testbed import doctor


@pytest.mark.kafka
def test_a_machine_that_runs_these_tests_is_fit_for_a_run() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "slackwater", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
    )
    report = json.loads(run.stdout)

    assert (run.returncode, report["ok"], run.stderr) == (0, True, "")
    names = [check["name"] for check in report["checks"]]
    assert names == [
        "python", "packages", "cores", "memory", "disk", "clock", "port", "run log", "broker",
        "torch",
    ]  # fmt: skip
    assert "answers" in report["checks"][8]["found"]


def test_a_broker_that_is_not_there_is_a_finding_with_what_to_do() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "slackwater", "doctor", "--kafka", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("fail")]
    assert "no Kafka broker answers at 127.0.0.1:1" in line
    assert "start it, or correct --kafka" in line


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("msgspec", "no-such-thing"))

    check = doctor.check_packages()

    assert (check.state, check.found) == ("fail", "missing: no-such-thing")
    assert check.advice is not None
    assert "pip install no-such-thing" in check.advice


@pytest.mark.parametrize(
    ("free_bytes", "state"), [(10**8, "fail"), (10**9, "warn"), (10**10, "ok")]
)
def test_a_full_disk_is_told_before_it_hurts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_bytes: int, state: str
) -> None:
    class Usage:
        free = free_bytes

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage())

    assert doctor.check_disk(tmp_path).state == state


def test_a_check_that_stumbles_is_a_finding_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumbles() -> doctor.Check:
        raise RuntimeError("lights out")

    monkeypatch.setattr(doctor, "check_cores", stumbles)
    monkeypatch.setattr(doctor, "check_embedded_broker", stumbles)

    checks = {check.name: check for check in doctor.diagnose(None)}

    assert checks["cores"].found == "RuntimeError: lights out"
    assert checks["run log"].state == "ok"
