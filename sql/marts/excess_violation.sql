-- How much more often was the objective violated than on the same trace without merges?
-- A live run is set beside the mean of the runs of that trace in which no merge began. One that
-- has none is left out; generated loads must agree in their seed. An evaluated run is its own
-- baseline: a request that a policy's window touches takes `slowdown` times as long, as the serving
-- model `overlap` assumes. Runs of other serving models are left out; placements.excess_pp has
-- their figure.
CREATE OR REPLACE VIEW excess_violation AS
WITH
    evaluated AS (
        SELECT
            run_id,
            trace,
            created_us,
            (e ->> '$.window_cells')::BIGINT * (e ->> '$.cell_us')::BIGINT AS window_us,
            e ->> '$.counting' = 'in_service' AS in_service,
            (e ->> '$.slowdown')::DOUBLE AS slowdown,
            slo_of(settings) AS slo_s
        FROM (SELECT *, evaluation_of(settings) AS e FROM runs)
        WHERE e ->> '$.counting' IS NOT NULL
    ),
    windows AS (
        SELECT run_id, policy, after_s(created_us, unnest(starts_s)) AS start_us
        FROM placements
        INNER JOIN evaluated USING (run_id)
    ),
    exposed AS (
        SELECT
            p.run_id,
            p.policy,
            p.budget,
            e.trace,
            e.window_us,
            e.slowdown,
            e.slo_s,
            q.arrival_us,
            q.e2e_s,
            -- The last start that can touch it: of those before its end, or by its arrival.
            CASE
                WHEN e.in_service AND q.at_us > q.arrival_us THEN q.at_us - 1 ELSE q.arrival_us
            END AS until_us
        FROM placements AS p
        INNER JOIN evaluated AS e USING (run_id)
        INNER JOIN stg_each_request AS q USING (run_id)
        WHERE q.arrival_us >= e.created_us
    ),
    assumed AS (
        SELECT
            x.run_id,
            x.policy,
            any_value(x.trace) AS trace,
            any_value(x.budget) AS merges,
            avg((
                x.e2e_s
                * CASE WHEN w.start_us + x.window_us > x.arrival_us THEN x.slowdown ELSE 1 END
                > x.slo_s
            )::INTEGER) AS violation_rate,
            avg((x.e2e_s > x.slo_s)::INTEGER) AS baseline_violation_rate
        FROM exposed AS x
        ASOF LEFT JOIN windows AS w
            ON x.run_id = w.run_id AND x.policy = w.policy AND x.until_us >= w.start_us
        GROUP BY x.run_id, x.policy
    ),
    rates AS (
        SELECT
            run_id,
            count(*) FILTER (WHERE violates) / nullif(count(violates), 0) AS violation_rate
        FROM stg_requests
        GROUP BY run_id
    ),
    merged AS (
        SELECT
            run_id,
            count(*) FILTER (WHERE finished > 0) AS merges,
            count(started_us) AS begun
        FROM stg_windows
        GROUP BY run_id
    ),
    scored AS (
        SELECT
            r.run_id,
            r.policy,
            r.trace,
            coalesce(r.trace_sha256, 'seed ' || r.seed) AS served,
            coalesce(m.merges, 0) AS merges,
            coalesce(m.begun, 0) AS begun,
            s.violation_rate
        FROM stg_runs AS r
        INNER JOIN rates AS s USING (run_id)
        LEFT JOIN merged AS m USING (run_id)
        WHERE NOT r.evaluated
    ),
    baseline AS (
        SELECT trace, served, avg(violation_rate) AS violation_rate
        FROM scored
        WHERE begun = 0
        GROUP BY trace, served
    ),
    measured AS (
        SELECT
            s.run_id,
            s.policy,
            s.trace,
            s.merges,
            s.violation_rate,
            b.violation_rate AS baseline_violation_rate
        FROM scored AS s
        INNER JOIN baseline AS b USING (trace, served)
        WHERE s.merges > 0
    )
SELECT
    run_id,
    policy,
    trace,
    merges,
    violation_rate,
    baseline_violation_rate,
    violation_rate - baseline_violation_rate AS excess_violation_rate
FROM (FROM measured UNION ALL BY NAME FROM assumed)
ORDER BY run_id, policy;
