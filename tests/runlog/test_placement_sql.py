"""The envelope in SQL: counts, costs, means and draws against plain enumeration and `Grid`."""

import json
import math
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sql
from calibration.placement import Grid
from calibration.serving import requests_of, start_costs
from calibration.signflip import sign_flip

CALIBRATION = Path(__file__).parents[1] / "calibration"
sys.path.insert(0, str(CALIBRATION))

from every_schedule import chi_square_z, enumerate_schedules  # noqa: E402

CASES = json.loads((CALIBRATION / "data" / "placement.json").read_text())
POSSIBLE = [case for case in CASES if case["count"]]
IMPOSSIBLE = [case for case in CASES if not case["count"]]
CELL_US = 500_000
BEGIN_US = 3_000_000
DRAWS = 4000
UNIFORM = [
    (18, 2, 3, 7, 3),
    (24, 3, 3, 14, 2),
    (20, 2, 2, 5, 7),
    (24, 4, 2, 9, 7),
    (40, 4, 5, 11, 5),
]


@pytest.fixture(scope="module")
def empty():
    with duckdb.connect() as connection:
        connection.execute(sql.schema() + sql.definitions())
        yield connection


@pytest.fixture
def log(empty):
    """The tables and views, made once; what a test writes is rolled back."""
    empty.begin()
    yield empty
    empty.rollback()


def put(log, run_id, corridor, starts, arrivals_us, ended_us=None, counting="arriving"):
    """An evaluated run with one policy's starts, and requests in microseconds after its begin."""
    cells, window, low, high = corridor
    scored = {
        "name": "e", "load": "made", "cells": cells, "window_cells": window, "cell_us": CELL_US,
        "min_gap_cells": low, "max_gap_cells": high, "counting": counting, "slowdown": 2.0,
    }  # fmt: skip
    log.execute(
        "INSERT INTO runs BY NAME SELECT ? AS run_id, ? AS created_us, ?::JSON AS settings",
        [run_id, BEGIN_US, json.dumps({"evaluation": scored})],
    )
    log.execute(
        "INSERT INTO placements BY NAME SELECT ? AS run_id, 'p' AS policy, ?::DOUBLE[] AS starts_s",
        [run_id, [start * CELL_US / 1e6 for start in starts]],
    )
    arrival_us = BEGIN_US + np.asarray(arrivals_us, dtype=np.int64)
    ends = arrival_us if ended_us is None else BEGIN_US + np.asarray(ended_us, dtype=np.int64)
    rows = pa.table(
        {
            "run_id": pa.repeat(run_id, len(arrival_us)),
            "id": [str(i) for i in range(len(arrival_us))],
            "arrival_us": arrival_us,
            "at_us": ends,
        }
    )
    log.register("rows", rows)
    log.execute("INSERT INTO requests BY NAME FROM rows")
    log.unregister("rows")


