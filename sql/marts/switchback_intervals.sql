-- What did each corridor interval of a switchback do? One row an interval: its coin, its merge, its harm
-- An interval runs from one merge to the next; the coin gave it to the policy or to a moment drawn
-- as it began, and it counts there whatever ended it: H_max, a person, a fallback. Its merge is the
-- first window that opened in it. `settled` once the next interval's merge has begun or the run is
-- over: requests harmed by then are all known. An interval without a window has no harm to tell.
CREATE OR REPLACE VIEW switchback_intervals AS
WITH
    tossed AS (
        SELECT
            run_id,
            "group" AS merge_group,
            interval_number,
            any_value(arm) AS arm,
            any_value(policy_share) AS policy_share,
            any_value(drawn_gap_steps) AS drawn_gap_steps,
            min(at_us) AS began_us
        FROM decisions
        WHERE active AND arm IS NOT NULL
        GROUP BY ALL
    ),
    bounded AS (
        SELECT
            *,
            coalesce(
                lead(began_us) OVER (PARTITION BY run_id, merge_group ORDER BY interval_number),
                9223372036854775807
            ) AS until_us
        FROM tossed
    ),
    opened AS (
        SELECT
            b.run_id,
            b.merge_group,
            b.interval_number,
            min_by(w.merge_id, w.started_us) AS merge_id,
            min_by(w.reason, w.started_us) AS reason,
            min(w.started_us) AS started_us,
            min_by(w.window_end_us, w.started_us) AS window_end_us
        FROM bounded AS b
        INNER JOIN stg_windows AS w
            ON b.run_id = w.run_id
            AND b.merge_group = w.merge_group
            AND w.started_us >= b.began_us
            AND w.started_us < b.until_us
        GROUP BY ALL
    ),
    harmed AS (
        SELECT
            o.run_id,
            o.merge_group,
            o.interval_number,
            count(*) FILTER (
                WHERE arrives_in(q.arrival_us, o.started_us, o.window_end_us)
            ) AS arriving,
            count(*) AS in_service,
            count(*) FILTER (WHERE q.violates) AS violations
        FROM opened AS o
        INNER JOIN stg_requests AS q
            ON o.run_id = q.run_id
            AND q.arrival_us < o.window_end_us
            AND q.ended_us >= o.started_us
            AND is_harmed(q.arrival_us, q.ended_us, o.started_us, o.window_end_us)
        GROUP BY ALL
    )
SELECT
    b.run_id,
    b.merge_group,
    b.interval_number,
    b.arm,
    b.policy_share,
    b.drawn_gap_steps,
    b.began_us,
    o.merge_id,
    o.reason,
    o.started_us,
    o.window_end_us,
    o.window_end_us IS NOT NULL AND (
        r.status <> 'running' OR max(o.started_us) OVER (
            PARTITION BY b.run_id, b.merge_group
            ORDER BY b.interval_number
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) IS NOT NULL
    ) AS settled,
    CASE WHEN o.window_end_us IS NOT NULL THEN coalesce(h.arriving, 0) END AS arriving,
    CASE WHEN o.window_end_us IS NOT NULL THEN coalesce(h.in_service, 0) END AS in_service,
    CASE WHEN o.window_end_us IS NOT NULL THEN coalesce(h.violations, 0) END AS violations
FROM bounded AS b
INNER JOIN runs AS r USING (run_id)
LEFT JOIN opened AS o USING (run_id, merge_group, interval_number)
LEFT JOIN harmed AS h USING (run_id, merge_group, interval_number)
ORDER BY b.run_id, b.merge_group, b.interval_number;
