-- Each request of a live run with the word on whether a merge window harmed it.
-- Evaluated runs are left out: nobody merged in them, their windows are in placements.
-- `arrived`: it arrived in a window. `in_service`: it arrived before one and was still there when
-- it began. `outside`: neither. The last window that began before a moment, with the latest end of
-- all that began before it, decides: so each request is looked at once, however many the windows.
CREATE OR REPLACE VIEW stg_windows_requests AS
WITH windows AS (
    SELECT
        run_id,
        started_us AS window_start_us,
        max(window_end_us) OVER (
            PARTITION BY run_id ORDER BY started_us
        ) AS latest_end_us
    FROM stg_windows
    WHERE window_end_us IS NOT NULL
)
SELECT
    q.*,
    CASE
        WHEN q.arrival_us < at_arrival.latest_end_us THEN 'arrived'
        WHEN q.arrival_us < at_end.latest_end_us THEN 'in_service'
        ELSE 'outside'
    END AS overlap
FROM stg_requests AS q
ANTI JOIN (SELECT run_id FROM stg_runs WHERE evaluated) AS r USING (run_id)
ASOF LEFT JOIN windows AS at_arrival
    ON q.run_id = at_arrival.run_id AND q.arrival_us >= at_arrival.window_start_us
ASOF LEFT JOIN windows AS at_end
    ON q.run_id = at_end.run_id AND q.ended_us > at_end.window_start_us;
