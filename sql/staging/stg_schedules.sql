-- Schedules to set beside random ones, on a grid of cells: one row a run and policy.
-- An evaluated run has one for each policy, and its costs are counted as its serving model
-- `overlap` does; other models cannot be recounted in SQL, and their runs are left out.
-- A live run has its own merges: from the first inner step to the last one of the learner that left
-- first, cells a quarter of its mean window long. Steps of the corridor become seconds by the median
-- step time, and a gap, which goes from start to start, holds the merge itself as well. Only arrivals
-- are counted there: latencies in a live log already carry the harm of the merges that were made.
CREATE OR REPLACE VIEW stg_schedules AS
WITH
    evaluated AS (
        SELECT
            p.run_id,
            p.policy,
            e ->> '$.counting' AS counting,
            r.created_us AS begin_us,
            (e ->> '$.cell_us')::BIGINT AS cell_us,
            {
                'cells': (e ->> '$.cells')::BIGINT,
                'window_cells': (e ->> '$.window_cells')::BIGINT,
                'min_gap_cells': (e ->> '$.min_gap_cells')::BIGINT,
                'max_gap_cells': (e ->> '$.max_gap_cells')::BIGINT
            } AS corridor,
            list_transform(p.starts_s, lambda s: round(s * 1e6 / cell_us)::BIGINT) AS start_cells
        FROM placements AS p
        INNER JOIN (SELECT *, evaluation_of(settings) AS e FROM runs) AS r USING (run_id)
        WHERE e ->> '$.counting' IS NOT NULL
    ),
    steps AS (
        SELECT run_id, min(first_us) AS begin_us, min(last_us) AS end_us,
            median(step_time_s) AS step_time_s
        FROM (
            SELECT
                run_id,
                median(step_time_s) AS step_time_s,
                min(at_us - (step * step_time_s * 1e6)::BIGINT) AS first_us,
                max(at_us) AS last_us
            FROM learner_steps
            WHERE step_time_s > 0
            GROUP BY run_id, learner
        )
        GROUP BY run_id
    ),
    windows AS (
        SELECT
            run_id,
            avg(seconds_between(started_us, window_end_us)) AS window_s,
            list(started_us ORDER BY started_us) AS starts_us
        FROM stg_windows
        WHERE window_end_us > started_us
        GROUP BY run_id
    ),
    live AS (
        SELECT
            *,
            greatest(1000, (window_s / 4 * 1e6)::BIGINT) AS cell_us,
            seconds_between(begin_us, end_us) AS lasted_s,
            (settings ->> '$.stream.controller.min_gap_steps')::BIGINT * step_time_s AS min_gap_s,
            (settings ->> '$.stream.controller.max_gap_steps')::BIGINT * step_time_s AS max_gap_s
        FROM runs
        INNER JOIN steps USING (run_id)
        INNER JOIN windows USING (run_id)
    )
SELECT * FROM (
    SELECT *, len(start_cells) AS budget FROM evaluated
    UNION ALL BY NAME
    SELECT
        run_id,
        policy,
        'arriving' AS counting,
        begin_us,
        cell_us,
        {
            'cells': cells_of(lasted_s, cell_us),
            'window_cells': cells_of(window_s, cell_us),
            'min_gap_cells': cells_of(min_gap_s + window_s, cell_us),
            'max_gap_cells': cells_of(max_gap_s + window_s, cell_us)
        } AS corridor,
        list_transform(starts_us, lambda s: round((s - begin_us) / cell_us)::BIGINT) AS start_cells,
        len(start_cells) AS budget
    FROM live
    WHERE max_gap_s > 0 AND lasted_s > window_s
);
