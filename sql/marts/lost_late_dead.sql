-- What was lost, late or unreadable in each run? Counts alone, one row a run
-- `dropped_events` is what the sidecars themselves say they dropped; `missing_samples` are holes in
-- the numbers of their load samples; NULL where a sidecar does not number them.
CREATE OR REPLACE VIEW lost_late_dead AS
WITH
    known AS (
        SELECT run_id FROM runs
        UNION
        SELECT run_id FROM requests
        UNION
        SELECT run_id FROM loads
        UNION
        SELECT run_id FROM dead_letters
    ),
    late AS (
        SELECT run_id, count(*) AS requests, count(*) FILTER (WHERE late) AS late_requests
        FROM requests
        GROUP BY run_id
    ),
    sidecars AS (
        SELECT
            run_id,
            sidecar,
            max(dropped) AS dropped,
            max(seq) - min(seq) + 1 - count(DISTINCT seq) AS missing
        FROM loads
        GROUP BY run_id, sidecar
    ),
    lost AS (
        SELECT
            run_id,
            sum(dropped)::BIGINT AS dropped_events,
            sum(missing)::BIGINT AS missing_samples
        FROM sidecars
        GROUP BY run_id
    ),
    dead AS (SELECT run_id, count(*) AS dead_letters FROM dead_letters GROUP BY run_id),
    binned AS (
        SELECT run_id, sum(late)::BIGINT AS late_in_bins FROM stg_bins GROUP BY run_id
    )
SELECT
    run_id,
    coalesce(late.requests, 0) AS requests,
    coalesce(late.late_requests, 0) AS late_requests,
    binned.late_in_bins,
    lost.dropped_events,
    lost.missing_samples,
    coalesce(dead.dead_letters, 0) AS dead_letters
FROM known
LEFT JOIN late USING (run_id)
LEFT JOIN lost USING (run_id)
LEFT JOIN dead USING (run_id)
LEFT JOIN binned USING (run_id)
ORDER BY run_id;
