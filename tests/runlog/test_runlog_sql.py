"""Every view and analysis against answers reckoned by hand from `handmade`."""

import datetime
import math
import shutil

import duckdb
import pytest
from handmade import us

import sql
from sql import comments


def moment(seconds):
    epoch = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
    return epoch + datetime.timedelta(microseconds=us(seconds))


MEAN = 108 / 71
# name -> columns looked at, rows in any order
ANSWERS = {
    "slo_by_policy": (
        "run_id policy slo_s requests answered timeouts aborted errors violations violation_rate "
        "merges",
        [
            ("r", "slack", 1.0, 10, 7, 1, 1, 1, 3, 3 / 8, 2),
            ("calm", "none", 1.0, 4, 4, 0, 0, 0, 1, 1 / 4, None),
        ],
    ),
    "slo_by_overlap": (
        "run_id place requests arrived_in in_service unanswered violations violation_rate p50_s "
        "p95_s",
        [
            ("r", "inside", 6, 5, 1, 1, 3, 3 / 5, 1.0, 1.925),
            ("r", "outside", 4, 0, 0, 1, 0, 0.0, 0.5, 0.95),
            ("calm", "outside", 4, 0, 0, 0, 1, 1 / 4, 0.5, 1.775),
        ],
    ),
    "merge_windows": (
        "merge_id reason lead_s seconds planned_s at_step step learners learners_finished "
        "learners_skipped bytes_exchanged complete same_step same_digest started ended",
        [
            ("m-1", "cheap", 5.0, 8.0, 8.0, 130, 130, 2, 2, 0, 800, True, True, True, 20, 28),
            ("m-2", "cheap", 2.0, None, 8.0, 300, None, 2, 0, 1, None, False, None, None, 62, None),
            ("m-3", "h_max", None, 5.0, None, None, 512, 2, 2, 0, 800, True, True, False, 80, 85),
        ],
    ),
    "merge_durations": (
        "merge_id learner seconds other_s bytes_exchanged exchange_bytes_per_event_s "
        "checkpoint_bytes_per_event_s exchange_bytes_per_wall_s checkpoint_bytes_per_wall_s "
        "bytes_per_parameter",
        [
            ("m-1", "learner-0", 7.0, 4.0, 400, 200.0, 800.0, 4000.0, 16000.0, 4.0),
            ("m-1", "learner-1", 7.5, 4.5, 400, 200.0, 800.0, 4000.0, 16000.0, 4.0),
            ("m-3", "learner-0", 4.0, 1.0, 400, 200.0, 800.0, 4000.0, 16000.0, 4.0),
            ("m-3", "learner-1", 5.0, 2.0, 400, 200.0, 800.0, 4000.0, 16000.0, 4.0),
        ],
    ),
    "switchback_intervals": (
        "run_id merge_group interval_number arm policy_share drawn_gap_steps began_us merge_id "
        "started_us settled arriving in_service violations",
        [
            ("r", "default", 0, "policy", 0.5, None, us(18), "m-1", us(20), True, 4, 5, 3),
            ("r", "default", 1, "random", 0.5, 30, us(95), None, None, False, None, None, None),
        ],
    ),
    "decision_timeline": (
        "since_start_s action reason merge_id expected_overlap best_candidate_overlap "
        "candidates_weighed stale_signals",
        [
            (18.0, "wait", "too early", None, 5.0, None, None, 0),
            (19.0, "wait", "too early", None, 3.0, None, None, 0),
            (20.0, "merge", "cheap", "m-1", None, 4.0, 2, 0),
            (95.0, "wait", "too early", None, 5.0, None, None, 0),
        ],
    ),
    "decisions_by_reason": (
        "policy active action reason decisions mean_gap_s mean_signal_age_s",
        [
            ("slack", True, "wait", "too early", 3, 4.0, None),
            ("slack", True, "merge", "cheap", 1, 4.0, None),
        ],
    ),
    "forecast_vs_actual": (
        "since_start_s forecast forecast_sd actual error",
        [
            (18.0, 4.0, 5**0.5, 5, 1.0),
            (19.0, 2.0, 3**0.5, 5, 3.0),
            (95.0, 4.0, 5**0.5, None, None),
        ],
    ),
    "lost_late_dead": (
        "run_id requests late_requests late_in_bins dropped_events missing_samples dead_letters",
        [("r", 10, 1, 1, 2, 1, 1), ("calm", 4, 0, None, None, None, 0)],
    ),
    "excess_violation": (
        "run_id policy merges violation_rate baseline_violation_rate excess_violation_rate",
        [("r", "slack", 2, 0.375, 0.25, 0.125)],
    ),
    "matched_random_envelope": (
        "run_id serving_model budget draws mean_cost p05_cost p50_cost p95_cost least_cost sd_cost",
        [("r", "overlap", 3, 3, 20.0, 11.0, 20.0, 29.0, 10.0, 10.0)],
    ),
    # The pause at 61 ends the run: m-1 alone is in it. Its 8 s are 16 cells; the run begins at
    # -3.5, 8 s before its first step, and has 129 cells; gaps are 8 s and 21 to 91 steps, 37 to 107
    # cells. m-1 begins at cell 47, sees 4 arrivals. The 71 starts from 15 to 50 s see 108 in all.
    "placement_gain": (
        "run_id policy counting budget log10_schedules requests cost random_mean gain gain_pp",
        [
            (
                "r",
                "slack",
                "arriving",
                1,
                math.log10(71),
                9,
                4,
                MEAN,
                1 - 4 / MEAN,
                100 * (MEAN - 4) / 9,
            )
        ],
    ),
    "envelope": (
        "run_id policy budget cost random_mean least_cost gain_pp",
        [("r", "slack", 1, 4, MEAN, 0, 100 * (MEAN - 4) / 9)],
    ),
    "sign_flip": (
        "evaluation load policy runs gain_pp p_value",
        [("live", "tiny", "slack", 1, 100 * (MEAN - 4) / 9, 1.0)],
    ),
    "slo": (
        "run_id place requests violations",
        [("calm", "outside", 4, 1), ("r", "inside", 6, 3), ("r", "outside", 4, 0)],
    ),
    "timeline": (
        "since_start_s action reason",
        [(18.0, "wait", "too early"), (20.0, "merge", "cheap"), (95.0, "wait", "too early")],
    ),
    "merge_times": (
        "learner merges p50_s longest_s mean_exchange_s bytes_exchanged "
        "mean_exchange_bytes_per_event_s mean_exchange_bytes_per_wall_s",
        [
            ("learner-0", 2, 5.5, 7.0, 2.0, 800, 200.0, 4000.0),
            ("learner-1", 2, 6.25, 7.5, 2.0, 800, 200.0, 4000.0),
        ],
    ),
    "late_merges": (
        "merge_id trouble why at_step step learners_finished learners_skipped over_plan_s",
        [("m-2", "unfinished", "too late", 300, None, 0, 1, None)],
    ),
    "forced_in_vain": ("learner why attempts first_step last_step", []),
    "merge_agreement": (
        "merges commanded complete same_step same_digest mean_lead_s mean_seconds bytes_exchanged",
        [(3, 2, 2, 2, 1, 3.5, 6.5, 1600)],
    ),
    "forecast": (
        "policy ticks mean_actual mean_forecast bias mean_abs_error rms_error share_within_2_sd",
        [("slack", 2, 5.0, 3.0, 2.0, 2.0, 5**0.5, 1.0)],
    ),
    "harm": (
        "run_id policy sidecar tenant requests inside share_inside violations violations_inside",
        [
            ("r", "slack", "sidecar-0", None, 9, 5, 5 / 9, 2, 2),
            ("r", "slack", "sidecar-0", "shop", 1, 1, 1.0, 1, 1),
            ("calm", "none", "sidecar-0", None, 4, 0, 0.0, 1, 0),
        ],
    ),
    "traffic": (
        "run_id from_time arrivals arrivals_per_s violations merges_started",
        [
            ("calm", 0, 4, 0.4, 1, 0),
            ("r", 10, 3, 0.3, 1, 0),
            ("r", 20, 5, 0.5, 2, 1),
            ("r", 50, 1, 0.1, 0, 0),
            ("r", 60, 1, 0.1, 0, 1),
            ("r", 80, 0, 0.0, 0, 1),
        ],
    ),
    "health": (
        "run_id status status_reason duration_s requests dead_letters incidents",
        [("r", "complete", None, 100.0, 10, 1, 0), ("calm", "complete", None, 100.0, 4, 0, 0)],
    ),
    "rows": (
        "table_name row_count",
        [
            ("bins", 1),
            ("commands", 3),
            ("dead_letters", 1),
            ("decisions", 4),
            ("draws", 3),
            ("heartbeats", 1),
            ("incidents", 0),
            ("learner_steps", 2),
            ("loads", 4),
            ("merges", 12),
            ("offsets", 8),
            ("placements", 0),
            ("requests", 14),
            ("runs", 2),
            ("verdicts", 1),
        ],
    ),
}
NAMED = [*sql.scripts("analyses"), *sql.scripts("marts")]


