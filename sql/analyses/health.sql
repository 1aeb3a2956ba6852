-- Is the log whole? Status of each run, with the counts of lost_late_dead
SELECT
    run_id,
    r.status,
    r.status_reason,
    r.duration_s,
    l.requests,
    l.late_requests,
    l.late_in_bins,
    l.dropped_events,
    l.missing_samples,
    l.dead_letters,
    (SELECT count(*) FROM incidents) AS incidents
FROM lost_late_dead AS l
LEFT JOIN stg_runs AS r USING (run_id)
ORDER BY run_id;
