-- What were the merges of a live run, and when were they allowed? One row a run with learners and requests
-- A run lasts from when the last of the learners that made its first merge began to train (of all
-- learners, where none was made) to the first of: the last request's end, the last learner's last
-- step, and a pause that was not undone. A merge that began after that is late: it harms nobody by no
-- merit, and is in no schedule. All windows are given the median length of the others that ended. A
-- learner takes no step while it merges, so a gap of g steps lasts one window and g mean step times,
-- the mean over learners of each one's own. All is in whole microseconds of event time.
CREATE OR REPLACE VIEW stg_live_runs AS
WITH
    groups AS (
        SELECT
            run_id,
            count(DISTINCT merge_group) AS merge_groups,
            min(started_us) AS first_merge_us
        FROM stg_windows
        WHERE started_us IS NOT NULL
        GROUP BY run_id
    ),
    learners AS (
        SELECT
            run_id,
            learner,
            min(at_us - coalesce((step_time_s * 1e6)::BIGINT, 0)) AS first_us,
            max(at_us) AS last_us,
            avg(step_time_s) AS step_s
        FROM learner_steps
        GROUP BY run_id, learner
    ),
    trained AS (
        SELECT
            run_id,
            any_value(merge_groups) AS merge_groups,
            coalesce(
                max(first_us) FILTER (WHERE first_us <= coalesce(first_merge_us, first_us)),
                min(first_us)
            ) AS trained_from_us,
            max(last_us) AS trained_until_us,
            round(avg(step_s) * 1e6)::BIGINT AS step_us
        FROM learners
        LEFT JOIN groups USING (run_id)
        GROUP BY run_id
    ),
    served AS (
        SELECT run_id, max(ended_us) AS served_until_us FROM stg_requests GROUP BY run_id
    ),
    told AS (
        SELECT
            run_id,
            max(at_us) FILTER (WHERE type = 'pause') AS paused_us,
            max(at_us) FILTER (WHERE type = 'resume') AS resumed_us
        FROM commands
        GROUP BY run_id
    ),
    spans AS (
        SELECT
            r.run_id,
            coalesce(r.policy, 'none') AS policy,
            coalesce(t.merge_groups, 0) AS merge_groups,
            t.trained_from_us,
            least(
                t.trained_until_us,
                s.served_until_us,
                CASE WHEN coalesce(p.resumed_us, 0) < p.paused_us THEN p.paused_us END
            ) AS until_us,
            t.step_us,
            (r.settings ->> '$.stream.controller.min_gap_steps')::BIGINT AS min_gap_steps,
            (r.settings ->> '$.stream.controller.max_gap_steps')::BIGINT AS max_gap_steps
        FROM runs AS r
        INNER JOIN trained AS t USING (run_id)
        INNER JOIN served AS s USING (run_id)
        LEFT JOIN told AS p USING (run_id)
        WHERE evaluation_of(r.settings) IS NULL
    ),
    made AS (
        SELECT
            run_id,
            list(started_us ORDER BY started_us) FILTER (WHERE started_us < until_us) AS starts_us,
            floor(
                median(window_end_us - started_us) FILTER (WHERE started_us < until_us) + 0.5
            )::BIGINT AS window_us,
            count(*) FILTER (WHERE started_us >= until_us) AS late_merges
        FROM stg_windows
        INNER JOIN spans USING (run_id)
        WHERE started_us IS NOT NULL
        GROUP BY run_id
    )
SELECT
    s.run_id,
    s.policy,
    s.merge_groups,
    s.trained_from_us,
    s.until_us,
    s.step_us,
    m.window_us,
    m.window_us + s.min_gap_steps * s.step_us AS min_gap_us,
    m.window_us + s.max_gap_steps * s.step_us AS max_gap_us,
    coalesce(m.starts_us, []) AS starts_us,
    coalesce(m.late_merges, 0) AS late_merges
FROM spans AS s
LEFT JOIN made AS m USING (run_id);
