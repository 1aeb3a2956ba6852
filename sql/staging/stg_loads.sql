-- Load samples of the sidecars with readable times.
CREATE OR REPLACE VIEW stg_loads AS
SELECT
    run_id,
    sidecar,
    us_to_ts(at_us) AS sampled,
    at_us AS sampled_us,
    running,
    waiting,
    running + coalesce(waiting, 0) AS in_system,
    kv_cache_use,
    seq,
    dropped
FROM loads;
