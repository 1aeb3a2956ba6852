-- Did merges hurt? Violations and latency inside and outside merge windows, two rows a run
-- Of live runs: nobody merged in an evaluated one, excess_violation tells what its windows would do.
SELECT
    run_id,
    policy,
    place,
    requests,
    arrived_in,
    in_service,
    violations,
    violation_rate,
    p50_s,
    p95_s
FROM slo_by_overlap
ORDER BY run_id, place;
