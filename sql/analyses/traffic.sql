-- What did the load look like? Arrivals, violations and merge starts in steps of 10 s
-- An evaluated run was served without merges: its merges_started is NULL.
WITH
    arrivals AS (
        SELECT
            run_id,
            time_bucket(INTERVAL 10 SECONDS, arrived) AS from_time,
            count(*) AS arrivals,
            count(*) FILTER (WHERE violates) AS violations,
            quantile_cont(e2e_s, 0.95) AS p95_s
        FROM stg_requests
        GROUP BY ALL
    ),
    starts AS (
        SELECT
            run_id,
            time_bucket(INTERVAL 10 SECONDS, started) AS from_time,
            count(*) AS merges_started
        FROM merge_windows
        WHERE started IS NOT NULL
        GROUP BY ALL
    )
SELECT
    run_id,
    from_time,
    coalesce(arrivals, 0) AS arrivals,
    coalesce(arrivals, 0) / 10 AS arrivals_per_s,
    coalesce(violations, 0) AS violations,
    p95_s,
    CASE WHEN r.evaluated IS NOT TRUE THEN coalesce(merges_started, 0) END AS merges_started
FROM arrivals
FULL JOIN starts USING (run_id, from_time)
LEFT JOIN stg_runs AS r USING (run_id)
ORDER BY run_id, from_time;