@pytest.fixture(scope="module")
def reader(filled):
    with duckdb.connect(str(filled), read_only=True) as connection:
        yield connection


def rows(reader, text, columns):
    inner = text.strip().removesuffix(";")
    found = reader.sql(f"SELECT {', '.join(columns.split())} FROM ({inner})")  # noqa: S608
    times = {moment(s): s for s in range(100)}
    return [
        tuple(times.get(v, v) if isinstance(v, datetime.datetime) else v for v in row)
        for row in found.fetchall()
    ]


def by_text(row):
    return tuple(map(str, row))


def test_every_analysis_and_view_has_an_answer_reckoned_by_hand():
    assert {s.name for s in NAMED} == ANSWERS.keys()


@pytest.mark.parametrize("script", NAMED, ids=lambda s: s.name)
def test_answers_are_those_reckoned_by_hand(reader, script):
    columns, expected = ANSWERS[script.name]
    text = script.text if script.folder == "analyses" else f"FROM {script.name}"
    found = rows(reader, text, columns)
    for row, wanted in zip(sorted(found, key=by_text), sorted(expected, key=by_text), strict=True):
        assert row == pytest.approx(wanted, nan_ok=False)


@pytest.mark.parametrize("script", NAMED, ids=lambda s: s.name)
def test_every_analysis_and_view_begins_with_its_question(script):
    assert script.text.startswith(f"-- {script.question}\n")
    assert "?" in script.question


