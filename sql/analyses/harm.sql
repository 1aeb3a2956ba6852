-- Who carries the harm? Requests touched by merge windows, one row a sidecar and tenant
SELECT
    run_id,
    sidecar,
    tenant,
    count(*) AS requests,
    count(*) FILTER (WHERE overlap <> 'outside') AS inside,
    count(*) FILTER (WHERE overlap <> 'outside') / count(*) AS share_inside,
    count(*) FILTER (WHERE violates) AS violations,
    count(*) FILTER (WHERE violates AND overlap <> 'outside') AS violations_inside
FROM stg_windows_requests
GROUP BY run_id, sidecar, tenant
ORDER BY run_id, inside DESC, sidecar, tenant;
