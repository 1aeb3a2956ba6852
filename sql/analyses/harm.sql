-- Who carries the harm? Requests touched by merge windows, one row a sidecar and tenant
-- An evaluated run was served without merges: its rows are each policy's windows as the evaluation
-- counted them (placements.detail), one row a sidecar over all tenants and one a tenant over all
-- sidecars. It has none of what is single or unknown, and violations are not known by bearer.
WITH
    live AS (
        SELECT
            q.run_id,
            r.policy,
            q.sidecar,
            q.tenant,
            count(*) AS requests,
            count(*) FILTER (WHERE q.overlap <> 'outside') AS inside,
            count(*) FILTER (WHERE q.violates) AS violations,
            count(*) FILTER (WHERE q.violates AND q.overlap <> 'outside') AS violations_inside
        FROM stg_windows_requests AS q
        LEFT JOIN stg_runs AS r USING (run_id)
        GROUP BY ALL
    ),
    counted AS (
        SELECT
            run_id,
            policy,
            from_json(detail, '{
                "sidecars": [{"name": "VARCHAR", "requests": "BIGINT", "harmed": "BIGINT"}],
                "tenants": [{"name": "VARCHAR", "requests": "BIGINT", "harmed": "BIGINT"}]
            }') AS bearers
        FROM placements
    ),
    evaluated AS (
        SELECT run_id, policy, b.name AS sidecar, NULL AS tenant, b.requests, b.harmed AS inside
        FROM (SELECT run_id, policy, unnest(bearers.sidecars) AS b FROM counted)
        UNION ALL
        SELECT run_id, policy, NULL AS sidecar, b.name AS tenant, b.requests, b.harmed AS inside
        FROM (SELECT run_id, policy, unnest(bearers.tenants) AS b FROM counted)
    )
SELECT
    run_id,
    policy,
    sidecar,
    tenant,
    requests,
    inside,
    inside / requests AS share_inside,
    violations,
    violations_inside
FROM (FROM live UNION ALL BY NAME FROM evaluated)
ORDER BY run_id, policy, sidecar IS NULL, inside DESC, sidecar, tenant;
