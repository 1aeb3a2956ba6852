-- When is the latency objective violated?

-- The objective of a run, in seconds, from its settings; 1 s when they name none.
CREATE OR REPLACE MACRO slo_of(settings) AS
    coalesce((settings ->> '$.slo_s')::DOUBLE, 1.0);

-- True for a timeout or an answer that came too late; NULL where nobody can say, such as a
-- request that was aborted: it was not fast and it is not counted as if it had been.
CREATE OR REPLACE MACRO violates(status, e2e_s, slo_s) AS
    CASE status WHEN 'timeout' THEN true WHEN 'ok' THEN e2e_s > slo_s END;
