-- Where did H_max call for merges that nobody made, how often and why? One row a learner, reason and stretch between two merges
-- A learner that is alone tries again after each H_min: merge_windows leaves out what none began.
WITH
    told AS (
        SELECT
            *,
            count(*) FILTER (WHERE type = 'finished') OVER (
                PARTITION BY run_id, "group", learner ORDER BY at_us
            ) AS merges_before
        FROM (
            SELECT DISTINCT ON (run_id, "group", learner, merge_id, type, at_us) *
            FROM merges
        )
    ),
    commanded AS (
        SELECT DISTINCT run_id, "group", merge_id FROM commands WHERE type = 'merge'
    )
SELECT
    run_id,
    "group" AS merge_group,
    learner,
    reason AS why,
    merges_before,
    count(*) AS attempts,
    us_to_ts(min(at_us)) AS first_tried,
    us_to_ts(max(at_us)) AS last_tried,
    min(step) AS first_step,
    max(step) AS last_step
FROM told
ANTI JOIN commanded USING (run_id, "group", merge_id)
WHERE type = 'skipped'
GROUP BY ALL
ORDER BY run_id, merge_group, first_tried, learner;
