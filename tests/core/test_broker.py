"""The embedded broker: healthy once started, gone once stopped, never on a port in use."""

import os
import signal
import socket

import psutil
import pytest

import slackwater.broker
from slackwater.broker import EmbeddedBroker, check_port_free, free_port
from slackwater.errors import BrokerError, InputError
from slackwater.transport import make_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_port_can_be_bound():
    port = free_port()
    check_port_free(port)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


def test_started_broker_is_healthy_and_stop_leaves_neither_process_nor_port():
    broker = EmbeddedBroker()
    assert not broker.healthy()
    with broker:
        assert broker.healthy()
        process = psutil.Process(broker.pid)
        port = int(broker.bootstrap.rpartition(":")[2])
        family = [process, *process.children(recursive=True)]
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    check_port_free(port)
    assert not broker.healthy()
    broker.stop()


def test_broker_that_does_not_come_up_says_what_it_said(tmp_path, monkeypatch):
    ill = tmp_path / "ill"
    ill.write_text("#!/bin/sh\necho no space left on device\n")
    ill.chmod(0o755)
    monkeypatch.setattr(slackwater.broker, "_binary", lambda: str(ill))
    said = "did not answer at 127.0.0.1:.*it said last: no space left on device; is there room"
    with pytest.raises(BrokerError, match=said):
        EmbeddedBroker(log_path=tmp_path / "log").start(timeout_s=0.3)


def test_broker_listens_on_loopback_alone():
    with EmbeddedBroker() as broker:
        listening = [
            c.laddr.ip
            for c in psutil.Process(broker.pid).net_connections()
            if c.status == psutil.CONN_LISTEN
        ]
    assert set(listening) == {"127.0.0.1"}


def test_killed_broker_is_not_healthy():
    with EmbeddedBroker() as broker:
        process = psutil.Process(broker.pid)
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process])
        assert not broker.healthy()


def test_two_brokers_stand_apart():
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert one.bootstrap != two.bootstrap
        make_topics(one.bootstrap, "shape", partitions=1)
        make_topics(two.bootstrap, "shape", partitions=2)


def test_port_in_use_is_an_input_error_that_names_it(taken_port):
    with pytest.raises(InputError, match=f"port {taken_port} .* in use"):
        EmbeddedBroker(port=taken_port)


def test_port_taken_between_check_and_start_is_an_error_and_leaves_no_process():
    port = free_port()
    broker = EmbeddedBroker(port=port)
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        with pytest.raises(BrokerError, match=str(port)):
            broker.start(timeout_s=0.5)
    assert {p.pid for p in psutil.Process().children(recursive=True)} == before


def test_given_port_is_the_one_used():
    port = free_port()
    with EmbeddedBroker(port=port) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"
        assert broker.healthy()
