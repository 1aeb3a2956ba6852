"""What a vLLM server's environment says: which run it belongs to, and its name as a sidecar."""

import os
import socket
from collections.abc import Mapping
from typing import Any

from slackwater.clock import CLOCK_ENV, RunClock
from slackwater.errors import InputError
from slackwater.settings import SIDECAR_ENV, RunSettings, check_name
from slackwater.vllm.reading import Source

LONGEST_NAME = 150


def source_of(
    vllm_config: Any, engine_index: int, settings: RunSettings, env: Mapping[str, str] = os.environ
) -> Source:
    """Whose events one engine's are, seen from this API server.

    Raises `InputError` when the clock or the name cannot be used.
    """
    text = env.get(CLOCK_ENV)
    clock = RunClock.decode(text) if text else RunClock.real()
    if clock.speed != 1:
        msg = (
            f"{CLOCK_ENV} has speed {clock.speed:g}; a real server lives in wall time: "
            "give the run speed 1, or unset it"
        )
        raise InputError(msg)
    servers = _parallel(vllm_config, "_api_process_count")
    name = _name(vllm_config, engine_index, env)
    return Source(settings.run_id, name, clock, shared=servers > 1)


def _name(vllm_config: Any, engine_index: int, env: Mapping[str, str]) -> str:
    """`SLACKWATER_SIDECAR`, else host and process id; with the engine and API server if several."""
    name = env.get(SIDECAR_ENV) or f"{socket.gethostname()}-{os.getpid()}"
    if len(name) > LONGEST_NAME:
        msg = f"{SIDECAR_ENV} has {len(name)} characters; at most {LONGEST_NAME} are allowed"
        raise InputError(msg)
    if engine_index > 0 or _parallel(vllm_config, "data_parallel_size") > 1:
        name += f"-engine{engine_index}"
    if _parallel(vllm_config, "_api_process_count") > 1:
        name += f"-api{getattr(vllm_config.parallel_config, '_api_process_rank', os.getpid())}"
    return check_name(name, SIDECAR_ENV)


def _parallel(vllm_config: Any, name: str) -> int:
    found = getattr(getattr(vllm_config, "parallel_config", None), name, 1)
    return found if isinstance(found, int) else 1
