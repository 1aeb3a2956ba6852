import asyncio
import socket
from collections import Counter

import msgspec
import pytest
from openai_server import MODEL, OpenAIServer

from replay_producer.generators import generate
from sidecar.load import (
    VLLM_TOKENS,
    Account,
    Anchor,
    Bursts,
    Endpoint,
    Lengths,
    Limits,
    LoadReport,
    Outcome,
    Scheduled,
    check_endpoint,
    preflight,
    run_closed_loop,
    run_open_loop,
    scheduled,
    start_open_loop,
    summarise,
)
from sidecar.load.account import AccountError
from sidecar.load.endpoint import Composer
from sidecar.load.preflight import EndpointError
from sidecar.load.stream import Reading
from slackwater.errors import InputError

STEP_US = 10_000


def arrivals(count, step_us=STEP_US, tokens=4):
    return [Scheduled(f"r{i}", i * step_us, 3, tokens) for i in range(count)]


def endpoint(server, **given):
    return Endpoint(url=server.url, model=MODEL, **given)


def drive(server, schedule, *, beside=None, **given):
    """Report and outcomes of one open-loop run against a server; `beside` runs meanwhile."""

    async def main():
        outcomes = []
        async with server.serving():
            running = run_open_loop(endpoint(server), schedule, on_outcome=outcomes.append, **given)
            report, _ = await asyncio.gather(running, beside(server) if beside else no_one())
        return report, sorted(outcomes, key=lambda o: o.id)

    return asyncio.run(main())


async def no_one():
    pass


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def adds_up(report, outcomes):
    assert report.scheduled == sum(report.ended.values()) == len(outcomes)
    assert report.ended == {k: Counter(statuses(outcomes))[k] for k in report.ended}
    return True


def test_requests_go_out_when_due_though_none_has_been_answered():
    async def main():
        server, outcomes = OpenAIServer(), []
        server.gate = asyncio.Event()
        async with server.serving():
            running = asyncio.create_task(
                run_open_loop(endpoint(server), arrivals(8), on_outcome=outcomes.append)
            )
            await server.until_arrived(8)
            assert outcomes == []
            server.gate.set()
            return await running, outcomes

    report, outcomes = asyncio.run(main())
    assert adds_up(report, outcomes)
    assert report.ended["ok"] == 8


def test_queueing_for_one_slot_is_part_of_the_latency():
    # Case 6 at a tenth of its times: 8 requests at 100/s through one slot of 50 ms.
    report, outcomes = drive(OpenAIServer(slots=1, step_s=0.0125), arrivals(8, tokens=4))
    assert adds_up(report, outcomes)
    assert statuses(outcomes) == ["ok"] * 8
    for k, outcome in enumerate(outcomes):
        assert outcome.e2e_s >= (k + 1) * 0.05 - k * 0.01
        assert outcome.ttft_s >= k * 0.05 - k * 0.01


def test_latency_counts_from_the_scheduled_arrival_and_says_the_clients_lag():
    overdue = [Scheduled("r0", -250_000, 3, 2)]
    _, (outcome,) = drive(OpenAIServer(), overdue)
    assert outcome.lag_s >= 0.25
    assert outcome.e2e_s >= outcome.ttft_s >= outcome.lag_s


def test_times_are_those_of_one_anchor_whatever_the_wall_says():
    # Case 8: a wall clock and a monotonic one decades apart are never subtracted.
    past = Anchor(1_000_000_000_000_000, Anchor.now().monotonic_ns)
    report, (outcome,) = drive(OpenAIServer(), arrivals(1), anchor=past)
    times = (report.started_us, outcome.scheduled_us, outcome.sent_us, outcome.first_token_us)
    assert list(times) == sorted(times)
    assert outcome.first_token_us <= outcome.finished_us <= outcome.ended_us < 1_000_003_600_000_000


def test_a_stream_that_is_cut_half_way_is_aborted_and_has_no_latency():
    # Case 7, of the load client.
    report, outcomes = drive(OpenAIServer(fault="cut"), arrivals(3))
    assert adds_up(report, outcomes)
    assert statuses(outcomes) == ["aborted"] * 3
    assert {o.e2e_s for o in outcomes} == {o.ttft_s for o in outcomes} == {None}
    assert all(o.first_token_us is not None and o.finished_us is None for o in outcomes)
    assert summarise(report, outcomes).e2e.p50_s is None


