-- How many rows does each table have?
SELECT 'bins' AS table_name, count(*) AS row_count FROM bins
UNION ALL
SELECT 'commands' AS table_name, count(*) AS row_count FROM commands
UNION ALL
SELECT 'dead_letters' AS table_name, count(*) AS row_count FROM dead_letters
UNION ALL
SELECT 'decisions' AS table_name, count(*) AS row_count FROM decisions
UNION ALL
SELECT 'draws' AS table_name, count(*) AS row_count FROM draws
UNION ALL
SELECT 'heartbeats' AS table_name, count(*) AS row_count FROM heartbeats
UNION ALL
SELECT 'incidents' AS table_name, count(*) AS row_count FROM incidents
UNION ALL
SELECT 'learner_steps' AS table_name, count(*) AS row_count FROM learner_steps
UNION ALL
SELECT 'loads' AS table_name, count(*) AS row_count FROM loads
UNION ALL
SELECT 'merges' AS table_name, count(*) AS row_count FROM merges
UNION ALL
SELECT 'offsets' AS table_name, count(*) AS row_count FROM offsets
UNION ALL
SELECT 'placements' AS table_name, count(*) AS row_count FROM placements
UNION ALL
SELECT 'requests' AS table_name, count(*) AS row_count FROM requests
UNION ALL
SELECT 'runs' AS table_name, count(*) AS row_count FROM runs
UNION ALL
SELECT 'verdicts' AS table_name, count(*) AS row_count FROM verdicts
ORDER BY table_name;
