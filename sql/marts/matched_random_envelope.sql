-- What would schedules with the same budget, placed at random, have cost?
CREATE OR REPLACE VIEW matched_random_envelope AS
SELECT
    run_id,
    serving_model,
    budget,
    count(*) AS draws,
    avg(cost) AS mean_cost,
    quantile_cont(cost, 0.05) AS p05_cost,
    quantile_cont(cost, 0.50) AS p50_cost,
    quantile_cont(cost, 0.95) AS p95_cost,
    min(cost) AS least_cost
FROM draws
GROUP BY run_id, serving_model, budget
ORDER BY run_id, serving_model, budget;
