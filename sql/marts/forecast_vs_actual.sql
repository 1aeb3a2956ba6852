-- How many arrivals did a policy expect in the next window, and how many came? One row a tick
-- What came is NULL while the log does not reach to the end of the window. A request counts once
-- its event is in the log: one that never ended is missing. The standard deviation is that of Poisson
-- counts under an uncertain rate.
CREATE OR REPLACE VIEW forecast_vs_actual AS
WITH
    arrivals AS (
        SELECT run_id, arrival_us, count(*) OVER (PARTITION BY run_id ORDER BY arrival_us) AS seen
        FROM requests
    ),
    reach AS (
        SELECT run_id, max(at_us) AS until_us
        FROM (
            SELECT run_id, at_us FROM requests
            UNION ALL
            SELECT run_id, at_us FROM loads
        )
        GROUP BY run_id
    ),
    ticks AS (
        SELECT *, after_s(decided_us, window_s) AS window_end_us
        FROM stg_decisions
        WHERE rate_per_s IS NOT NULL
    )
SELECT
    t.run_id,
    t.policy,
    t.active,
    t.decided,
    t.since_start_s,
    t.window_s,
    t.rate_per_s * t.window_s AS forecast,
    sqrt(t.rate_per_s * t.window_s + (t.rate_sd * t.window_s) ^ 2) AS forecast_sd,
    CASE
        WHEN t.window_end_us <= reach.until_us
            THEN coalesce(at_end.seen, 0) - coalesce(at_tick.seen, 0)
    END AS actual,
    actual - forecast AS error
FROM ticks AS t
LEFT JOIN reach ON t.run_id = reach.run_id
ASOF LEFT JOIN arrivals AS at_tick
    ON t.run_id = at_tick.run_id AND t.decided_us > at_tick.arrival_us
ASOF LEFT JOIN arrivals AS at_end
    ON t.run_id = at_end.run_id AND t.window_end_us > at_end.arrival_us
ORDER BY t.run_id, t.decided_us;
