import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.app import app
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


def test_a_finding_that_keeps_a_run_from_working_ends_in_exit_code_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def only_the_broker(kafka: str | None) -> list[doctor.Check]:
        assert kafka is not None
        return [doctor.guarded("broker", lambda: doctor.check_given_broker(kafka))]

    monkeypatch.setattr(doctor, "diagnose", only_the_broker)

    run = CliRunner().invoke(app, ["doctor", "--kafka", "127.0.0.1:1"])

    assert run.exit_code == 1
    assert run.stdout.startswith("fail broker")
    assert "no Kafka broker answers at 127.0.0.1:1" in run.stdout
    assert "start it, or correct --kafka" in run.stdout


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

    for name in ("check_cores", "check_embedded_broker", "check_torch"):
        monkeypatch.setattr(doctor, name, stumbles)

    checks = {check.name: check for check in doctor.diagnose(None)}

    assert checks["cores"].found == "RuntimeError: lights out"
    assert checks["run log"].state == "ok"
