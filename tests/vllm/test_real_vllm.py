"""A real vLLM with the plugin, from `make vllm`: every request it finished is in the topic."""

import http.client
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.launch import LaunchedVllm
from slackwater.broker import EmbeddedBroker
from slackwater.codec import Codec
from slackwater.events import Load, Request
from slackwater.settings import RunSettings
from slackwater.topics import REQUESTS
from slackwater.transport import make_topics, reader

pytestmark = [pytest.mark.vllm, pytest.mark.kafka, pytest.mark.timeout(900)]

SENT = 40


@pytest.fixture(scope="module")
def settings(broker: EmbeddedBroker) -> RunSettings:
    make_topics(broker.bootstrap, "real", partitions=1)
    return RunSettings(bootstrap=broker.bootstrap, prefix="real", run_id="run-1")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm") / "vllm.log"


@pytest.fixture(scope="module")
def events(settings: RunSettings, log: Path) -> list[Request | Load]:
    """All that is in the topic after requests, one of them aborted, and the server's end."""
    env = {
        "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap,
        "SLACKWATER_TOPIC_PREFIX": settings.prefix,
        "SLACKWATER_RUN_ID": settings.run_id,
        "SLACKWATER_SIDECAR": "vllm-real",
    }
    with LaunchedVllm(log=log, env=env) as server:
        abort(server)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: complete(server, n), range(SENT)))
        assert answers == [200] * SENT
        # A sample of the idle server is due 0.1 s after the last one of a busy one.
        time.sleep(0.5)
    return in_topic(settings)


def body(server: LaunchedVllm, tokens: int, *, stream: bool = False) -> bytes:
    asked = {"model": server.model, "prompt": list(range(2, 66)), "max_tokens": tokens}
    asked |= {"detokenize": False, "ignore_eos": True, "stream": stream}
    return json.dumps(asked).encode()


def headers(name: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "X-Request-Id": name}


def connect(server: LaunchedVllm) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=120)


def complete(server: LaunchedVllm, number: int) -> int:
    with closing(connect(server)) as connection:
        connection.request("POST", "/v1/completions", body(server, 16), headers(f"r{number}"))
        answer = connection.getresponse()
        answer.read()
        return answer.status


def abort(server: LaunchedVllm) -> None:
    """Hang up after the first tokens of a long answer."""
    connection = connect(server)
    asked = body(server, 400, stream=True)
    connection.request("POST", "/v1/completions", asked, headers("gone"))
    answer = connection.getresponse()
    assert answer.read(10)
    answer.close()
    connection.close()


def in_topic(settings: RunSettings) -> list[Request | Load]:
    codec = Codec(REQUESTS)
    consumer = reader(settings.bootstrap, [REQUESTS], settings.prefix, from_start=True)
    found: list[Request | Load] = []
    quiet = 0
    while quiet < 5:
        batches = consumer.poll(timeout_ms=200)
        quiet = 0 if batches else quiet + 1
        for one in (one for records in batches.values() for one in records):
            decoded = codec.decode(one.value)
            assert decoded.bad == []
            found += decoded.events
    consumer.close()
    return found


def test_every_finished_request_is_in_the_topic_once(events: list[Request | Load]) -> None:
    ended = [event for event in events if isinstance(event, Request) and event.status == "ok"]
    assert sorted(event.id for event in ended) == sorted(f"cmpl-r{n}-0" for n in range(SENT))
    for event in ended:
        assert (event.sidecar, event.run_id) == ("vllm-real", "run-1")
        assert (event.prompt_tokens, event.output_tokens) == (64, 16)
        assert event.e2e_s is not None
        assert event.at_us - event.arrival_us == pytest.approx(event.e2e_s * 1e6, abs=2)
        stages = [event.queue_s, event.prefill_s, event.decode_s]
        assert sum(s for s in stages if s is not None) <= event.e2e_s
        assert None not in stages


def test_an_aborted_request_never_counts_as_served(events: list[Request | Load]) -> None:
    # Case 7, of a real vLLM.
    gone = [event for event in events if isinstance(event, Request) and "gone" in event.id]
    assert all(event.status == "aborted" and event.e2e_s is None for event in gone)


def test_load_samples_have_no_gap_and_end_idle(events: list[Request | Load]) -> None:
    samples = [event for event in events if isinstance(event, Load)]
    assert [sample.seq for sample in samples] == list(range(len(samples)))
    assert {sample.dropped for sample in samples} == {0}
    # A fast server has ended most of them before the next sample.
    assert max(sample.running for sample in samples) >= 1
    assert samples[-1].in_system == 0


def test_the_server_says_at_its_end_what_became_of_all_events(
    events: list[Request | Load], log: Path
) -> None:
    said = re.findall(
        r"vllm-real: (\d+) events recorded, (\d+) sent, (\d+) dropped", log.read_text()
    )
    recorded, sent, dropped = map(int, said[-1])
    assert recorded == sent + dropped
    # One that was not acknowledged in time can be there all the same.
    assert sent <= len(events) <= recorded
