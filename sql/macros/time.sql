-- How are integer microseconds shown to people?

-- Microseconds since the Unix epoch as a TIMESTAMP in UTC.
CREATE OR REPLACE MACRO us_to_ts(us) AS make_timestamp(us);

-- Seconds from one time to another.
CREATE OR REPLACE MACRO seconds_between(from_us, to_us) AS (to_us - from_us) / 1e6;

-- The time `seconds` after another, in microseconds.
CREATE OR REPLACE MACRO after_s(from_us, seconds) AS from_us + (seconds * 1e6)::BIGINT;

-- Seconds of event time in a second of wall time; NULL where the run's settings do not say.
CREATE OR REPLACE MACRO speed_of(settings) AS (settings ->> '$.testbed.speed')::DOUBLE;
