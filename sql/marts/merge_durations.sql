-- How long did each learner take for each merge, and for what? One row a merge and learner
-- Seconds are of event time, which may run faster than the wall. No network moves more bytes for
-- that: rates are given for both.
CREATE OR REPLACE VIEW merge_durations AS
SELECT
    m.run_id,
    m."group" AS merge_group,
    m.merge_id,
    m.learner,
    m.step,
    us_to_ts(m.at_us) AS ended,
    m.seconds,
    m.exchange_s,
    m.checkpoint_s,
    m.seconds - m.exchange_s - m.checkpoint_s AS other_s,
    m.bytes_exchanged,
    m.checkpoint_bytes,
    m.bytes_exchanged / nullif(m.exchange_s, 0) AS exchange_bytes_per_event_s,
    m.checkpoint_bytes / nullif(m.checkpoint_s, 0) AS checkpoint_bytes_per_event_s,
    exchange_bytes_per_event_s * r.speed AS exchange_bytes_per_wall_s,
    checkpoint_bytes_per_event_s * r.speed AS checkpoint_bytes_per_wall_s,
    m.bytes_exchanged / nullif(m.parameters, 0) AS bytes_per_parameter
FROM merges AS m
LEFT JOIN (SELECT run_id, speed_of(settings) AS speed FROM runs) AS r USING (run_id)
WHERE m.type = 'finished'
ORDER BY m.run_id, m.at_us;