def test_a_request_is_harmed_if_it_arrives_in_a_window_or_is_in_service_during_it(reader):
    found = dict(
        reader.sql(
            "SELECT request_id, overlap FROM stg_windows_requests WHERE run_id = 'r'"
        ).fetchall()
    )
    arrived = {"at-start", "late-in-window", "timed-out", "aborted", "in-unfinished"}
    assert {k for k, v in found.items() if v == "arrived"} == arrived
    assert {k for k, v in found.items() if v == "in_service"} == {"served-at-start"}


def test_overlap_cost_of_a_window_that_was_not_run(reader):
    start_us = us(20)
    cost = reader.sql(f"FROM overlap_cost('r', {start_us}, 8.0)").fetchall()
    assert cost == [(4, 1, 5)]


def test_overlap_cost_says_what_the_rule_says_of_each_request(reader):
    """The fast form used by the views against the plain rule, window by window."""
    plain = reader.sql(
        "SELECT q.request_id FROM stg_requests q WHERE q.run_id = 'r' AND EXISTS ("
        "  FROM stg_windows w WHERE w.run_id = 'r'"
        "  AND is_harmed(q.arrival_us, q.ended_us, w.started_us, w.window_end_us))"
    ).fetchall()
    fast = reader.sql(
        "SELECT request_id FROM stg_windows_requests WHERE run_id = 'r' AND overlap <> 'outside'"
    ).fetchall()
    assert sorted(plain) == sorted(fast)


