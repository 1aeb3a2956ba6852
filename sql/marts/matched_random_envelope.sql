-- What did the schedules cost that an evaluation drew? One row a run and budget, of the table draws
-- These are the draws that its verdicts rest on. The analysis `envelope` draws its own from the
-- requests alone and should agree with them within sampling error.
CREATE OR REPLACE VIEW matched_random_envelope AS
SELECT
    run_id,
    serving_model,
    budget,
    count(*) AS draws,
    avg(cost) AS mean_cost,
    stddev_samp(cost) AS sd_cost,
    quantile_cont(cost, 0.05) AS p05_cost,
    quantile_cont(cost, 0.50) AS p50_cost,
    quantile_cont(cost, 0.95) AS p95_cost,
    min(cost) AS least_cost
FROM draws
GROUP BY run_id, serving_model, budget
ORDER BY run_id, serving_model, budget;
