-- Inner steps of the learners with readable times.
CREATE OR REPLACE VIEW stg_steps AS
SELECT
    run_id,
    learner,
    step,
    us_to_ts(at_us) AS ended,
    at_us AS ended_us,
    loss,
    tokens,
    step_time_s,
    update_norm,
    steps_since_merge,
    tokens_since_merge,
    network_pressure,
    checkpoint_pressure,
    memory_pressure
FROM learner_steps;
