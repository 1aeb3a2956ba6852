-- How long did each learner take for each merge, and for what?
CREATE OR REPLACE VIEW merge_durations AS
SELECT
    run_id,
    "group" AS merge_group,
    merge_id,
    learner,
    step,
    us_to_ts(at_us) AS ended,
    seconds,
    exchange_s,
    checkpoint_s,
    seconds - exchange_s - checkpoint_s AS other_s,
    bytes_exchanged,
    checkpoint_bytes,
    bytes_exchanged / nullif(exchange_s, 0) AS exchange_bytes_per_s,
    checkpoint_bytes / nullif(checkpoint_s, 0) AS checkpoint_bytes_per_s,
    bytes_exchanged / nullif(parameters, 0) AS bytes_per_parameter
FROM merges
WHERE type = 'finished'
ORDER BY run_id, at_us;
