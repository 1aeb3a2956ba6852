"""Two real learners, one twice as fast as the other, under the real stream job."""

from pathlib import Path

import pytest
from learner_fleet import end, learners, rows, until_logged
from processes import environment, stop, stream

from slackwater.broker import EmbeddedBroker

PACES_S = {"learner-0": 0.2, "learner-1": 0.4}
POLICY = ("--policy", "fixed_h", "--set", "controller.fixed_steps=30")
CORRIDOR = ("--min-gap-steps", "10", "--max-gap-steps", "200", "--expect-learners", "2")
ENOUGH = "SELECT count(*) FILTER (WHERE complete AND moment IS NOT NULL) >= 4 FROM merge_windows"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.kafka
def test_learners_of_unequal_speed_merge_at_one_moment_each_at_its_own_step(tmp_path: Path) -> None:
    log = tmp_path / "run.duckdb"
    with EmbeddedBroker() as broker:
        env = environment(broker.bootstrap, "r")
        with (
            stream(env, tmp_path, "--db", str(log), *POLICY, *CORRIDOR) as job,
            learners(env, PACES_S) as started,
        ):
            until_logged(log, ENOUGH)
            summaries = end(started)
            stop(job)
    check_merges(log)
    check_gaps(log)
    assert all(s["merges"]["commanded"] >= 4 for s in summaries.values())
    assert len({s["digest"] for s in summaries.values()}) == 1


def check_merges(log: Path) -> None:
    """Every commanded merge was done by both, with equal weights, most at steps of their own."""
    merges = rows(
        log,
        "SELECT merge_id, learners_finished, same_digest, same_step, at_step IS NULL "
        "FROM merge_windows WHERE commanded IS NOT NULL AND started IS NOT NULL ORDER BY started",
    )
    assert len(merges) >= 4
    assert {merge[1:3] for merge in merges} == {(2, True)}
    by_moment = [merge for merge in merges if merge[4]]
    assert {merge[3] for merge in by_moment} == {None}
    steps = rows(
        log,
        "SELECT len(list_distinct(list(m.step))) FROM merges AS m JOIN commands AS c "
        "USING (merge_id) WHERE m.type = 'finished' AND c.moment_us IS NOT NULL GROUP BY merge_id",
    )
    assert (2,) in steps


def check_gaps(log: Path) -> None:
    """Each learner's gaps lie in the corridor, by its own count; the slower one's are shorter."""
    gaps = rows(
        log,
        "SELECT learner, list(gap ORDER BY at_us) FROM (SELECT learner, at_us, step - lag(step, 1, "
        "0) OVER (PARTITION BY learner ORDER BY at_us) AS gap FROM merges WHERE type = 'finished') "
        "GROUP BY learner ORDER BY learner",
    )
    fast, slow = (own for _, own in gaps)
    assert all(10 <= gap <= 200 for gap in (*fast, *slow))
    assert sum(slow) < sum(fast)
