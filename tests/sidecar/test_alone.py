"""Without --rate, the load is a share of what the server answers one at a time."""

import pytest
from openai_server import MODEL
from rich.console import Console
from test_calibrate import ServerThread, asked

from sidecar.load import Endpoint
from sidecar.load.alone import answers_alone_per_s
from slackwater.cli import calibrate_job
from slackwater.cli.saying import Saying
from slackwater.errors import SlackwaterError
from slackwater.testbed.signals import Interrupted, StopSignals


def answers_per_s(server, check=lambda: None, **given):
    lengths = {"prompt_tokens": 3, "output_tokens": 4}
    seconds = {"warm_up_s": 0.2, "measured_s": 0.8}
    endpoint = Endpoint(url=server.url, model=MODEL)
    return answers_alone_per_s(endpoint, check=check, **(lengths | seconds | given))


def test_one_request_at_a_time_is_the_inverse_of_its_time():
    with ServerThread(step_s=0.01) as server:
        found = answers_per_s(server)
        assert 5 < found < 26  # Four steps of 10 ms, and what a request costs besides.


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"refuse": 500}, r"answered 0 requests.*one of them was not: .*out of order.*--rate"),
        ({"step_s": 0.1}, r"answered [12] requests.*it takes 5.*--rate"),
    ],
)
def test_server_that_fails_or_is_too_slow_to_tell_is_no_rate(how, said):
    with ServerThread(**how) as server, pytest.raises(SlackwaterError, match=said):
        answers_per_s(server)


def test_who_wants_the_end_does_not_wait_for_the_measuring():
    with ServerThread(step_s=60.0) as server, StopSignals() as signals:
        signals.first = 2
        with pytest.raises(Interrupted):
            answers_per_s(server, check=signals.check)


def test_load_is_a_share_of_it_unless_a_rate_was_given(monkeypatch):
    monkeypatch.setattr("sidecar.load.alone.answers_alone_per_s", lambda *_, **__: 31.44)
    endpoint = Endpoint(url="http://127.0.0.1:1", model=MODEL)
    say = Saying(Console(quiet=True), True)
    with StopSignals() as signals:
        found = calibrate_job._load(asked(rate_per_s=None), endpoint, signals, say)
        given = calibrate_job._load(asked(rate_per_s=7.0), endpoint, signals, say)
    assert (found.rate_per_s, found.alone_per_s) == (19.0, 31.44)
    assert (given.rate_per_s, given.alone_per_s) == (7.0, None)
