"""Objects with vLLM's field names, and what a real release reported, from `data/recorded.json`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slackwater.clock import RunClock
from slackwater.vllm.reading import Source

WALL_S = 1_790_000_000.0
RECORDED = Path(__file__).with_name("data") / "recorded.json"
SOURCE = Source("run-1", "vllm-0", RunClock.real())


class Reason:
    """As vLLM's enumeration: a member has a name, and says something else as text."""

    def __init__(self, name: str) -> None:
        self.name = name


def finished(**given: Any) -> SimpleNamespace:
    fields = {
        "finish_reason": Reason("LENGTH"),
        "request_id": "cmpl-x-0",
        "e2e_latency": 0.5,
        "num_prompt_tokens": 64,
        "num_generation_tokens": 16,
        "queued_time": 0.1,
        "prefill_time": 0.05,
        "inference_time": 0.38,
        "decode_time": 0.33,
    }
    return SimpleNamespace(**{**fields, **given})


def iteration(*requests: Any, wall_s: float = WALL_S) -> SimpleNamespace:
    return SimpleNamespace(iteration_timestamp=wall_s, finished_requests=list(requests))


def scheduler(running: Any = 0, waiting: Any = 0, kv: Any = 0.0) -> SimpleNamespace:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=kv)


def recorded() -> list[tuple[Any, Any]]:
    """(scheduler statistics, iteration statistics) of each call of `record`, in order."""

    def revive(fields: dict[str, Any] | None) -> Any:
        return None if fields is None else SimpleNamespace(**fields)

    calls = []
    for call in json.loads(RECORDED.read_text())["calls"]:
        stats = revive(call["iteration_stats"])
        if stats is not None:
            stats.finished_requests = [
                SimpleNamespace(**{**one, "finish_reason": Reason(one["finish_reason"])})
                for one in stats.finished_requests
            ]
        calls.append((revive(call["scheduler_stats"]), stats))
    return calls
