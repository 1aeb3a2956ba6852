"""Every direct dependency is explained in the docs and pinned in a lock, and nothing else is."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def canonical(requirement):
    name = re.match(r"[A-Za-z0-9._-]+", requirement).group()
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(folder):
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    return {canonical(r) for r in sum(extras, project["dependencies"])}


def tools():
    lines = (ROOT / "requirements-dev.in").read_text().splitlines()
    return {canonical(line) for line in lines if line and not line.startswith("#")}


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith(("#", "-c "))]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in pinned)
    return {canonical(line): line.partition("==")[2] for line in pinned}


OWN = {"slackwater"}
RUNTIME = declared(".") | declared("server")


def test_docs_give_one_reason_for_each_direct_dependency_and_no_other():
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()
    explained = [re.match(r"- `([^`]+)`: \S", line) for line in lines if line.startswith("- ")]
    assert all(explained)
    names = [canonical(match.group(1)) for match in explained]
    assert sorted(names) == sorted(RUNTIME | tools())


@pytest.mark.parametrize("name", sorted(RUNTIME - OWN))
def test_runtime_lock_pins_each_dependency(name):
    assert name in pins("requirements.lock")


@pytest.mark.parametrize("name", sorted(tools()))
def test_dev_lock_pins_each_tool(name):
    assert name in pins("requirements-dev.lock")


def test_no_package_is_pinned_twice():
    assert not pins("requirements.lock").keys() & pins("requirements-dev.lock").keys()


def test_torch_is_pinned_without_a_local_label():
    assert pins("requirements.lock")["torch"] == "2.13.0"
    server = tomllib.loads((ROOT / "server" / "pyproject.toml").read_text())["project"]
    assert "torch==2.13.0" in server["optional-dependencies"]["trainer"]
