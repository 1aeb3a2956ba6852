-- What did every policy see and choose, shadows included? One row a tick
CREATE OR REPLACE VIEW decision_timeline AS
SELECT
    run_id,
    merge_group,
    decided,
    since_start_s,
    policy,
    active,
    action,
    reason,
    merge_id,
    step,
    gap_steps,
    gap_s,
    rate_per_s,
    in_flight,
    in_flight + rate_per_s * window_s AS expected_overlap,
    list_min(candidates.overlap) AS best_candidate_overlap,
    len(candidates.overlap) AS candidates_weighed,
    score,
    threshold,
    signal_age_s,
    len(stale) AS stale_signals
FROM stg_decisions
ORDER BY run_id, decided_us;
