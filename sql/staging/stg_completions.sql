-- In how many ways can a schedule go on from a merge at each cell? One row a cell and merges to come
-- f_k(i) = sum of f_(k-1)(i + g) over the gaps g of the corridor; f_0(i) = 1 where a run may end
-- after a merge at i: its window ends within the run, and H_max forces nothing after it. A run
-- begins as if with a merge at cell 0. `ways` * 2^`scale` is the number: scaled, it never overflows.
CREATE OR REPLACE VIEW stg_completions AS
WITH RECURSIVE
    corridors AS (
        SELECT corridor, max(budget) AS most FROM stg_schedules GROUP BY corridor
    ),
    completions AS (
        SELECT
            corridor,
            most,
            0::BIGINT AS remaining,
            unnest(range(corridor.cells - corridor.window_cells + 1)) AS cell,
            (corridor.cells - cell <= corridor.max_gap_cells)::INTEGER::DOUBLE AS ways,
            0::BIGINT AS scale
        FROM corridors
        UNION ALL
        SELECT corridor, most, remaining + 1, cell, ways * pow(2.0, -doublings), scale + doublings
        FROM (
            SELECT
                *,
                floor(log2(nullif(max(ways) OVER (PARTITION BY corridor), 0)))::BIGINT AS doublings
            FROM (
                SELECT
                    corridor,
                    most,
                    remaining,
                    cell,
                    scale,
                    coalesce(sum(ways) OVER reach, 0) AS ways
                FROM completions
                WHERE remaining < most
                WINDOW reach AS (
                    PARTITION BY corridor
                    ORDER BY cell
                    RANGE BETWEEN corridor.min_gap_cells FOLLOWING
                        AND corridor.max_gap_cells FOLLOWING
                )
            )
        )
        WHERE doublings IS NOT NULL
    )
SELECT corridor, remaining, cell, ways, scale FROM completions;
