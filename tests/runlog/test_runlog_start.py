from pathlib import Path

import duckdb
import pytest

from slackwater.events import Heartbeat
from streams.runlog import RunLog

TOPIC = "slackwater.learners"


def test_new_run_remembers_where_it_started_and_an_old_one_where_it_was(path: Path) -> None:
    beat = Heartbeat(run_id="live", at_us=1_750_000_000_000_000, learner="a")
    with RunLog(path) as log:
        log.start_at({(TOPIC, 0): 0, (TOPIC, 1): 7})
    with RunLog(path) as log:
        assert log.stored_offsets() == {(TOPIC, 0): 0, (TOPIC, 1): 7}
        assert not log.append([beat], topic=TOPIC, partition=1, offset=6)
        assert log.append([beat], topic=TOPIC, partition=1, offset=7)
        log.commit()
        log.start_at({(TOPIC, 0): 99, (TOPIC, 1): 99, (TOPIC, 2): 5})
        assert log.stored_offsets() == {(TOPIC, 0): 0, (TOPIC, 1): 8, (TOPIC, 2): 5}


@pytest.mark.parametrize(
    "change", ["DROP VIEW slo_by_policy", "COMMENT ON VIEW stg_bins IS 'mine'"]
)
def test_a_view_that_somebody_changed_is_made_again_when_the_log_is_opened(
    path: Path, change: str
) -> None:
    views = "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    with duckdb.connect(str(path)) as other:
        before = other.execute(views).fetchall()
        other.execute(change)
        assert other.execute(views).fetchall() != before

    RunLog(path).close()

    with duckdb.connect(str(path)) as other:
        assert other.execute(views).fetchall() == before
