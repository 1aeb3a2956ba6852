"""A fault in the job ends the process; it never goes on without the message that showed it."""

from pathlib import Path

import duckdb
import pytest

from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.events import Heartbeat
from slackwater.settings import RunSettings
from slackwater.topics import LEARNERS
from slackwater.transport import BatchProducer, make_topics
from streams.service import StreamProcess
from streams.settings import StreamSettings
from streams.stage import DecisionStage

T0 = 1_750_000_000_000_000


@pytest.mark.kafka
def test_fault_in_the_job_ends_the_run_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        msg = "a fault"
        raise ArithmeticError(msg)

    monkeypatch.setattr(DecisionStage, "observe", fault)
    db = tmp_path / "run.duckdb"
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=1)
        run = RunSettings(bootstrap=broker.bootstrap, run_id="r")
        producer = BatchProducer(broker.bootstrap)

        def speak() -> None:
            event = Heartbeat(run_id="r", at_us=T0, learner="a")
            producer.send(LEARNERS, "a", event)
            producer.push()

        process = StreamProcess(StreamSettings(run=run, db=db), RunClock.real(), speak)
        with pytest.raises(ArithmeticError, match="a fault"):
            process.run()
        producer.close()
    with duckdb.connect(str(db), read_only=True) as log:
        assert log.execute("SELECT status FROM runs").fetchall() == [("failed",)]
        assert log.table("heartbeats").fetchall() == []
