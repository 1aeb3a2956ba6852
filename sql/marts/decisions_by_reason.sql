-- Why did each policy merge or wait, and how often? One row a reason
CREATE OR REPLACE VIEW decisions_by_reason AS
SELECT
    run_id,
    policy,
    active,
    action,
    reason,
    count(*) AS decisions,
    us_to_ts(min(decided_us)) AS first_decided,
    us_to_ts(max(decided_us)) AS last_decided,
    avg(gap_s) AS mean_gap_s,
    avg(signal_age_s) AS mean_signal_age_s
FROM stg_decisions
GROUP BY run_id, policy, active, action, reason
ORDER BY run_id, policy, action, decisions DESC;
