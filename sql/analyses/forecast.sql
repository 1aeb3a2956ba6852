-- How good was the forecast of arrivals? Its errors, one row a policy
SELECT
    run_id,
    policy,
    count(actual) AS ticks,
    avg(actual) AS mean_actual,
    avg(forecast) FILTER (WHERE actual IS NOT NULL) AS mean_forecast,
    avg(error) AS bias,
    avg(abs(error)) AS mean_abs_error,
    sqrt(avg(error ^ 2)) AS rms_error,
    avg((abs(error) <= 2 * forecast_sd)::INT) AS share_within_2_sd
FROM forecast_vs_actual
GROUP BY run_id, policy
ORDER BY run_id, policy;
