-- Which requests does a window harm: those that arrive in it, or are in service during it?
-- Every interval is half open, [start, end), in integer microseconds.

CREATE OR REPLACE MACRO arrives_in(arrival_us, window_start_us, window_end_us) AS
    arrival_us >= window_start_us AND arrival_us < window_end_us;

CREATE OR REPLACE MACRO is_harmed(arrival_us, end_us, window_start_us, window_end_us) AS
    arrival_us < window_end_us AND (end_us > window_start_us OR arrival_us >= window_start_us);

-- The overlap cost of one window that was not necessarily run:
--     FROM overlap_cost('live', 1700000000000000, 8.0)
CREATE OR REPLACE MACRO overlap_cost(run, start_us, window_s) AS TABLE
    SELECT
        count(*) FILTER (
            WHERE arrives_in(arrival_us, start_us, start_us + (window_s * 1e6)::BIGINT)
        ) AS arrived,
        count(*) FILTER (WHERE arrival_us < start_us) AS in_service,
        count(*) AS cost_requests
    FROM requests
    WHERE run_id = run
        AND is_harmed(arrival_us, at_us, start_us, start_us + (window_s * 1e6)::BIGINT);
