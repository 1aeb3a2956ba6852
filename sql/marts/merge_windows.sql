-- What became of each merge: when, how long, how many bytes, and did every learner agree? One row a merge
-- Not of what H_max called for and no learner began: that is in the analysis forced_in_vain.
CREATE OR REPLACE VIEW merge_windows AS
SELECT
    run_id,
    merge_group,
    merge_id,
    reason,
    us_to_ts(commanded_us) AS commanded,
    us_to_ts(started_us) AS started,
    us_to_ts(finished_us) AS ended,
    seconds_between(commanded_us, started_us) AS lead_s,
    seconds_between(started_us, finished_us) AS seconds,
    planned_s,
    at_step,
    us_to_ts(moment_us) AS moment,
    step,
    participants AS learners,
    finished AS learners_finished,
    skipped AS learners_skipped,
    bytes_exchanged,
    complete,
    same_step,
    same_digest
FROM stg_windows
WHERE commanded_us IS NOT NULL OR participants > 0 OR finished > 0
ORDER BY run_id, coalesce(started_us, commanded_us);
