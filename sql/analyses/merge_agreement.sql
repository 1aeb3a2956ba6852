-- Was every commanded merge finished by every learner, at the same step, with equal weights? Counts, one row a run
SELECT
    run_id,
    count(*) AS merges,
    count(*) FILTER (WHERE commanded IS NOT NULL) AS commanded,
    count(*) FILTER (WHERE complete) AS complete,
    count(*) FILTER (WHERE same_step) AS same_step,
    count(*) FILTER (WHERE same_digest) AS same_digest,
    avg(lead_s) AS mean_lead_s,
    avg(seconds) AS mean_seconds,
    sum(bytes_exchanged)::BIGINT AS bytes_exchanged
FROM merge_windows
GROUP BY run_id
ORDER BY run_id;
