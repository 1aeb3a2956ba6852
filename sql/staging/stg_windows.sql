-- One row a merge: what was commanded, what the learners did, and the window it occupied.
-- A window runs from the first learner's start to the last one's end. Where a learner never
-- finished, the planned length stands in for the end; without a plan the end is unknown.
CREATE OR REPLACE VIEW stg_windows AS
WITH
    -- A report that was sent twice counts once.
    reports AS (
        SELECT DISTINCT ON (run_id, "group", learner, merge_id, type, at_us) *
        FROM merges
    ),
    -- Learners that start anew count their steps anew, so an id like hmax-512 can come again.
    told AS (
        SELECT
            *,
            count(*) FILTER (WHERE type IN ('finished', 'skipped')) OVER (
                PARTITION BY run_id, "group", learner, merge_id
                ORDER BY at_us
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS occurrence
        FROM reports
    ),
    commanded AS (
        SELECT
            run_id,
            "group" AS merge_group,
            merge_id,
            min(at_us) AS commanded_us,
            min(at_step) AS at_step,
            min(moment_us) AS moment_us,
            max(window_s) AS planned_s,
            any_value(reason) AS reason,
            any_value(len(participants)) AS participants
        FROM commands
        WHERE type = 'merge'
        GROUP BY ALL
    ),
    reported AS (
        SELECT
            run_id,
            "group" AS merge_group,
            merge_id,
            occurrence,
            min(at_us) FILTER (WHERE type = 'started') AS started_us,
            max(at_us) FILTER (WHERE type = 'finished') AS finished_us,
            count(DISTINCT learner) FILTER (WHERE type IN ('accepted', 'started')) AS joined,
            count(DISTINCT learner) FILTER (WHERE type = 'finished') AS finished,
            count(DISTINCT learner) FILTER (WHERE type = 'skipped') AS skipped,
            min(step) FILTER (WHERE type = 'finished') AS step,
            count(DISTINCT step) FILTER (WHERE type = 'finished') AS steps,
            count(DISTINCT digest) AS digests,
            count(digest) AS digests_told,
            any_value(reason) FILTER (WHERE type = 'started') AS reason,
            sum(bytes_exchanged)::BIGINT AS bytes_exchanged
        FROM told
        GROUP BY ALL
    ),
    joined AS (
        SELECT
            run_id,
            merge_group,
            merge_id,
            c.commanded_us,
            c.at_step,
            c.moment_us,
            c.planned_s,
            coalesce(c.reason, m.reason) AS reason,
            coalesce(c.participants, m.joined) AS participants,
            m.started_us,
            m.finished_us,
            coalesce(m.finished, 0) AS finished,
            coalesce(m.skipped, 0) AS skipped,
            m.step,
            m.steps,
            m.digests,
            m.digests_told,
            m.bytes_exchanged
        FROM commanded AS c
        FULL JOIN reported AS m USING (run_id, merge_group, merge_id)
    )
SELECT
    run_id,
    merge_group,
    merge_id,
    reason,
    commanded_us,
    at_step,
    moment_us,
    step,
    planned_s,
    participants,
    finished,
    skipped,
    started_us,
    finished_us,
    finished > 0 AND finished >= participants AS complete,
    CASE
        WHEN finished > 0 AND moment_us IS NULL
            THEN steps = 1 AND step = coalesce(at_step, step)
    END AS same_step,
    CASE WHEN digests_told > 0 THEN digests = 1 AND digests_told >= finished END AS same_digest,
    bytes_exchanged,
    CASE
        WHEN started_us IS NULL THEN NULL
        WHEN finished > 0 AND finished >= participants THEN finished_us
        WHEN planned_s IS NOT NULL
            THEN greatest(finished_us, after_s(started_us, planned_s))
    END AS window_end_us
FROM joined;