@pytest.mark.parametrize("script", sql.scripts("staging"), ids=lambda s: s.name)
def test_staging_views_have_rows(reader, script):
    assert reader.sql(f"FROM {script.name} LIMIT 1").fetchall()


ALONE = """
    INSERT INTO merges BY NAME
    SELECT * EXCLUDE (i) REPLACE (
        'skipped' AS type, 'hmax-' || (640 + 128 * i) AS merge_id, 640 + 128 * i AS step,
        at_us + (i + 1) * 1_000_000 AS at_us, 'quorum: 1 there, 2 are needed' AS reason
    )
    FROM merges, range(100) AS tries (i)
    WHERE merge_id = 'm-3' AND type = 'finished' AND learner = 'learner-0';
"""


def test_a_learner_alone_at_h_max_is_one_row_and_no_merges(filled, tmp_path):
    shutil.copy(filled, tmp_path / "alone.duckdb")
    (script,) = [s for s in sql.scripts("analyses") if s.name == "forced_in_vain"]
    with duckdb.connect(str(tmp_path / "alone.duckdb")) as changed:
        before = rows(changed, "FROM merge_windows", "merge_id")
        changed.execute(ALONE)
        columns = "learner why merges_before attempts first_step last_step"
        assert rows(changed, script.text, columns) == [
            ("learner-0", "quorum: 1 there, 2 are needed", 2, 100, 640, 13_312)
        ]
        assert rows(changed, "FROM merge_windows", "merge_id") == before
        held = rows(changed, "FROM merges WHERE type = 'skipped'", "merge_id")
    assert len(held) == 101


LATE = """
    UPDATE commands SET window_s = 6.0 WHERE merge_id = 'm-1';
    UPDATE merges SET type = 'skipped', reason = 'late: this learner is at step 301'
        WHERE merge_id = 'm-2';
"""


def test_a_merge_that_nobody_made_or_that_overran_its_plan_is_told_apart(filled, tmp_path):
    shutil.copy(filled, tmp_path / "late.duckdb")
    (script,) = [s for s in sql.scripts("analyses") if s.name == "late_merges"]
    with duckdb.connect(str(tmp_path / "late.duckdb")) as changed:
        changed.execute(LATE)
        found = rows(changed, script.text, "merge_id trouble why over_plan_s")
    assert found == [
        ("m-1", "longer than planned", None, 2.0),
        ("m-2", "skipped", "late: this learner is at step 301", None),
    ]


def test_bytes_per_wall_second_are_unknown_where_the_speed_is(filled, tmp_path):
    shutil.copy(filled, tmp_path / "speed.duckdb")
    with duckdb.connect(str(tmp_path / "speed.duckdb")) as changed:
        changed.execute("UPDATE runs SET settings = '{}'")
        rates = "exchange_bytes_per_event_s exchange_bytes_per_wall_s"
        assert set(rows(changed, "FROM merge_durations", rates)) == {(200.0, None)}


def test_every_table_and_view_and_column_is_documented(reader):
    missing = reader.sql(
        "SELECT table_name, column_name FROM duckdb_columns() "
        "WHERE NOT internal AND comment IS NULL"
    ).fetchall()
    assert missing == []
    assert reader.sql("FROM duckdb_tables() WHERE comment IS NULL").fetchall() == []
    assert reader.sql("FROM duckdb_views() WHERE comment IS NULL AND NOT internal").fetchall() == []


def test_the_comments_are_those_of_the_glossary():
    written = comments.PATH.read_text(encoding="utf-8")
    assert written == comments.text(), "run python -m sql.comments"
