-- Requests with their run's objective, whether they violate it, and readable times.
CREATE OR REPLACE VIEW stg_requests AS
SELECT
    q.run_id,
    q.sidecar,
    q.id AS request_id,
    q.tenant,
    q.status,
    us_to_ts(q.arrival_us) AS arrived,
    us_to_ts(q.at_us) AS ended,
    q.arrival_us,
    q.at_us AS ended_us,
    q.ttft_s,
    q.e2e_s,
    q.queue_s,
    q.prefill_s,
    q.decode_s,
    q.prompt_tokens,
    q.output_tokens,
    coalesce(r.slo_s, 1.0) AS slo_s,
    violates(q.status, q.e2e_s, coalesce(r.slo_s, 1.0)) AS violates,
    q.late
FROM stg_each_request AS q
LEFT JOIN (SELECT run_id, slo_of(settings) AS slo_s FROM runs) AS r USING (run_id)
WHERE NOT q.carried;
