-- In how many ways can a schedule come to a merge at each cell? One row a cell and merges made
-- The recursion of stg_completions from the other side: a_0 is 1 at cell 0 alone, and a_k(i) the sum
-- of a_(k-1)(i - g) over the gaps g of the corridor. `ways` * 2^`scale` is the number.
CREATE OR REPLACE VIEW stg_beginnings AS
WITH RECURSIVE
    corridors AS (
        SELECT corridor, max(budget) AS most FROM stg_schedules GROUP BY corridor
    ),
    beginnings AS (
        SELECT
            corridor,
            most,
            0::BIGINT AS made,
            unnest(range(corridor.cells - corridor.window_cells + 1)) AS cell,
            (cell = 0)::INTEGER::DOUBLE AS ways,
            0::BIGINT AS scale
        FROM corridors
        UNION ALL
        SELECT corridor, most, made + 1, cell, ways * pow(2.0, -doublings), scale + doublings
        FROM (
            SELECT
                *,
                floor(log2(nullif(max(ways) OVER (PARTITION BY corridor), 0)))::BIGINT AS doublings
            FROM (
                SELECT
                    corridor,
                    most,
                    made,
                    cell,
                    scale,
                    coalesce(sum(ways) OVER reach, 0) AS ways
                FROM beginnings
                WHERE made < most
                WINDOW reach AS (
                    PARTITION BY corridor
                    ORDER BY cell
                    RANGE BETWEEN corridor.max_gap_cells PRECEDING
                        AND corridor.min_gap_cells PRECEDING
                )
            )
        )
        WHERE doublings IS NOT NULL
    )
SELECT corridor, made, cell, ways, scale FROM beginnings;
