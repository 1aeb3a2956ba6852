-- Decisions with readable times and the seconds since their run began.
CREATE OR REPLACE VIEW stg_decisions AS
SELECT
    d.run_id,
    d."group" AS merge_group,
    us_to_ts(d.at_us) AS decided,
    d.at_us AS decided_us,
    seconds_between(
        coalesce(r.created_us, min(d.at_us) OVER (PARTITION BY d.run_id)), d.at_us
    ) AS since_start_s,
    d.policy,
    d.active,
    d.action,
    d.reason,
    d.merge_id,
    d.step,
    d.at_step,
    d.moment_us,
    d.gap_steps,
    d.gap_s,
    d.window_s,
    d.learners,
    d.rate_per_s,
    d.rate_sd,
    d.in_flight,
    d.signal_age_s,
    d.stale,
    d.score,
    d.threshold,
    d.terms,
    d.candidates
FROM decisions AS d
LEFT JOIN runs AS r USING (run_id);
