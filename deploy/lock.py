"""Resolve the requirements files into the lock files, with pip alone.

`make lock` keeps every pin that still fits, so running it twice changes nothing;
`make lock UPGRADE=1` lets pip take the newest versions. Needs the network and `pip` 23 or newer.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = {"slackwater", "slackwater-server"}
RUNTIME_HEAD = """\
# Exact versions of all that Slackwater needs to run, torch included. Made by `make lock`.
# torch is pinned as 2.13.0 without a local label such as +cpu: that names the CPU build where the
# package index offers it and the default build elsewhere, so one lock serves both.
"""
DEV_HEAD = """\
# Exact versions of the tools that check, build and benchmark. Made by `make lock`.
-c requirements.lock
"""
ADAPTERS_HEAD = """\
# Exact versions of what the adapters' tests need besides. Made by `make lock`.
-c requirements.lock
-c requirements-dev.lock
"""
VLLM_HEAD = """\
# Exact versions of a real vLLM on CPU and all that it needs but torchvision, torchaudio and
# torchcodec, which fail beside this torch. Made by `make lock`.
"""
NOT_BESIDE_TORCH = {"torchaudio", "torchcodec", "torchvision"}


def resolve(sources: list[Path], constraints: list[Path]) -> dict[str, str]:
    """Ask pip which versions it would install into an empty environment, by canonical name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        command += ["--quiet", "--report", str(report)]
        command += [part for path in sources for part in ("-r", str(path))]
        command += [part for path in constraints for part in ("-c", str(path))]
        subprocess.run(command, check=True, cwd=ROOT)
        found = json.loads(report.read_text())["install"]
    return {name: version for name, version in map(_pin, found) if name not in OWN}


def _pin(item: dict[str, dict[str, str]]) -> tuple[str, str]:
    metadata = item["metadata"]
    name = metadata["name"].lower().replace("_", "-").replace(".", "-")
    return name, metadata["version"].partition("+")[0]


def write(path: Path, head: str, pins: dict[str, str]) -> None:
    """Replace a lock file in one step, so that an interrupted run leaves the old one whole."""
    lines = [f"{name}=={pins[name]}" for name in sorted(pins)]
    fresh = path.with_suffix(".new")
    fresh.write_text(head + "\n".join(lines) + "\n")
    fresh.replace(path)


def main() -> None:
    """Write requirements.lock and those of the tools, the adapters and the real vLLM."""
    runtime, dev = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
    adapters = ROOT / "requirements-adapters.lock"
    upgrade = bool(os.environ.get("UPGRADE"))
    keep = [] if upgrade else [p for p in (runtime, dev) if p.exists()]
    pins = resolve([ROOT / "requirements.in"], keep)
    write(runtime, RUNTIME_HEAD, pins)
    both = resolve([ROOT / "requirements.in", ROOT / "requirements-dev.in"], [runtime, *keep[1:]])
    write(dev, DEV_HEAD, {name: version for name, version in both.items() if name not in pins})
    kept = [] if upgrade or not adapters.exists() else [adapters]
    all_three = resolve([ROOT / "requirements-adapters.in"], [runtime, dev, *kept])
    write(adapters, ADAPTERS_HEAD, {n: v for n, v in all_three.items() if n not in both})
    vllm = ROOT / "requirements-vllm.lock"
    alone = resolve([ROOT / "requirements-vllm.in"], [] if upgrade else [vllm])
    write(vllm, VLLM_HEAD, {n: v for n, v in alone.items() if n not in NOT_BESIDE_TORCH})


if __name__ == "__main__":
    main()
