"""The Dockerfile's build stage has all it copies, and what it copies is enough to build from."""

import fnmatch
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from compose_file import ROOT, ours

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
IGNORED = [
    line
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
]


def stages():
    """Stage name -> its instructions, continuation lines joined."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE))
    found = {}
    for block in re.split(r"(?m)^(?=FROM )", joined):
        if block.strip():
            head, *rest = block.strip().splitlines()
            found[head.split()[3]] = [line for line in rest if line]
    return found


def copied(stage):
    """What a stage copies from the checkout: (source, destination) below its work directory."""
    pairs = []
    for line in stages()[stage]:
        if line.startswith("COPY") and "--from" not in line:
            *sources, there = line.split()[1:]
            pairs += [(source, there) for source in sources]
    return pairs


def reaches_the_builder(path):
    """Whether .dockerignore, an allow list with exceptions, lets a top-level path through."""
    allowed = [line[1:] for line in IGNORED if line.startswith("!")]
    return any(fnmatch.fnmatch(path, pattern) for pattern in allowed)


@pytest.mark.parametrize("source", [s for stage in stages() for s, _ in copied(stage)])
def test_what_is_copied_is_there_and_not_ignored(source):
    assert (ROOT / source).exists()
    assert reaches_the_builder(source.rstrip("/"))


def test_ignore_file_lets_through_what_is_copied_and_no_more():
    assert IGNORED[0] == "*"
    allowed = {line[1:] for line in IGNORED if line.startswith("!")}
    assert allowed == {source.rstrip("/") for stage in stages() for source, _ in copied(stage)}


def test_build_stage_makes_both_wheels_from_what_it_copies(tmp_path):
    for source, there in copied("wheels"):
        target = tmp_path / there
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)
    (build,) = [line for line in stages()["wheels"] if "pip wheel" in line]
    words = shlex.split(build.removeprefix("RUN "))
    words[words.index("/wheels")] = str(tmp_path / "wheels")
    subprocess.run([sys.executable, "-m", *words], check=True, cwd=tmp_path)
    made = sorted(path.name.partition("-")[0] for path in (tmp_path / "wheels").iterdir())
    assert made == ["slackwater", "slackwater_server"]


def test_images_that_run_are_not_root_and_hold_no_build_tools():
    base = stages()["base"]
    assert [line for line in base if line.startswith("USER ")] == ["USER 10001"]
    for target in ("server", "learner"):
        assert f"FROM base AS {target}" in DOCKERFILE
        (line,) = stages()[target]
        assert line.startswith("COPY --from=")


def test_every_install_is_held_to_the_lock():
    installs = [line for lines in stages().values() for line in lines if "pip install" in line]
    assert len(installs) == 3
    assert all("requirements.lock" in i or "requirements-dev.lock" in i for i in installs)


def test_plain_build_makes_the_server_image():
    assert list(stages())[-1] == "server"


def test_compose_builds_targets_that_are_there():
    for service in ours().values():
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        assert service["build"]["target"] in stages()
