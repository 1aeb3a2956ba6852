-- When did the commanding policy change its mind? One row a change of action or reason
SELECT
    run_id,
    decided,
    since_start_s,
    policy,
    action,
    reason,
    merge_id,
    gap_s,
    rate_per_s,
    in_flight,
    expected_overlap,
    signal_age_s
FROM decision_timeline
WHERE active
QUALIFY
    (action, reason)
    IS DISTINCT FROM lag((action, reason)) OVER (
        PARTITION BY run_id, merge_group ORDER BY decided
    )
ORDER BY run_id, decided;
