"""The load clients and the tap against a real vLLM with a tiny model; `make vllm` installs one."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_tap import LOG, Noted

from sidecar.launch import LaunchedVllm
from sidecar.load import (
    VLLM_TOKENS,
    Anchor,
    Bursts,
    Endpoint,
    Scheduled,
    check_endpoint,
    run_closed_loop,
    run_open_loop,
    summarise,
)
from sidecar.tap import Tap, TapSettings
from sidecar.tap.settings import Address
from slackwater.events import Request

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("vllm")
    with ExitStack() as stack:
        yield stack.enter_context(LaunchedVllm(log=folder / "vllm.log"))


def endpoint(url, model):
    return Endpoint(url=url, model=model, vocabulary=4096, extra=VLLM_TOKENS)


def arrivals(count, step_us=100_000):
    return [Scheduled(f"r{i}", i * step_us, 64, 16) for i in range(count)]


@pytest.mark.timeout(600)
def test_vllm_serves_the_open_loop_to_full_length_and_every_request_is_accounted_for(vllm):
    at, outcomes = endpoint(vllm.base_url, vllm.model), []
    assert check_endpoint(at) == (vllm.model,)
    report = asyncio.run(run_open_loop(at, arrivals(30), on_outcome=outcomes.append))
    assert report.ended["ok"] == report.scheduled == 30
    assert {(o.prompt_tokens, o.output_tokens) for o in outcomes} == {(64, 16)}
    # A fast server's tokens can come in one piece.
    assert all(o.e2e_s >= o.ttft_s > 0 for o in outcomes)
    assert any(o.e2e_s > o.ttft_s for o in outcomes)
    print(summarise(report, outcomes))  # noqa: T201 - figures for who runs it with -s


@pytest.mark.timeout(600)
def test_vllm_serves_batches(vllm):
    outcomes = []
    bursts = Bursts(quiet=1, busy=4, period_s=2.0, burst_s=1.0)
    report = asyncio.run(
        run_closed_loop(
            endpoint(vllm.base_url, vllm.model), bursts, duration_s=4, on_outcome=outcomes.append
        )
    )
    assert report.ended["ok"] == report.scheduled > 0
    assert {sum(o.batch == n for o in outcomes) for n in {o.batch for o in outcomes}} == {1, 4}


@pytest.mark.timeout(600)
def test_the_tap_before_vllm_sees_what_the_client_sees(vllm):
    outbox, outcomes = Noted(lambda _event: None), []

    async def main():
        tap = Tap(TapSettings(upstream=vllm.base_url), outbox, Anchor.now(), LOG)
        async with tap.serving(Address("127.0.0.1", 0)) as where:
            through = endpoint(f"http://{where.host}:{where.port}", vllm.model)
            await run_open_loop(through, arrivals(10), on_outcome=outcomes.append)

    asyncio.run(main())
    events = [event for event in outbox.noted if isinstance(event, Request)]
    assert [event.status for event in events] == ["ok"] * 10
    assert {(event.prompt_tokens, event.output_tokens) for event in events} == {(64, 16)}
    assert all(event.ttft_s < event.e2e_s for event in events)
    # The client's latencies hold the tap's, the way to it and its own lag.
    assert sum(o.e2e_s for o in outcomes) > sum(event.e2e_s for event in events)
