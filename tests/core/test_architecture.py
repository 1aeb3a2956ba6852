"""Dependencies point one way: what a part may import is checked on its source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "duckdb", "faust", "pyarrow"}
OURS = {
    "slackwater",
    "controller",
    "calibration",
    "streams",
    "replay_producer",
    "sidecar",
    "trainer",
}
PURE = HEAVY | {"kafka", "aiokafka"} | (OURS - {"controller", "calibration", "slackwater"})


def sources(package, without=()):
    folder = ROOT / package
    kept = [p for p in folder.rglob("*.py") if p.relative_to(folder).parts[0] not in without]
    assert kept, f"no sources in {package}"
    return kept


def imported(path):
    """Top-level names of all that a file imports, wherever in it, and the whole dotted names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add(node.module)
    return names


def offenders(paths, forbidden):
    return sorted(
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in imported(path)
        if name.partition(".")[0] in forbidden
    )


@pytest.mark.parametrize("package", ["controller", "calibration"])
def test_pure_packages_know_nothing_of_kafka_faust_torch_or_duckdb(package):
    assert offenders(sources(package), PURE) == []


@pytest.mark.parametrize("package", ["controller"])
def test_controller_reads_no_clock_and_does_no_io(package):
    forbidden = {
        "time",
        "datetime",
        "socket",
        "subprocess",
        "asyncio",
        "threading",
        "pathlib",
        "os",
    }
    assert offenders(sources(package), forbidden) == []


def test_controller_does_not_know_the_calibration():
    assert offenders(sources("controller"), {"calibration"}) == []


@pytest.mark.parametrize("package", sorted(OURS - {"streams", "slackwater"}))
def test_nobody_imports_the_stream_job(package):
    assert offenders(sources(package), {"streams"}) == []


def test_in_slackwater_only_the_command_line_imports_the_server_parts():
    # A live query is what `slackwater sql` asks: the run log's side of the command line.
    paths = sources("slackwater", without={"cli", "testbed", "livequery.py"})
    assert offenders(paths, HEAVY | (OURS - {"slackwater"})) == []


@pytest.mark.parametrize("package", sorted(OURS - {"trainer"}))
def test_torch_is_needed_by_the_trainer_alone(package):
    # These two only ask whether it is there, to say so.
    asking = {"slackwater/cli/trainer.py", "slackwater/testbed/doctor.py"}
    paths = [p for p in sources(package) if str(p.relative_to(ROOT)) not in asking]
    assert offenders(paths, {"torch"}) == []


def test_command_line_modules_import_heavy_things_only_inside_functions():
    found = []
    for path in sources("slackwater/cli"):
        top = [
            n
            for n in ast.parse(path.read_text()).body
            if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        names = {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module for n in top if isinstance(n, ast.ImportFrom)}
        banned = HEAVY | (OURS - {"slackwater"}) | {"kafka", "numpy"}
        found += [f"{path.name}: {n}" for n in names if n.partition(".")[0] in banned]
    assert found == []
