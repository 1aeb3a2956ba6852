-- What a window costs that begins at each cell of a run: requests that it touches.
-- Arrivals before its end, less those that were gone by its start. `arriving` counts a request as
-- gone once it has arrived, `in_service` once it has ended: so those in service as the window opens
-- count, and those of the stretch before the run that still are. Same rule as is_harmed.
CREATE OR REPLACE VIEW stg_start_costs AS
WITH
    grids AS (SELECT DISTINCT run_id, counting, begin_us, cell_us, corridor FROM stg_schedules),
    placed AS (
        SELECT
            run_id,
            greatest(0, 1 + floor((q.arrival_us - begin_us) / cell_us)::BIGINT) AS arrived_by,
            CASE
                WHEN counting = 'in_service' AND q.at_us > q.arrival_us
                    THEN ceil((q.at_us - begin_us) / cell_us)::BIGINT
                ELSE arrived_by
            END AS gone_by
        FROM stg_each_request AS q
        INNER JOIN grids USING (run_id)
    ),
    changes AS (
        SELECT run_id, edge, sum(arrived) AS arrived, sum(gone) AS gone
        FROM (
            SELECT run_id, arrived_by AS edge, 1 AS arrived, 0 AS gone FROM placed
            UNION ALL
            SELECT run_id, greatest(0, gone_by), 0, 1 FROM placed
            UNION ALL
            SELECT run_id, unnest(range(corridor.cells + 1)), 0, 0 FROM grids
        )
        GROUP BY run_id, edge
    ),
    edges AS (
        SELECT
            run_id,
            edge,
            sum(arrived) OVER so_far AS arrived,
            sum(gone) OVER so_far AS gone
        FROM changes
        WINDOW so_far AS (PARTITION BY run_id ORDER BY edge)
    )
SELECT run_id, low.edge AS cell, (high.arrived - low.gone)::BIGINT AS cost
FROM edges AS low
INNER JOIN grids USING (run_id)
INNER JOIN edges AS high USING (run_id)
WHERE high.edge = low.edge + corridor.window_cells
    AND high.edge <= corridor.cells;
