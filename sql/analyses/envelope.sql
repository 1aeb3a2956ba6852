-- What do 10,000 random schedules with as many merges cost, beside each policy's? Drawn and counted in SQL
-- Nothing that an evaluation wrote of costs or draws is looked at: the starts of the policy's
-- windows, the corridor and the requests are enough. Schedules are drawn uniformly by counting (the
-- macro random_schedules), seed 1; random_mean is exact (placement_gain), the rest is of the draws.
-- Of a live run only arrivals are counted, since its latencies already carry the merges' harm.
WITH drawn AS (
    SELECT s.run_id, d.budget, d.draw, sum(c.cost) AS cost
    FROM random_schedules(1, 10000) AS d
    INNER JOIN (SELECT DISTINCT run_id, corridor, budget FROM stg_schedules) AS s
        USING (corridor, budget)
    INNER JOIN stg_start_costs AS c ON s.run_id = c.run_id AND d.cell = c.cell
    GROUP BY s.run_id, d.budget, d.draw
)
SELECT
    g.run_id,
    g.policy,
    g.budget,
    g.log10_schedules,
    g.cost,
    g.random_mean,
    stddev_samp(d.cost) AS random_sd,
    quantile_cont(d.cost, 0.05) AS random_p05,
    min(d.cost) AS least_cost,
    100 * (count(*) FILTER (WHERE d.cost < g.cost) + 0.5 * count(*) FILTER (WHERE d.cost = g.cost))
        / nullif(count(d.cost), 0) AS percentile,
    g.gain,
    g.gain_pp
FROM placement_gain AS g
LEFT JOIN drawn AS d USING (run_id, budget)
GROUP BY ALL
ORDER BY g.run_id, g.policy;
