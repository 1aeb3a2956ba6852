"""The same four requests, 1, 2, 9 and 11 ms after an instant, written in every known format."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slackwater.codec import encode
from slackwater.events import Load, Request

EPOCH_US = 1_700_158_546_000_000
ARRIVALS_MS = (1, 2, 9, 11)
PROMPTS = (10, 20, 30, 40)
OUTPUTS = (5, 6, 7, 8)
E2E_S = 0.25
TTFT_S = 0.125


def _lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def azure(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for ms, prompt, output in zip(arrivals_ms, PROMPTS, OUTPUTS, strict=True):
        moment = datetime.fromtimestamp(EPOCH_US / 1e6, UTC) + timedelta(milliseconds=ms)
        rows.append(f"{moment:%Y-%m-%d %H:%M:%S.%f}0,{prompt},{output}")
    return "\r\n".join(rows)


def burstgpt(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    rows = [
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
        "Total tokens,Log Type"
    ]
    for ms, prompt, output in zip(arrivals_ms, PROMPTS, OUTPUTS, strict=True):
        rows.append(f"{ms / 1000},s-{ms},{E2E_S},GPT-4,{prompt},{output},{prompt + output},API log")
    return "\n".join(rows) + "\n"


def mooncake(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    return _lines(
        [
            {"timestamp": ms, "input_length": prompt, "output_length": output, "hash_ids": [1]}
            for ms, prompt, output in zip(arrivals_ms, PROMPTS, OUTPUTS, strict=True)
        ]
    )


def vllm_bench(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    return json.dumps(
        {
            "date": "20260101-120000",
            "completed": 4,
            "request_throughput": 400.0,
            "input_lens": PROMPTS,
            "output_lens": OUTPUTS,
            "ttfts": [TTFT_S] * 4,
            "itls": [[0.0625, 0.0625]] * 4,
            "start_times": [5000 + ms / 1000 for ms in arrivals_ms],
            "generated_texts": [""] * 4,
            "errors": [""] * 4,
        }
    )


def guidellm(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    requests = [
        {
            "request_id": f"q{ms}",
            "request_start_time": EPOCH_US / 1e6 + ms / 1000,
            "request_latency": E2E_S,
            "time_to_first_token_ms": TTFT_S * 1000,
            "prompt_tokens": prompt,
            "output_tokens": output,
        }
        for ms, prompt, output in zip(arrivals_ms, PROMPTS, OUTPUTS, strict=True)
    ]
    groups = {"successful": requests, "incomplete": [], "errored": []}
    return json.dumps({"metadata": {}, "benchmarks": [{"requests": groups}]}, indent=2)


def aiperf(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    return _lines(
        [
            {
                "metadata": {
                    "request_start_ns": EPOCH_US * 1000 + round(ms * 1_000_000),
                    "request_end_ns": EPOCH_US * 1000 + round((ms + E2E_S * 1000) * 1_000_000),
                },
                "metrics": {
                    "request_latency": {"value": E2E_S * 1000, "unit": "ms"},
                    "time_to_first_token": {"value": TTFT_S * 1000, "unit": "ms"},
                    "input_sequence_length": {"value": prompt, "unit": "tokens"},
                    "output_sequence_length": {"value": output, "unit": "tokens"},
                },
                "error": None,
            }
            for ms, prompt, output in zip(arrivals_ms, PROMPTS, OUTPUTS, strict=True)
        ]
    )


def requests(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> list[Request]:
    return [
        Request(
            run_id="recorded",
            at_us=EPOCH_US + round((ms + E2E_S * 1000) * 1000),
            sidecar=f"sidecar-{i % 2}",
            id=f"q{ms}",
            tenant="t",
            arrival_us=EPOCH_US + round(ms * 1000),
            status="ok",
            ttft_s=TTFT_S,
            e2e_s=E2E_S,
            prompt_tokens=PROMPTS[i],
            output_tokens=OUTPUTS[i],
        )
        for i, ms in enumerate(arrivals_ms)
    ]


def slackwater(arrivals_ms: Sequence[float] = ARRIVALS_MS) -> str:
    return "".join(encode(event).decode() + "\n" for event in requests(arrivals_ms))


def load(at_us: int, sidecar: str = "sidecar-0", **known: int) -> Load:
    return Load(
        run_id="recorded", at_us=at_us, sidecar=sidecar, **{"running": 0, "waiting": 0, **known}
    )


WRITERS: dict[str, Callable[..., str]] = {
    "azure": azure,
    "burstgpt": burstgpt,
    "mooncake": mooncake,
    "vllm-bench": vllm_bench,
    "guidellm": guidellm,
    "aiperf": aiperf,
    "slackwater": slackwater,
}


def write(folder: Path, text: str, name: str = "trace.dat") -> Path:
    path = folder / name
    path.write_text(text, newline="")
    return path
