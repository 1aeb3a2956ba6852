-- How did requests inside merge windows fare against those outside? As slo, with unanswered and p99
-- Inside: arrived in a window, or were in service during one. Two rows a run; a run without
-- requests inside has one, an evaluated run none: see excess_violation.
CREATE OR REPLACE VIEW slo_by_overlap AS
SELECT
    q.run_id,
    r.policy,
    CASE q.overlap WHEN 'outside' THEN 'outside' ELSE 'inside' END AS place,
    count(*) AS requests,
    count(*) FILTER (WHERE q.overlap = 'arrived') AS arrived_in,
    count(*) FILTER (WHERE q.overlap = 'in_service') AS in_service,
    count(*) FILTER (WHERE q.status IN ('aborted', 'error')) AS unanswered,
    count(*) FILTER (WHERE q.violates) AS violations,
    count(*) FILTER (WHERE q.violates) / nullif(count(q.violates), 0) AS violation_rate,
    quantile_cont(q.e2e_s, 0.50) AS p50_s,
    quantile_cont(q.e2e_s, 0.95) AS p95_s,
    quantile_cont(q.e2e_s, 0.99) AS p99_s
FROM stg_windows_requests AS q
LEFT JOIN stg_runs AS r USING (run_id)
GROUP BY q.run_id, r.policy, place
ORDER BY q.run_id, place;
