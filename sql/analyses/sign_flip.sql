-- Could the signs of the gains over the runs be luck? Exact two-sided p of each policy, up to 14 runs
-- If placement were worth nothing, a run's gain would be as likely to have the other sign. p is the
-- share of all 2^n patterns of signs whose sum is at least as far from 0 as the one seen, not
-- corrected for how many policies were tried. NULL beyond 14 runs.
WITH
    gains AS (
        SELECT
            coalesce(e ->> '$.name', 'live') AS evaluation,
            coalesce(e ->> '$.load', trace, g.run_id) AS load,
            g.policy,
            g.gain_pp,
            row_number() OVER (
                PARTITION BY evaluation, load, g.policy ORDER BY g.run_id
            ) - 1 AS place
        FROM placement_gain AS g
        INNER JOIN (SELECT *, evaluation_of(settings) AS e FROM runs) AS r USING (run_id)
        WHERE g.gain_pp IS NOT NULL
    ),
    seen AS (
        SELECT
            evaluation,
            load,
            policy,
            count(*) AS runs,
            avg(gain_pp) AS gain_pp,
            sum(gain_pp) AS total,
            sum(abs(gain_pp)) AS size
        FROM gains
        GROUP BY ALL
    ),
    sums AS (
        SELECT
            evaluation,
            load,
            policy,
            pattern,
            sum(CASE WHEN (pattern >> place) & 1 = 1 THEN -gain_pp ELSE gain_pp END) AS total
        FROM (
            SELECT evaluation, load, policy, unnest(range(1 << runs)) AS pattern
            FROM seen
            WHERE runs <= 14
        )
        INNER JOIN gains USING (evaluation, load, policy)
        GROUP BY ALL
    ),
    tested AS (
        SELECT
            evaluation,
            load,
            policy,
            -- Equal sums differ in their last digits by the order of addition: those are ties.
            avg((abs(s.total) >= abs(o.total) - 1e-12 * o.size)::INTEGER) AS p_value
        FROM sums AS s
        INNER JOIN seen AS o USING (evaluation, load, policy)
        GROUP BY ALL
    )
SELECT evaluation, load, policy, runs, gain_pp, p_value
FROM seen
LEFT JOIN tested USING (evaluation, load, policy)
ORDER BY evaluation, load, policy;
