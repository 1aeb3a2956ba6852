-- Every request once, those included that arrived before an evaluated run and were in service then.
-- One that came again after its bin had closed is in the log twice, and counts once. `carried`:
-- it belongs to the stretch before the run; only what a window costs looks at it.
CREATE OR REPLACE VIEW stg_each_request AS
SELECT
    q.* EXCLUDE (v, topic_partition, topic_offset, extra),
    coalesce(r.evaluated AND q.arrival_us < r.created_us, false) AS carried
FROM requests AS q
LEFT JOIN (
    SELECT run_id, created_us, evaluation_of(settings) IS NOT NULL AS evaluated FROM runs
) AS r USING (run_id)
QUALIFY row_number() OVER (PARTITION BY q.run_id, q.sidecar, q.id, q.arrival_us ORDER BY q.late) = 1;
