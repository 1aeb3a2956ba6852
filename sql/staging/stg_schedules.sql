-- Schedules to set beside random ones, on a grid of cells: one row a run and policy.
-- An evaluated run has one for each policy, and its costs are counted as its serving model
-- `overlap` does; other models cannot be recounted in SQL, and their runs are left out.
-- A live run has its own merges (stg_live_runs) on cells of half a second, as `slackwater report` lays
-- them: it begins one window before its first step, as if a merge had ended there, so that the first
-- gap is like the others; a window begins at the nearest cell; the corridor's least gap is rounded
-- down and its largest up, and the corridor is widened to hold the gaps that are seen, with what is
-- left of the run after the last start; a window is no longer than the least of them. Only arrivals
-- are counted: latencies in a live log already carry the harm of the merges that were made. Left out
-- are runs without merges or corridor, with several merge groups, whose merges all have unknown
-- ends, of which two began in one cell, or one before the first step.
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
    cut AS (
        SELECT
            *,
            500000::BIGINT AS cell_us,
            greatest(1, floor(window_us / cell_us + 0.5)::BIGINT) AS window_cells,
            trained_from_us - window_cells * cell_us AS begin_us,
            list_transform(
                starts_us, lambda s: (s - begin_us + cell_us // 2) // cell_us
            ) AS start_cells
        FROM stg_live_runs
        WHERE merge_groups = 1 AND window_us IS NOT NULL AND min_gap_us <= max_gap_us
            AND starts_us[1] >= trained_from_us
    ),
    live AS (
        SELECT
            *,
            greatest(
                (until_us - begin_us) // cell_us, start_cells[-1] + window_cells
            ) AS cells,
            list_transform(
                start_cells, lambda s, i: s - CASE WHEN i = 1 THEN 0 ELSE start_cells[i - 1] END
            ) AS gaps
        FROM cut
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
            'cells': cells,
            'window_cells': least(window_cells, list_min(gaps)),
            'min_gap_cells': greatest(1, least(min_gap_us // cell_us, list_min(gaps))),
            'max_gap_cells': greatest(
                (max_gap_us + cell_us - 1) // cell_us, list_max(gaps), cells - start_cells[-1]
            )
        } AS corridor,
        start_cells,
        len(start_cells) AS budget
    FROM live
    WHERE list_min(gaps) >= 1
);
