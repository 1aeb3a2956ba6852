"""What a calibration was made on: hardware and versions, as far as they can be known."""

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from sidecar.direct import answer_of
from slackwater import __version__

TIMEOUT_S = 5.0
GB = 1e9


class _Version(msgspec.Struct):
    version: str


def hardware() -> dict[str, Any]:
    """`cpu`, `cores` that this process may use, `memory_gb` and `gpus` by name."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / GB, 1),
        "gpus": _gpus(),
    }


def versions(vllm: str | None) -> dict[str, str]:
    """Of slackwater, Python and torch, and of the server's vLLM where that is known."""
    found = {"slackwater": __version__, "python": platform.python_version()}
    # The learners may be somebody else's, without torch here.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["torch"] = importlib.metadata.version("torch")
    return found | ({"vllm": vllm} if vllm else {})


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return []  # A driver that does not answer: no GPU that we could name.
    return [line.strip() for line in said.stdout.splitlines() if line.strip()]


def server_version(base_url: str) -> str | None:
    """What vLLM answers at `/version`; None of another server."""
    said = answer_of(f"{base_url}/version", TIMEOUT_S)
    try:
        return None if said is None else msgspec.json.decode(said, type=_Version).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
