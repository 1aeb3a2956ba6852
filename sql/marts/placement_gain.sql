-- How far below random schedules with as many merges does each policy lie? Exact; one row a run and policy
-- Counted anew from the requests: nothing that an evaluation wrote of costs is looked at. The mean
-- is over all schedules that the corridor allows, none drawn: how often one of them begins a window
-- at a cell, times what that window costs. Of a live run only arrivals are counted (stg_schedules).
-- NULL where no schedule of that budget keeps the corridor.
CREATE OR REPLACE VIEW placement_gain AS
WITH
    shapes AS (SELECT DISTINCT corridor, budget FROM stg_schedules),
    totals AS (
        SELECT s.corridor, s.budget, c.ways, c.scale
        FROM shapes AS s
        INNER JOIN stg_completions AS c
            ON s.corridor = c.corridor AND s.budget = c.remaining AND c.cell = 0
        WHERE c.ways > 0
    ),
    begun AS (
        SELECT
            t.corridor,
            t.budget,
            b.cell,
            sum(b.ways * c.ways / t.ways * pow(2.0, b.scale + c.scale - t.scale)) AS share
        FROM totals AS t
        INNER JOIN stg_beginnings AS b
            ON t.corridor = b.corridor AND b.made BETWEEN 1 AND t.budget
        INNER JOIN stg_completions AS c
            ON t.corridor = c.corridor AND c.remaining = t.budget - b.made AND b.cell = c.cell
        WHERE b.ways > 0 AND c.ways > 0
        GROUP BY t.corridor, t.budget, b.cell
    ),
    random AS (
        SELECT s.run_id, s.budget, sum(b.share * c.cost) AS random_mean
        FROM (SELECT DISTINCT run_id, corridor, budget FROM stg_schedules) AS s
        INNER JOIN begun AS b USING (corridor, budget)
        INNER JOIN stg_start_costs AS c USING (run_id, cell)
        GROUP BY s.run_id, s.budget
    ),
    own AS (
        SELECT p.run_id, p.policy, sum(c.cost) AS cost
        FROM (
            SELECT run_id, policy, unnest(start_cells) AS cell FROM stg_schedules
        ) AS p
        INNER JOIN stg_start_costs AS c USING (run_id, cell)
        GROUP BY p.run_id, p.policy
    ),
    arrivals AS (
        SELECT s.run_id, count(*) AS requests
        FROM (SELECT DISTINCT run_id, begin_us, cell_us, corridor FROM stg_schedules) AS s
        INNER JOIN stg_requests AS q USING (run_id)
        WHERE q.arrival_us >= s.begin_us
            AND q.arrival_us < s.begin_us + s.corridor.cells * s.cell_us
        GROUP BY s.run_id
    )
SELECT
    s.run_id,
    s.policy,
    s.counting,
    s.budget,
    log10(t.ways) + t.scale * log10(2) AS log10_schedules,
    a.requests,
    o.cost,
    r.random_mean,
    (r.random_mean - o.cost) / nullif(r.random_mean, 0) AS gain,
    100 * (r.random_mean - o.cost) / a.requests AS gain_pp
FROM stg_schedules AS s
LEFT JOIN totals AS t USING (corridor, budget)
LEFT JOIN random AS r USING (run_id, budget)
LEFT JOIN own AS o USING (run_id, policy)
LEFT JOIN arrivals AS a USING (run_id)
ORDER BY s.run_id, s.policy;
