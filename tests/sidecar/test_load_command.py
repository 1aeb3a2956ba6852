import asyncio
import json
import signal
import threading
from pathlib import Path

import msgspec
import pytest
from openai_server import MODEL, OpenAIServer
from typer.testing import CliRunner

from sidecar.load import Outcome
from slackwater.cli.app import app
from slackwater.codec import Codec
from slackwater.errors import InputError, SlackwaterError
from slackwater.events import Load, Request
from slackwater.settings import PREFIX_ENV, RUN_ID_ENV
from slackwater.topics import REQUESTS
from slackwater.transport import reader

QUICK = ["--regime", "constant", "--rate", "40", "--duration", "0.4", "--output-tokens", "2"]


class Beside(threading.Thread):
    """Runs a server in a loop of its own while a command runs in the main thread."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ready, self.loop = server, threading.Event(), None

    def run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        async with self.server.serving():
            self.ready.set()
            await self.over.wait()

    def __enter__(self):
        self.start()
        assert self.ready.wait(30)
        return self.server.url

    def __exit__(self, *_error):
        self.loop.call_soon_threadsafe(self.over.set)
        self.join()


def invoke(*arguments, env=None):
    result = CliRunner().invoke(app, ["load", *arguments], env=env)
    if isinstance(result.exception, SlackwaterError):
        raise result.exception
    assert not isinstance(result.exception, Exception) or result.exit_code is not None, result
    return result


def load(url, *arguments, env=None):
    return invoke("--endpoint", url, "--model", MODEL, *arguments, env=env)


def test_json_and_the_file_of_outcomes_agree(tmp_path):
    path = tmp_path / "outcomes.jsonl"
    with Beside(OpenAIServer()) as url:
        done = load(url, *QUICK, "--output", str(path), "--json")
        again = load(url, *QUICK, "--output", str(path))
    assert done.exit_code == again.exit_code == 0
    said = json.loads(done.stdout)
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in path.read_bytes().splitlines()]
    assert said["report"]["scheduled"] == said["report"]["ended"]["ok"] == len(outcomes) > 0
    assert said["output_tokens"] == 2 * len(outcomes)
    assert f"{len(outcomes)} scheduled = {len(outcomes)} finished + 0 aborted" in again.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk here is always full")
def test_a_full_disk_costs_the_outcomes_file_and_not_the_measurement(monkeypatch):
    said = []
    monkeypatch.setattr(
        "slackwater.cli.load_output.print_summary", lambda _name, summary, **_: said.append(summary)
    )
    with Beside(OpenAIServer()) as url, pytest.raises(SlackwaterError) as failed:
        load(url, *QUICK, "--output", "/dev/full")
    assert "cannot write --output /dev/full: No space left" in str(failed.value)
    [summary] = said
    assert summary.report.ended["ok"] == summary.report.scheduled > 1


def test_a_closed_loop_says_its_batches():
    with Beside(OpenAIServer()) as url:
        done = load(url, "--closed-loop", "--duration", "0.2", "--json", "--output-tokens", "1")
    said = json.loads(done.stdout)
    assert said["batch"]["count"] > 0
    assert said["report"]["ended"]["ok"] == said["report"]["scheduled"]


def test_when_nothing_ends_well_the_command_fails_and_says_the_most_frequent_error():
    broken = OpenAIServer(fault="error", tokens_before=1)
    with Beside(broken) as url, pytest.raises(SlackwaterError) as failed:
        load(url, *QUICK)
    assert "none of" in str(failed.value)
    assert f"{url}/v1/completions" in str(failed.value)
    assert "engine died" in str(failed.value)
    assert failed.value.exit_code == 1


def test_an_interrupt_ends_the_sending_and_the_summary_still_comes():
    server = OpenAIServer()
    beside = Beside(server)
    with beside as url:
        watch = asyncio.run_coroutine_threadsafe(interrupt_after(server, 2), beside.loop)
        done = load(url, "--regime", "constant", "--rate", "20", "--duration", "3600", "--json")
        watch.result(30)
    said = json.loads(done.stdout)
    assert done.exit_code == 130
    assert said["report"]["scheduled"] == sum(said["report"]["ended"].values()) >= 2


async def interrupt_after(server, count):
    await server.until_arrived(count)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--extra", "nope"], "is no JSON object"),
        (["--extra", '{"n": 2}'], "extra has n"),
        (["--timeout", "0"], "the time-out is 0 s"),
        (["--closed-loop", "--regime", "bursty"], "makes its own traffic"),
        (["--closed-loop", "--rate", "9"], "--rate is given; leave out one"),
        (["--closed-loop", "--seed", "1"], "makes its own traffic, by no chance; leave --seed out"),
        (["--closed-loop", "--skip-bad"], "leave --skip-bad out"),
        (
            ["--quiet", "2", "--busy", "8", "--period", "9", "--burst", "3"],
            "with --closed-loop only; leave --quiet, --busy, --period, --burst out",
        ),
        (["--sidecar", "s"], "with --kafka only; leave --sidecar out"),
        (["--kafka", "h:1", "--sidecar", ""], "--sidecar has 0 characters"),
        (["--kafka", "h:1", "--sidecar", "x" * 201], "--sidecar has 201 characters"),
        (["--closed-loop", "--speed", "2"], "--speed is given; leave out one"),
        (["--chat", "--vocabulary", "9"], "chat takes words"),
        (["--prompt-tokens", "0"], "1 token or more"),
        (["--speed", "0"], "--speed is 0"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_sent(arguments, says):
    with pytest.raises(InputError, match=says):
        load("http://127.0.0.1:1", *arguments)


@pytest.mark.kafka
def test_events_reach_the_broker_and_the_load_counts_what_is_in_flight(settings):
    env = {PREFIX_ENV: settings.prefix, RUN_ID_ENV: "run-7"}
    with Beside(OpenAIServer(step_s=0.02)) as url:
        done = load(
            url, *QUICK, "--kafka", settings.bootstrap, "--sidecar", "s7", "--json", env=env
        )
    sent = json.loads(done.stdout)["report"]["scheduled"]
    events = read_all(settings, sent)
    requests = [event for event in events if isinstance(event, Request)]
    loads = [event for event in events if isinstance(event, Load)]
    assert {(event.run_id, event.sidecar) for event in events} == {("run-7", "s7")}
    assert {event.status for event in requests} == {"ok"}
    assert all(event.e2e_s >= event.ttft_s > 0 for event in requests)
    assert [load.seq for load in loads] == list(range(len(loads)))
    assert max(load.in_system for load in loads) > 0


def read_all(settings, requests):
    """All events of the topic, once so many requests are among them."""
    consumer = reader(settings.bootstrap, [REQUESTS], settings.prefix, from_start=True)
    codec, events = Codec(REQUESTS), []
    while sum(isinstance(event, Request) for event in events) < requests:
        for records in consumer.poll(timeout_ms=1000).values():
            for record in records:
                events += codec.decode(record.value).events
    consumer.close()
    return events