def test_a_stalled_stream_times_out_and_leaves_the_server():
    report, outcomes = drive(
        OpenAIServer(fault="stall"),
        arrivals(2),
        limits=Limits(timeout_s=0.15),
        beside=lambda server: server.left.wait(),
    )
    assert adds_up(report, outcomes)
    assert statuses(outcomes) == ["timeout"] * 2
    assert outcomes[0].error == "no end within 0.15 s"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (lambda: OpenAIServer(refuse=500), 'HTTP 500: {"error": {"message": "out of order"}}'),
        (lambda: OpenAIServer(fault="error"), "in the stream: "),
    ],
)
def test_errors_of_the_server_are_counted_with_what_it_said(server, said):
    report, outcomes = drive(server(), arrivals(3))
    assert adds_up(report, outcomes)
    assert statuses(outcomes) == ["error"] * 3
    assert next(iter(summarise(report, outcomes).errors)).startswith(said)


def test_a_server_that_goes_away_in_the_middle_gives_errors_and_the_client_goes_on():
    async def main():
        server, outcomes, until = OpenAIServer(), [], asyncio.Event()
        server.close_after_first = True

        def take(outcome):
            outcomes.append(outcome)
            if outcome.status == "error":
                until.set()

        async with server.serving():
            report = await run_closed_loop(
                endpoint(server),
                Bursts(quiet=1, busy=1),
                duration_s=60,
                until=until,
                on_outcome=take,
            )
        return report, outcomes

    report, outcomes = asyncio.run(main())
    assert adds_up(report, outcomes)
    assert statuses(outcomes) == ["ok", "error"]
    assert "Connect" in outcomes[1].error
    assert outcomes[1].http_status is None


def test_requests_over_the_cap_are_dropped_and_counted():
    report, outcomes = drive(
        OpenAIServer(fault="stall"),
        arrivals(5, step_us=0),
        limits=Limits(timeout_s=0.15, most_in_flight=2),
    )
    assert adds_up(report, outcomes)
    assert report.ended == {"ok": 0, "aborted": 0, "timeout": 2, "error": 0, "dropped": 3}
    assert {o.sent_us for o in outcomes if o.status == "dropped"} == {None}


def test_until_ends_an_endless_schedule_and_waits_for_what_is_in_flight():
    def endless():
        i = 0
        while True:
            yield Scheduled(f"r{i}", i * STEP_US, 3, 1)
            i += 1

    async def stop_at_three(server):
        await server.until_arrived(3)
        until.set()

    until = asyncio.Event()
    report, outcomes = drive(OpenAIServer(), endless(), until=until, beside=stop_at_three)
    assert adds_up(report, outcomes)
    assert set(statuses(outcomes)) == {"ok"}
    assert len(outcomes) >= 3


