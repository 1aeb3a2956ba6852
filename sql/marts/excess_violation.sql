-- How much more often was the objective violated than on the same trace without merges?
-- The baseline is the mean of the runs of that trace in which no merge was made. A run that has
-- none is left out; generated loads must agree in their seed.
CREATE OR REPLACE VIEW excess_violation AS
WITH
    rates AS (
        SELECT
            run_id,
            count(*) FILTER (WHERE violates) / nullif(count(violates), 0) AS violation_rate
        FROM stg_requests
        GROUP BY run_id
    ),
    merged AS (
        SELECT run_id, count(*) FILTER (WHERE finished > 0) AS merges
        FROM stg_windows
        GROUP BY run_id
    ),
    scored AS (
        SELECT
            r.run_id,
            r.policy,
            r.trace,
            coalesce(r.trace_sha256, 'seed ' || r.seed) AS served,
            coalesce(m.merges, 0) AS merges,
            s.violation_rate
        FROM stg_runs AS r
        INNER JOIN rates AS s USING (run_id)
        LEFT JOIN merged AS m USING (run_id)
    ),
    baseline AS (
        SELECT trace, served, avg(violation_rate) AS violation_rate
        FROM scored
        WHERE merges = 0
        GROUP BY trace, served
    )
SELECT
    s.run_id,
    s.policy,
    s.trace,
    s.merges,
    s.violation_rate,
    b.violation_rate AS baseline_violation_rate,
    s.violation_rate - b.violation_rate AS excess_violation_rate
FROM scored AS s
INNER JOIN baseline AS b USING (trace, served)
WHERE s.merges > 0
ORDER BY s.run_id;