def put_case(log, case):
    cells = np.repeat(np.arange(case["corridor_cells"]), case["requests_per_cell"])
    budget = case["budget"]
    put(log, case["name"], case["whole"], range(budget), cells * CELL_US + CELL_US // 3)


def whole(case):
    """The case with its corridor spelt out; its requests are whole numbers."""
    cells = len(case["requests_per_cell"])
    return {**case, "corridor_cells": cells, "whole": (cells, *case["corridor"])}


def is_whole(case):
    return all(float(n).is_integer() for n in case["requests_per_cell"]) and case["budget"]


def test_cases_have_their_known_number_of_schedules_mean_and_least_cost(log):
    cases = [whole(case) for case in POSSIBLE if is_whole(case)]
    assert len(cases) > 5
    for case in cases:
        put_case(log, case)
    found = {
        row[0]: row[1:]
        for row in log.execute("SELECT run_id, log10_schedules, random_mean FROM placement_gain")
        .fetchall()
    }  # fmt: skip
    least = dict(log.execute(LEAST, [DRAWS]).fetchall())
    for case in cases:
        log10, mean = found[case["name"]]
        assert log10 == pytest.approx(math.log10(case["count"]), abs=1e-12)
        assert mean == pytest.approx(case["mean"], rel=1e-12)
        # A schedule of least cost is missed by all draws with a chance below e^-9.
        if case["at_optimum"] * DRAWS > 9:
            assert least[case["name"]] == case["optimum"]


LEAST = """
    SELECT run_id, min(cost) FROM (
        SELECT run_id, draw, sum(cost) AS cost
        FROM random_schedules(5, ?)
        INNER JOIN stg_schedules USING (corridor, budget)
        INNER JOIN stg_start_costs USING (run_id, cell)
        GROUP BY run_id, draw
    ) GROUP BY run_id
"""


def test_budgets_that_fit_no_schedule_have_no_figures(log):
    for case in IMPOSSIBLE:
        put_case(log, whole(case))
    found = log.execute("SELECT log10_schedules, random_mean, gain FROM placement_gain").fetchall()
    assert found == [(None, None, None)] * len(IMPOSSIBLE)
    assert log.execute("SELECT count(*) FROM random_schedules(1, 10)").fetchall() == [(0,)]


def draws_of(log, draws, seed=1):
    """By corridor and budget, the start cells of each draw."""
    rows = log.execute(
        "SELECT corridor, budget, list(cell ORDER BY remaining DESC) "
        "FROM random_schedules(?, ?) GROUP BY corridor, budget, draw ORDER BY ALL",
        [seed, draws],
    ).fetchall()
    found = {}
    for corridor, budget, cells in rows:
        found.setdefault((*corridor.values(), budget), []).append(tuple(cells))
    return found


def test_every_schedule_is_drawn_equally_often(log):
    for shape in UNIFORM:
        put(log, str(shape), shape[:4], [0] * shape[4], [])
    draws = 8000
    found = draws_of(log, draws)
    assert found.keys() == set(UNIFORM)
    for shape, drawn in found.items():
        schedules = enumerate_schedules(Grid([1] * shape[0], *shape[1:4]), shape[4])
        place = {schedule: i for i, schedule in enumerate(schedules)}
        seen = np.zeros(len(schedules))
        for schedule in drawn:
            seen[place[schedule]] += 1
        assert seen.sum() == draws
        expected = np.full(len(schedules), draws / len(schedules))
        assert abs(chi_square_z(seen, expected)) < 4


@pytest.mark.parametrize("budget", [8, 12, 20, 31])
def test_long_schedules_keep_the_corridor_and_have_the_gaps_of_the_uniform_law(log, budget):
    put(log, "long", (1200, 16, 36, 144), [0] * budget, [])
    starts = np.array(draws_of(log, 2000)[1200, 16, 36, 144, budget])
    grid = Grid([1] * 1200, 16, 36, 144)
    assert grid.feasible(starts).all()
    law = grid.draw(budget, 50_000, np.random.default_rng(3))
    for merge in (0, budget // 2, budget - 1):
        error = law[:, merge].std() * math.sqrt(1 / 2000 + 1 / 50_000)
        assert abs(starts[:, merge].mean() - law[:, merge].mean()) < 4 * error


def test_a_seed_gives_the_same_draws_and_another_gives_others(log):
    put(log, "one", (40, 4, 5, 11), [0] * 5, [])
    assert draws_of(log, 50) == draws_of(log, 50)
    assert draws_of(log, 50) != draws_of(log, 50, seed=2)


@pytest.mark.parametrize("counting", ["arriving", "in_service"])
def test_costs_of_windows_are_those_of_the_serving_model(log, counting):
    rng = np.random.default_rng(4)
    cells, window = 60, 4
    # Many of the times lie on the edges of cells, where a window begins or ends.
    arrival_us = np.sort(rng.integers(0, 240, 300)) * (CELL_US // 4)
    took_us = rng.integers(0, 12, 300) * (CELL_US // 4)
    put(log, "r", (cells, window, 5, 20), [9], arrival_us, arrival_us + took_us, counting)
    requests = requests_of(arrival_us / 1e6, 30.0, e2e_s=took_us / 1e6)
    wanted = start_costs(requests, window * CELL_US / 1e6, CELL_US / 1e6, counting)
    found = log.execute("SELECT cell, cost FROM stg_start_costs ORDER BY cell").fetchall()
    assert found == list(enumerate(wanted.tolist()))


def test_requests_in_service_as_a_run_begins_cost_and_count_in_nothing_else(log):
    put(log, "r", (20, 4, 5, 20), [5], [-CELL_US, 0], [CELL_US, 1], "in_service")
    costs = log.execute("SELECT cost FROM stg_start_costs ORDER BY cell").fetchall()
    assert [cost for (cost,) in costs[:3]] == [2, 0, 0]
    assert log.execute("SELECT count(*) FROM stg_requests").fetchall() == [(1,)]
    assert log.execute("SELECT requests FROM placement_gain").fetchall() == [(1,)]


@pytest.mark.parametrize("runs", [7, 14, 15])
def test_sign_flip_is_that_of_the_protocol(log, runs):
    rng = np.random.default_rng(runs)
    for run in range(runs):
        arrivals_us = rng.integers(0, 60 * CELL_US, 40)
        put(log, f"r{run:02}", (60, 4, 5, 20), [15, 30, 45], arrivals_us)
    gains = [g for (g,) in log.execute("SELECT gain_pp FROM placement_gain").fetchall()]
    (script,) = [s for s in sql.scripts("analyses") if s.name == "sign_flip"]
    ((load, found_runs, gain_pp, p_value),) = log.execute(
        f"SELECT load, runs, gain_pp, p_value FROM ({script.text.rstrip().rstrip(';')})"  # noqa: S608
    ).fetchall()
    assert (load, found_runs) == ("made", runs)
    assert gain_pp == pytest.approx(np.mean(gains))
    wanted = sign_flip(gains, "two-sided").p_value if runs <= 14 else None
    assert p_value == (pytest.approx(wanted, rel=1e-12) if wanted else None)
