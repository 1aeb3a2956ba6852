-- Schedules drawn uniformly and independently, for every corridor and budget in stg_schedules:
--     FROM random_schedules(1, 10000)
-- One row a merge; `remaining` merges follow it. Runs of one corridor and budget share them.
-- A step goes to cell j with probability f(j) / sum of f over its reach, f(j) being the number of
-- ways to go on from j (stg_completions). With prefix sums of f as the rungs of a ladder, j is the
-- last one at or below a target drawn evenly between the ladder's rungs at the reach's two ends.
-- Where f falls, sums from the far end take their place, so that nothing cancels.
CREATE OR REPLACE MACRO random_schedules(seed, draws) AS TABLE
    WITH RECURSIVE
    shapes AS MATERIALIZED (
        SELECT DISTINCT corridor, budget FROM stg_schedules WHERE budget > 0
    ),
    cumulative AS MATERIALIZED (
        SELECT
            *,
            sum(ways) OVER upwards AS upto,
            sum(ways) OVER downwards AS onwards,
            arg_max(cell, ways) OVER (PARTITION BY corridor, remaining) AS peak
        FROM stg_completions
        WINDOW
            upwards AS (PARTITION BY corridor, remaining ORDER BY cell ROWS UNBOUNDED PRECEDING),
            downwards AS (
                PARTITION BY corridor, remaining ORDER BY cell DESC ROWS UNBOUNDED PRECEDING
            )
    ),
    rungs AS MATERIALIZED (
        SELECT corridor, remaining, false AS falling, cell,
            coalesce(lag(upto) OVER (PARTITION BY corridor, remaining ORDER BY cell), 0) AS rung
        FROM cumulative
        UNION ALL
        SELECT corridor, remaining, true, cell, -onwards FROM cumulative
    ),
    reaches AS MATERIALIZED (
        SELECT
            corridor,
            remaining,
            near.cell - corridor.min_gap_cells AS cell,
            near.cell > near.peak AS falling,
            CASE WHEN near.cell > near.peak THEN -near.onwards ELSE near.upto - near.ways END AS low,
            CASE WHEN near.cell > near.peak THEN far.ways - far.onwards ELSE far.upto END AS high
        FROM cumulative AS near
        INNER JOIN cumulative AS far USING (corridor, remaining)
        WHERE far.cell = least(
            near.cell - corridor.min_gap_cells + corridor.max_gap_cells,
            corridor.cells - corridor.window_cells
        )
    ),
    walk AS (
        SELECT corridor, budget, draw, budget AS remaining, 0::BIGINT AS cell
        FROM shapes, range(draws) AS numbered(draw)
        UNION ALL
        SELECT corridor, budget, draw, remaining, found AS cell
        FROM (
            SELECT
                *,
                max(rung_cell) OVER (
                    PARTITION BY corridor, remaining, falling
                    ORDER BY place, draw NULLS FIRST
                    ROWS UNBOUNDED PRECEDING
                ) AS found
            FROM (
                SELECT
                    corridor, remaining, falling, rung AS place, cell AS rung_cell,
                    NULL::BIGINT AS budget, NULL::BIGINT AS draw
                FROM rungs
                SEMI JOIN (
                    SELECT corridor, remaining - 1 AS remaining FROM walk
                ) AS now USING (corridor, remaining)
                UNION ALL
                SELECT
                    corridor, remaining, falling,
                    low + chance(seed, budget, draw, remaining) * (high - low), NULL,
                    budget, draw
                FROM (SELECT * REPLACE (remaining - 1 AS remaining) FROM walk WHERE remaining > 0)
                INNER JOIN reaches USING (corridor, remaining, cell)
                WHERE high > low
            )
        )
        WHERE draw IS NOT NULL
    )
    SELECT corridor, budget, draw, remaining, cell FROM walk WHERE remaining < budget;
