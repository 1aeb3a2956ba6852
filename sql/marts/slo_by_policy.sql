-- How often was the latency objective violated in all? Windows or not: one row a run and its policy
-- Violations are timeouts and answers slower than the objective, out of the requests that can be
-- judged; aborted and failed requests are counted apart. Quantiles are of answered requests.
-- Evaluated runs are left out: their requests were served without merges, see excess_violation.
CREATE OR REPLACE VIEW slo_by_policy AS
SELECT
    q.run_id,
    r.policy,
    any_value(q.slo_s) AS slo_s,
    count(*) AS requests,
    count(*) FILTER (WHERE q.status = 'ok') AS answered,
    count(*) FILTER (WHERE q.status = 'timeout') AS timeouts,
    count(*) FILTER (WHERE q.status = 'aborted') AS aborted,
    count(*) FILTER (WHERE q.status = 'error') AS errors,
    count(*) FILTER (WHERE q.violates) AS violations,
    count(*) FILTER (WHERE q.violates) / nullif(count(q.violates), 0) AS violation_rate,
    quantile_cont(q.e2e_s, 0.50) AS p50_s,
    quantile_cont(q.e2e_s, 0.95) AS p95_s,
    quantile_cont(q.e2e_s, 0.99) AS p99_s,
    any_value(w.merges) AS merges
FROM stg_requests AS q
LEFT JOIN stg_runs AS r USING (run_id)
LEFT JOIN (
    SELECT run_id, count(*) FILTER (WHERE complete) AS merges FROM stg_windows GROUP BY run_id
) AS w USING (run_id)
WHERE r.evaluated IS NOT TRUE
GROUP BY q.run_id, r.policy
ORDER BY q.run_id;
