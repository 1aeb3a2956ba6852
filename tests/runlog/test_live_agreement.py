"""Report and SQL lay a live run on the same grid, and say the same of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from handmade import START_US
from livelogs import JUDGED, PLAIN, REFUSED, put

import sql
from calibration.live import Asked, score
from calibration.live.corridor import place
from calibration.simulate import CELL_S
from slackwater.cli.report_logs import ABOUT, read_log, read_run
from slackwater.errors import InputError
from slackwater.livequery import Question, ask, query
from streams.runlog import RunLog

pytestmark = pytest.mark.slow

DRAWS = 1000
ENVELOPE = next(
    script.text.replace("random_schedules(1, 10000)", f"random_schedules(1, {DRAWS})")
    for script in sql.scripts("analyses")
    if script.name == "envelope"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with all the runs that can be judged, still held by its writer."""
    path = tmp_path_factory.mktemp("logs") / "runs.duckdb"
    with RunLog(path) as writer:
        for partition, made in enumerate(JUDGED):
            put(writer, made, partition)
        yield path


@pytest.fixture(scope="module")
def lives(log):
    """Name to the run as the report reads it."""
    return {one.run.name: one.run for one in read_log(log)}


@pytest.fixture(scope="module")
def schedules(log):
    """Name to the run's row of `stg_schedules`."""
    return {row["run_id"]: row for row in query(log, "FROM stg_schedules").to_pylist()}


@pytest.fixture(scope="module")
def envelopes(log):
    """Name to the run's row of the analysis `envelope`."""
    # Seconds of a core, and more on a busy machine than a person's question may take.
    asked = Question(sql=ENVELOPE, timeout_s=100)
    return {row["run_id"]: row for row in ask(log, asked).table.to_pylist()}


every_run = pytest.mark.parametrize("name", [made.name for made in JUDGED])


def test_all_runs_are_in_both(lives, schedules):
    assert set(lives) == set(schedules) == {made.name for made in JUDGED}


@every_run
def test_cells_windows_corridor_and_starts_are_the_same(lives, schedules, name):
    row, run = schedules[name], lives[name]
    placed = place(run, CELL_S)
    corridor = placed.corridor
    assert row["start_cells"] == placed.start_cells.tolist()
    assert row["budget"] == len(placed.start_cells)
    assert row["corridor"] == {
        "cells": corridor.cells,
        "window_cells": corridor.window_cells,
        "min_gap_cells": corridor.min_gap_cells,
        "max_gap_cells": corridor.max_gap_cells,
    }
    assert row["cell_us"] == CELL_S * 1e6
    assert row["policy"] == run.policy
    assert corridor.feasible(placed.start_cells)


def test_a_window_costs_the_same_at_every_cell(log, lives, schedules):
    rows = query(
        log, "SELECT run_id, list(cost ORDER BY cell) FROM stg_start_costs GROUP BY run_id"
    )
    found = dict(zip(*rows.to_pydict().values(), strict=True))
    begun = query(log, "SELECT run_id, trained_from_us FROM stg_live_runs").to_pydict()
    zero_us = dict(zip(*begun.values(), strict=True))
    for name, run in lives.items():
        scored = score(run, 0, [], Asked("arriving", CELL_S, 1, 0))
        begin_us = zero_us[name] + round(scored.placed.begin_s * 1e6)
        assert schedules[name]["begin_us"] == begin_us
        window = np.ones(scored.placed.corridor.window_cells, np.int64)
        assert found[name] == np.convolve(scored.counts, window, "valid").tolist()


@pytest.mark.slow
@every_run
def test_figures_are_the_same_and_quantiles_within_their_sampling_error(lives, envelopes, name):
    row = envelopes[name]
    found = score(lives[name], 0, [], Asked("arriving", CELL_S, DRAWS, 1))
    run = found.run
    assert (row["budget"], row["cost"]) == (run.budget, run.cost)
    assert row["log10_schedules"] == pytest.approx(
        math.log10(found.placed.corridor.count(run.budget)), abs=1e-9
    )
    assert row["random_mean"] == pytest.approx(run.random_mean, rel=1e-9)
    assert row["gain_pp"] == pytest.approx(run.gain_pp, abs=1e-9)
    # A share p of draws has a standard error of sqrt(p (1 - p) / draws); both were drawn.
    costs = found.random_pp * run.requests / 100
    error = 4 * math.sqrt(2 * 0.05 * 0.95 / DRAWS)
    assert np.mean(costs < row["random_p05"] - 1e-6) <= 0.05 + error
    assert np.mean(costs <= row["random_p05"] + 1e-6) >= 0.05 - error
    assert abs(row["percentile"] - run.percentile) <= 100 * 4 * math.sqrt(2 * 0.25 / DRAWS)


def test_what_the_report_refuses_is_left_out_of_sql(tmp_path):
    path = tmp_path / "runs.duckdb"
    with RunLog(path) as writer:
        for partition, (said, made) in enumerate(REFUSED.items()):
            put(writer, replace(made, name=said), partition)
    for about in query(path, ABOUT).to_pylist():
        with pytest.raises(InputError, match=about["run_id"]):
            place(read_run(path, about).run, CELL_S)
    assert query(path, "FROM stg_schedules").num_rows == 0


def test_a_run_begins_one_window_before_the_last_learner_does(schedules):
    # The first step of the later learner is reported at 0.7 s without its length.
    assert schedules[PLAIN.name]["begin_us"] == START_US + 700_000 - 4_000_000


def test_a_pause_ends_the_run_unless_it_was_undone(log):
    rows = query(log, "SELECT run_id, until_us, late_merges FROM stg_live_runs").to_pylist()
    found = {row["run_id"]: (row["until_us"] - START_US, row["late_merges"]) for row in rows}
    assert found["paused"] == (62_000_000, 1)
    assert found["resumed"][0] > 99_000_000
    assert found["merge after the traffic"][1] == 1
