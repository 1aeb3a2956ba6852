"""Two distributions: what a user's environment gets is one package and two light dependencies."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = {
    "calibration",
    "controller",
    "replay_producer",
    "sidecar",
    "sql",
    "streams",
    "trainer",
}
HEAVY = ["torch", "faust", "duckdb", "pyarrow", "numpy", "typer", *sorted(SERVER_PACKAGES)]


def build(folder, source):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", folder, source]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def user_wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("user"), ROOT)


@pytest.fixture(scope="module")
def server_wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("server"), ROOT / "server")


def contents(wheel):
    """Top-level name -> the files below it, without the wheel's own metadata."""
    found = {}
    for name in zipfile.ZipFile(wheel).namelist():
        top = name.partition("/")[0]
        if not top.endswith(".dist-info"):
            found.setdefault(top, set()).add(name)
    return found


def tracked(*folders):
    """Files of the checkout that git knows, which is what a release is made of."""
    command = ["git", "-C", ROOT, "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name}


def metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    return Parser().parsestr(archive.read(name).decode())


def test_user_wheel_brings_the_package_slackwater_and_no_other_name(user_wheel):
    found = contents(user_wheel)
    assert set(found) == {"slackwater"}
    assert found["slackwater"] >= tracked("slackwater")
    assert "slackwater/py.typed" in found["slackwater"]


def test_user_wheel_needs_two_light_dependencies(user_wheel):
    needed = metadata(user_wheel).get_all("Requires-Dist")
    plain = {n.partition(">")[0] for n in needed if "extra ==" not in n}
    assert plain == {"msgspec", "kafka-python"}


def test_server_wheel_holds_every_server_package_and_every_sql_file(server_wheel):
    found = contents(server_wheel)
    assert set(found) == SERVER_PACKAGES
    assert set.union(*found.values()) >= tracked(*SERVER_PACKAGES)
    assert any(name.endswith(".sql") for name in found["sql"])


def test_wheels_hold_no_compiled_leftovers(user_wheel, server_wheel):
    for wheel in (user_wheel, server_wheel):
        names = zipfile.ZipFile(wheel).namelist()
        assert not [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".duckdb"))]


def test_both_wheels_have_one_version_and_the_server_asks_for_it(user_wheel, server_wheel):
    version = metadata(user_wheel)["Version"]
    assert metadata(server_wheel)["Version"] == version
    wanted = [n for n in metadata(server_wheel).get_all("Requires-Dist") if "slackwater" in n]
    assert wanted == ["slackwater[cli]<0.2,>=0.1"]
    assert version.startswith("0.1.")


@pytest.fixture
def user_python(tmp_path, user_wheel):
    """A fresh environment with the user's wheel, its two dependencies and nothing else."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", user_wheel], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for name in ("msgspec", "kafka-python"):
        for part in {Path(f).parts[0] for f in distribution(name).files if ".." not in str(f)}:
            (site / part).symlink_to(Path(distribution(name).locate_file(part)))
    return python


def test_attach_client_imports_where_nothing_heavy_is_installed(user_python):
    program = f"""
import importlib.util, sys
assert [n for n in {HEAVY} if importlib.util.find_spec(n)] == []
import slackwater, slackwater.attach, slackwater.codec, slackwater.topics, slackwater.settings
assert slackwater.__file__.startswith(sys.prefix), slackwater.__file__
"""
    subprocess.run([user_python, "-I", "-c", program], check=True)


def test_command_line_without_its_extra_names_the_extra(user_python):
    command = [user_python.with_name("slackwater"), "doctor"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "slackwater: the command line needs typer; pip install 'slackwater[cli]'\n"
    )


def test_checkout_is_installed_editable_with_the_server_packages_beside_it(tmp_path):
    packages = sorted(SERVER_PACKAGES - {"sql"})
    program = f"import slackwater, {', '.join(packages)}; print(slackwater.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()).is_relative_to(ROOT)


def test_extra_cli_is_light():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"] == {
        "cli": ["typer>=0.15", "rich>=13"],
        "pressure": ["psutil>=6.0"],
    }
