"""The examples of docs/evaluate.md are what the readers take."""

import re
from pathlib import Path

from calibration.profile import decode_profile
from replay_producer.readers import read_trace

PAGE = Path(__file__).parents[2] / "docs" / "evaluate.md"


def example(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def test_profile_is_read_whole() -> None:
    profile = decode_profile(example("json"))
    assert (profile.name, profile.slo_s, profile.queue.slots) == ("lab", 0.5, 4)
    assert profile.closed_loop.schedule is not None
    assert profile.effect is not None
    assert profile.effect.p95_ratio_low == 1.4


def test_trace_is_read_with_its_sidecars_and_tenants(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(example("jsonl"))
    trace = read_trace(path)
    assert trace.skipped == 0
    assert trace.arrival_us.tolist() == [0, 500_000, 3_000_000]
    assert trace.e2e_s.tolist() == [0.9, 1.25, 0.4]
    assert list(trace.sidecar) == ["gpu-0", "gpu-1", "gpu-0"]
    assert list(trace.tenant) == ["shop", "search", "shop"]