def test_a_cancelled_client_delivers_what_is_in_flight_as_aborted():
    async def main():
        server, outcomes, account = OpenAIServer(fault="stall"), [], Account()
        async with server.serving():
            task = asyncio.create_task(
                run_open_loop(
                    endpoint(server), arrivals(3), on_outcome=outcomes.append, account=account
                )
            )
            await server.until_arrived(3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        account.check()
        return outcomes

    assert statuses(asyncio.run(main())) == ["aborted"] * 3


def test_an_account_that_does_not_add_up_is_refused():
    account = Account()
    account.scheduled = 2
    with pytest.raises(AccountError, match=r"0 ok .* are not 2 scheduled: 2 unaccounted for"):
        account.check()


def test_a_closed_loop_sends_the_next_batch_when_all_of_one_are_back():
    async def main():
        server, outcomes, until = OpenAIServer(step_s=0.002), [], asyncio.Event()

        def take(outcome):
            outcomes.append(outcome)
            if outcome.batch == 2:
                until.set()

        async with server.serving():
            bursts = Bursts(quiet=2, busy=3, period_s=1e6, burst_s=1e6)
            report = await run_closed_loop(
                endpoint(server), bursts, duration_s=60, until=until, on_outcome=take
            )
        return report, outcomes

    report, outcomes = asyncio.run(main())
    assert adds_up(report, outcomes)
    assert Counter(o.batch for o in outcomes) == {0: 3, 1: 3, 2: 3}
    assert summarise(report, outcomes).batch.count == 3
    for number in (1, 2):
        before = [o.ended_us for o in outcomes if o.batch == number - 1]
        assert max(before) <= min(o.scheduled_us for o in outcomes if o.batch == number)


def test_bursts_are_busy_for_burst_s_of_every_period():
    bursts = Bursts(quiet=2, busy=8, period_s=10, burst_s=3, phase_s=1)
    assert [bursts.size(t) for t in (0.9, 1.0, 3.9, 4.0, 11.0, 14.0)] == [2, 8, 8, 2, 8, 2]


def test_token_prompts_have_the_ids_and_lengths_asked_for_and_chat_has_words():
    async def main():
        server = OpenAIServer()
        async with server.serving():
            tokens = endpoint(server, vocabulary=50, extra=VLLM_TOKENS)
            await run_open_loop(tokens, [Scheduled("a", 0, 200, 2), Scheduled("b", 0, 200, 2)])
            outcomes = []
            chat = endpoint(server, api="chat")
            await run_open_loop(chat, [Scheduled("c", 0, 5, 2)], on_outcome=outcomes.append)
        return server.bodies, outcomes[0]

    (one, two, words), outcome = asyncio.run(main())
    assert one["detokenize"] is False
    assert one["ignore_eos"] is one["stream"] is True
    assert len(one["prompt"]) == len(two["prompt"]) == 200
    assert set(one["prompt"]) <= set(range(50))
    assert one["prompt"] != two["prompt"]
    assert len(words["messages"][0]["content"].split()) == words["max_tokens"] + 3 == 5
    assert (outcome.status, outcome.output_tokens, outcome.prompt_tokens) == ("ok", 2, 7)


def test_no_prompt_comes_again_in_a_client_or_in_the_next_one():
    of = Endpoint(url="http://h", model=MODEL, vocabulary=4096)
    items = [Scheduled(f"r{i}", 0, 16, 1) for i in range(500)]
    clients = [Composer(of), Composer(of)]
    bodies = [client.body(item) for client in clients for item in items]
    assert len(set(bodies)) == len(bodies)
    assert Composer(of, 7).body(items[0]) == Composer(of, 7).body(items[0])
    lengths = [len(msgspec.json.decode(clients[0].body(Scheduled("r", 0, n, 1)))["prompt"])
               for n in (1, 4, 5, 40_000)]  # fmt: skip
    assert lengths == [1, 4, 5, 40_000]


def test_a_chat_that_opens_with_a_role_has_no_token_yet():
    reading = Reading()
    reading.feed(b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n')
    assert not reading.begun
    reading.feed(b'data: {"choices": [{"delta": {"con')
    reading.feed(b'tent": "hi"}}]}\r\n\r\n')
    assert reading.begun
    assert reading.unreadable == 0


def chunk(**fields):
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


@pytest.mark.parametrize(
    ("said", "tokens"),
    [("16", 16), ("16.0", 16), ("0", 0), ("-1", None), ("1.5", None), ("1" + 22 * "0", None)]
    + [(odd, None) for odd in ("true", '"16"', "[]", "null", "1e300")],
)
def test_a_count_that_can_be_none_is_unknown_and_costs_no_token(said, tokens):
    reading = Reading()
    usage = f'{{"prompt_tokens": 7, "completion_tokens": {said}}}'
    reading.feed(f'data: {{"choices": [{{"text": "a"}}], "usage": {usage}}}\n'.encode())
    assert reading.usage == (7, tokens)
    assert (reading.begun, reading.unreadable) == (True, 0)


def test_json_of_any_depth_and_errors_of_any_form_are_borne():
    deep = b"[" * 5000 + b"]" * 5000
    for field in (b"error", b"choices", b"other"):
        reading = Reading()
        reading.feed(b'data: {"' + field + b'": ' + deep + b"}\n")
        assert (reading.unreadable, reading.error) == (1, None)
    reading = Reading()
    reading.feed(b'data: {"error": null}\n')
    assert reading.error is None
    reading.feed(b'data: {"error": {"code": 99999999999999999999999}}\n')
    assert reading.error == '{"code": 99999999999999999999999}'


def test_an_answer_of_several_choices_is_complete_when_each_that_began_has_ended():
    reading = Reading()
    for index in (0, 1):
        reading.feed(chunk(choices=[{"index": index, "text": "a", "finish_reason": None}]))
    reading.feed(chunk(choices=[{"index": 1, "text": "b", "finish_reason": "stop"}]))
    # Some servers say more of a choice that has ended.
    reading.feed(chunk(choices=[{"index": 1, "text": "", "finish_reason": None}]))
    assert not reading.complete
    reading.feed(chunk(choices=[{"index": 0, "text": "b", "finish_reason": "length"}]))
    assert reading.complete


def test_a_trace_is_scheduled_as_it_arrived_at_any_speed_with_lengths_that_fit():
    trace = generate("bursty", 20.0, 8.0, seed=1)
    plain = list(scheduled(trace))
    fast = list(scheduled(trace, Lengths(prompt_tokens=64, most_output_tokens=16), speed=4.0))
    assert [item.after_us for item in plain] == trace.arrival_us.tolist()
    assert [item.after_us for item in fast] == [round(us / 4) for us in trace.arrival_us.tolist()]
    assert {item.prompt_tokens for item in fast} == {64}
    assert max(item.output_tokens for item in fast) == 16
    assert [item.output_tokens for item in plain] == trace.output_tokens.tolist()


def test_the_thread_reports_as_the_client_does_and_raises_what_it_raises():
    async def main():
        server, outcomes = OpenAIServer(), []
        async with server.serving():
            thread = start_open_loop(endpoint(server), arrivals(3), on_outcome=outcomes.append)
            report = await asyncio.to_thread(thread.result, 60)
            broken = start_open_loop(endpoint(server), [None])
            with pytest.raises(AttributeError):
                await asyncio.to_thread(broken.result, 60)
        return report, outcomes

    assert adds_up(*asyncio.run(main()))


def test_outcomes_go_through_json_lines():
    _, outcomes = drive(OpenAIServer(), arrivals(1))
    line = msgspec.json.encode(outcomes[0])
    assert msgspec.json.decode(line, type=type(outcomes[0])) == outcomes[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "127.0.0.1:8000"}, "is no URL"),
        ({"url": "http://[::1"}, "is no URL"),
        ({"url": "http://h:abc"}, "is no URL"),
        ({"url": "http://h:99999"}, "is no URL"),
        ({"url": "http://:8000"}, "is no URL"),
        ({"url": "http://h/?a=1"}, "is no URL"),
        ({"url": "http://h", "vocabulary": 0}, "1 or more"),
        ({"url": "http://h", "vocabulary": 9, "api": "chat"}, "chat takes words"),
        ({"url": "http://h", "extra": {"n": 2, "top_p": 1}}, "extra has n: .* leave it out"),
        ({"url": "http://h", "extra": {"stream": False, "best_of": 2}}, "has best_of, stream:"),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(given, says):
    with pytest.raises(InputError, match=says):
        Endpoint(model=MODEL, **given)


def checked(server, model=MODEL):
    async def main():
        async with server.serving():
            return await asyncio.to_thread(check_endpoint, Endpoint(url=server.url, model=model))

    return asyncio.run(main())


def test_the_check_knows_models_and_names_what_is_wrong():
    assert checked(OpenAIServer()) == (MODEL,)
    with pytest.raises(InputError, match=f"'other' is not served .*; it serves {MODEL}"):
        checked(OpenAIServer(), "other")
    with pytest.raises(EndpointError, match="answers HTTP 503: 'no models today'"):
        checked(OpenAIServer(refuse=503))
    with pytest.raises(EndpointError, match="does not answer as an OpenAI-compatible server"):
        preflight._read(Endpoint(url="http://h", model=MODEL), "u", 200, b"[" * 5000)
    with pytest.raises(EndpointError, match="it wants an API key"):
        checked(OpenAIServer(refuse=401))
    with socket.create_server(("127.0.0.1", 0)) as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
    with pytest.raises(EndpointError, match=f"cannot reach {url}/v1/models"):
        check_endpoint(Endpoint(url=url, model=MODEL))


def test_errors_that_differ_in_numbers_alone_are_one():
    outcomes = [
        Outcome(
            id=f"r{n}",
            status="error",
            scheduled_us=0,
            ended_us=1,
            error=f"HTTP 400: your prompt contains {600 + n} tokens" if n else "cut off",
        )
        for n in range(20)
    ]
    ended = {"ok": 0, "aborted": 0, "timeout": 0, "error": 20, "dropped": 0}
    report = LoadReport(scheduled=20, ended=ended, started_us=0, lasted_s=1.0, client_cpu_s=0.0)
    assert summarise(report, outcomes).errors == {
        "HTTP 400: your prompt contains 601 tokens": 19,
        "cut off": 1,
    }
