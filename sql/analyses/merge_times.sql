-- How long do merges take, and where does the time go? Means, one row a learner
-- Seconds are of event time, which may run faster than the wall.
SELECT
    run_id,
    learner,
    count(*) AS merges,
    quantile_cont(seconds, 0.50) AS p50_s,
    quantile_cont(seconds, 0.95) AS p95_s,
    max(seconds) AS longest_s,
    avg(exchange_s) AS mean_exchange_s,
    avg(checkpoint_s) AS mean_checkpoint_s,
    sum(bytes_exchanged)::BIGINT AS bytes_exchanged,
    avg(exchange_bytes_per_event_s) AS mean_exchange_bytes_per_event_s,
    avg(exchange_bytes_per_wall_s) AS mean_exchange_bytes_per_wall_s
FROM merge_durations
GROUP BY run_id, learner
ORDER BY run_id, learner;
