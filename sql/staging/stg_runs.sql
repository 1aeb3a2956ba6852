-- Runs with their objective and times that a person can read.
CREATE OR REPLACE VIEW stg_runs AS
SELECT
    run_id,
    us_to_ts(created_us) AS created,
    us_to_ts(finished_us) AS finished,
    seconds_between(created_us, finished_us) AS duration_s,
    created_us,
    finished_us,
    policy,
    slo_of(settings) AS slo_s,
    seed,
    status,
    status_reason,
    trace,
    trace_sha256,
    evaluation_of(settings) IS NOT NULL AS evaluated
FROM runs;
