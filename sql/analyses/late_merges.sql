-- Which merges were skipped, left unfinished or longer than planned, and why? One row a merge
-- Says nothing of late events: those are requests.late, counted in health. A command can be late,
-- too: then a learner was past its step, and skipped it with a reason that begins with `late`.
WITH reasons AS (
    SELECT
        run_id,
        "group" AS merge_group,
        merge_id,
        string_agg(DISTINCT reason, '; ' ORDER BY reason) AS why
    FROM merges
    WHERE type = 'skipped'
    GROUP BY ALL
)
SELECT
    run_id,
    merge_id,
    CASE
        WHEN complete THEN 'longer than planned'
        WHEN learners_finished = 0 AND learners_skipped > 0 AND started IS NULL THEN 'skipped'
        ELSE 'unfinished'
    END AS trouble,
    why,
    commanded,
    at_step,
    step,
    learners,
    learners_finished,
    learners_skipped,
    planned_s,
    seconds,
    seconds - planned_s AS over_plan_s
FROM merge_windows
LEFT JOIN reasons USING (run_id, merge_group, merge_id)
WHERE NOT coalesce(complete, false) OR seconds > planned_s
ORDER BY run_id, coalesce(started, commanded);
