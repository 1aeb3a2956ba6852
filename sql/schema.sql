-- The run log's tables. Column names are those of the event types; times are integer microseconds
-- since the Unix epoch (*_us), durations are seconds (*_s), and NULL means unknown, never 0.
-- No keys and no indexes: they would slow the inserts of the hot path.
-- By hand: duckdb run.duckdb < sql/schema.sql

CREATE TABLE schema_info (
    version INTEGER
);
COMMENT ON TABLE schema_info IS 'The version of these tables.';
COMMENT ON COLUMN schema_info.version IS 'raised when a table changes';

CREATE TABLE runs (
    run_id VARCHAR,
    created_us BIGINT,
    finished_us BIGINT,
    policy VARCHAR,
    settings JSON,
    versions JSON,
    seed BIGINT,
    status VARCHAR,
    status_reason VARCHAR,
    trace VARCHAR,
    trace_sha256 VARCHAR
);
COMMENT ON TABLE runs IS 'One row a run.';
COMMENT ON COLUMN runs.run_id IS 'name of the run';
COMMENT ON COLUMN runs.created_us IS
    'when the run began, event time, microseconds since the Unix epoch';
COMMENT ON COLUMN runs.finished_us IS 'when it ended, event time; NULL while it runs';
COMMENT ON COLUMN runs.policy IS 'the policy that commands, NULL when there is none';
COMMENT ON COLUMN runs.settings IS
    'every setting, as JSON; slo_s is the latency objective in seconds; evaluation says how slackwater evaluate scored the run, and is missing in live runs';
COMMENT ON COLUMN runs.versions IS 'versions of Slackwater, Python and libraries, as JSON';
COMMENT ON COLUMN runs.seed IS 'seed of every random number';
COMMENT ON COLUMN runs.status IS 'running, complete or failed; complete only after the last commit';
COMMENT ON COLUMN runs.status_reason IS 'why it failed, NULL otherwise';
COMMENT ON COLUMN runs.trace IS 'name of the trace or of the generated regime';
COMMENT ON COLUMN runs.trace_sha256 IS 'SHA-256 of the trace file, NULL when it was generated';

CREATE TABLE requests (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    sidecar VARCHAR,
    id VARCHAR,
    tenant VARCHAR,
    arrival_us BIGINT,
    status VARCHAR,
    ttft_s DOUBLE,
    e2e_s DOUBLE,
    queue_s DOUBLE,
    prefill_s DOUBLE,
    decode_s DOUBLE,
    prompt_tokens BIGINT,
    output_tokens BIGINT,
    late BOOLEAN,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE requests IS 'One row a finished request of a sidecar.';
COMMENT ON COLUMN requests.v IS 'schema version of the event';
COMMENT ON COLUMN requests.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN requests.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN requests.sidecar IS 'the latency-sensitive server';
COMMENT ON COLUMN requests.id IS 'the request''s own identifier';
COMMENT ON COLUMN requests.tenant IS 'whose request it was, NULL if unknown';
COMMENT ON COLUMN requests.arrival_us IS 'arrival at the server, microseconds since the Unix epoch';
COMMENT ON COLUMN requests.status IS 'ok, aborted, timeout or error';
COMMENT ON COLUMN requests.ttft_s IS 'arrival to first token, seconds';
COMMENT ON COLUMN requests.e2e_s IS
    'arrival to end, queueing included, seconds; NULL unless it ended well';
COMMENT ON COLUMN requests.queue_s IS 'time spent waiting, seconds';
COMMENT ON COLUMN requests.prefill_s IS 'time of the prefill, seconds';
COMMENT ON COLUMN requests.decode_s IS 'time of the decode, seconds';
COMMENT ON COLUMN requests.prompt_tokens IS 'tokens of the prompt';
COMMENT ON COLUMN requests.output_tokens IS 'tokens generated';
COMMENT ON COLUMN requests.late IS
    'true if the event came after its bin had closed, so that no decision saw it counted; says nothing of how long the request took; NULL if nobody said';
COMMENT ON COLUMN requests.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN requests.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN requests.extra IS 'fields that the schema does not know, NULL if there were none';

CREATE TABLE loads (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    sidecar VARCHAR,
    running BIGINT,
    waiting BIGINT,
    kv_cache_use DOUBLE,
    seq BIGINT,
    dropped BIGINT,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE loads IS 'One row a periodic sample of a sidecar; also the sign that it is alive.';
COMMENT ON COLUMN loads.v IS 'schema version of the event';
COMMENT ON COLUMN loads.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN loads.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN loads.sidecar IS 'the latency-sensitive server';
COMMENT ON COLUMN loads.running IS 'requests in service; where waiting is NULL, the queue too';
COMMENT ON COLUMN loads.waiting IS
    'requests in the queue; NULL where the source cannot tell them from those in service';
COMMENT ON COLUMN loads.kv_cache_use IS 'share of the KV cache in use, 0 to 1';
COMMENT ON COLUMN loads.seq IS 'number of this sample; a hole in the numbers is a sample lost';
COMMENT ON COLUMN loads.dropped IS 'events that the sidecar had to drop so far';
COMMENT ON COLUMN loads.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN loads.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN loads.extra IS 'fields that the schema does not know, NULL if there were none';

CREATE TABLE learner_steps (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    learner VARCHAR,
    step BIGINT,
    loss DOUBLE,
    tokens BIGINT,
    step_time_s DOUBLE,
    update_norm DOUBLE,
    steps_since_merge BIGINT,
    tokens_since_merge BIGINT,
    network_pressure DOUBLE,
    checkpoint_pressure DOUBLE,
    memory_pressure DOUBLE,
    epoch BIGINT,
    reports_sent BIGINT,
    "group" VARCHAR,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE learner_steps IS 'One row an inner step of a learner.';
COMMENT ON COLUMN learner_steps.v IS 'schema version of the event';
COMMENT ON COLUMN learner_steps.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN learner_steps.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN learner_steps.learner IS 'the DiLoCo learner';
COMMENT ON COLUMN learner_steps.step IS 'inner steps done since the start';
COMMENT ON COLUMN learner_steps.loss IS 'training loss, NULL if not reported';
COMMENT ON COLUMN learner_steps.tokens IS 'tokens of this step';
COMMENT ON COLUMN learner_steps.step_time_s IS 'how long the step took, seconds';
COMMENT ON COLUMN learner_steps.update_norm IS 'norm of the parameter update';
COMMENT ON COLUMN learner_steps.steps_since_merge IS 'inner steps since the last merge';
COMMENT ON COLUMN learner_steps.tokens_since_merge IS 'tokens since the last merge';
COMMENT ON COLUMN learner_steps.network_pressure IS '0 idle to 1 saturated';
COMMENT ON COLUMN learner_steps.checkpoint_pressure IS '0 idle to 1 saturated';
COMMENT ON COLUMN learner_steps.memory_pressure IS '0 idle to 1 saturated';
COMMENT ON COLUMN learner_steps.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN learner_steps.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN learner_steps.extra IS
    'fields that the schema does not know, NULL if there were none';
COMMENT ON COLUMN learner_steps.epoch IS 'merges that its shared weights have been through';
COMMENT ON COLUMN learner_steps.reports_sent IS 'merge reports sent before this event';
COMMENT ON COLUMN learner_steps."group" IS 'the merge group, NULL where it is the only one';

CREATE TABLE heartbeats (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    learner VARCHAR,
    "final" BOOLEAN,
    reports_sent BIGINT,
    "group" VARCHAR,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE heartbeats IS 'One row a sign of life of a learner that had nothing else to say; ticks depend on them.';
COMMENT ON COLUMN heartbeats.v IS 'schema version of the event';
COMMENT ON COLUMN heartbeats.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN heartbeats.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN heartbeats.learner IS 'the DiLoCo learner';
COMMENT ON COLUMN heartbeats."final" IS 'true when the learner leaves for good';
COMMENT ON COLUMN heartbeats.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN heartbeats.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN heartbeats.extra IS
    'fields that the schema does not know, NULL if there were none';
COMMENT ON COLUMN heartbeats.reports_sent IS 'merge reports sent before this event';
COMMENT ON COLUMN heartbeats."group" IS 'the merge group, NULL where it is the only one';

CREATE TABLE bins (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    "group" VARCHAR,
    "partition" BIGINT,
    bin_s DOUBLE,
    watermarks_us MAP(VARCHAR, BIGINT),
    "rows" STRUCT(
        sidecar VARCHAR, start_us BIGINT, finished BIGINT, failed BIGINT, prompt_tokens BIGINT,
        output_tokens BIGINT, e2e_sum_s DOUBLE, samples BIGINT, in_system BIGINT,
        sample_us BIGINT, finished_after_sample BIGINT, late BIGINT
    )[],
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE bins IS 'One row a message of closed time bins of one requests partition.';
COMMENT ON COLUMN bins.v IS 'schema version of the event';
COMMENT ON COLUMN bins.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN bins.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN bins."group" IS 'the merge group';
COMMENT ON COLUMN bins."partition" IS 'the requests partition that was counted';
COMMENT ON COLUMN bins.bin_s IS 'width of a bin, seconds';
COMMENT ON COLUMN bins.watermarks_us IS
    'for each sidecar, up to when its bins are complete, microseconds since the Unix epoch';
COMMENT ON COLUMN bins."rows" IS 'what each sidecar showed in each bin; see the view stg_bins';
COMMENT ON COLUMN bins.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN bins.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN bins.extra IS 'fields that the schema does not know, NULL if there were none';

CREATE TABLE decisions (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    "group" VARCHAR,
    policy VARCHAR,
    active BOOLEAN,
    action VARCHAR,
    reason VARCHAR,
    merge_id VARCHAR,
    at_step BIGINT,
    moment_us BIGINT,
    step BIGINT,
    first_reachable_step BIGINT,
    gap_steps BIGINT,
    gap_s DOUBLE,
    step_time_s DOUBLE,
    window_s DOUBLE,
    learners BIGINT,
    rate_per_s DOUBLE,
    rate_sd DOUBLE,
    in_flight DOUBLE,
    signal_age_s DOUBLE,
    stale VARCHAR[],
    score DOUBLE,
    threshold DOUBLE,
    terms MAP(VARCHAR, DOUBLE),
    candidates STRUCT(
        first_us BIGINT, step_s DOUBLE, overlap DOUBLE[], overlap_sd DOUBLE[]
    ),
    interval_number BIGINT,
    arm VARCHAR,
    policy_share DOUBLE,
    drawn_gap_steps BIGINT,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE decisions IS 'One row a tick of a policy: all it saw and what it chose.';
COMMENT ON COLUMN decisions.v IS 'schema version of the event';
COMMENT ON COLUMN decisions.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN decisions.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN decisions."group" IS 'the merge group';
COMMENT ON COLUMN decisions.policy IS 'name of the policy';
COMMENT ON COLUMN decisions.active IS
    'true for the policy that commands, false for one that only looks on';
COMMENT ON COLUMN decisions.action IS 'merge or wait';
COMMENT ON COLUMN decisions.reason IS
    'why: the policy''s own word, or a safeguard''s: h_max, h_min, paused, merge_now, harm_bound, signal_stale, load_unknown and others (docs/safeguards.md); signal_stale:POLICY:WORD is a fallback''s';
COMMENT ON COLUMN decisions.merge_id IS 'the merge it commanded, NULL when it waited';
COMMENT ON COLUMN decisions.at_step IS 'inner step at which the learners are to merge, NULL where a moment is named';
COMMENT ON COLUMN decisions.moment_us IS
    'moment from which each learner is to merge at its own next step, NULL where at_step is for all';
COMMENT ON COLUMN decisions.step IS 'largest step reported by a learner';
COMMENT ON COLUMN decisions.first_reachable_step IS
    'first inner step that a command sent at the tick reaches every learner before';
COMMENT ON COLUMN decisions.gap_steps IS
    'inner steps since the last merge, by the learners'' reports';
COMMENT ON COLUMN decisions.gap_s IS 'the same gap in seconds, event time';
COMMENT ON COLUMN decisions.step_time_s IS 'measured time of one inner step, seconds';
COMMENT ON COLUMN decisions.window_s IS 'length of the window it reckoned with, seconds';
COMMENT ON COLUMN decisions.learners IS 'learners known';
COMMENT ON COLUMN decisions.rate_per_s IS
    'forecast of arrivals, requests per second; NULL when it cannot tell';
COMMENT ON COLUMN decisions.rate_sd IS 'standard deviation of that forecast, requests per second';
COMMENT ON COLUMN decisions.in_flight IS 'requests in service or waiting';
COMMENT ON COLUMN decisions.signal_age_s IS 'age of the oldest signal it used, seconds';
COMMENT ON COLUMN decisions.stale IS 'sidecars and learners whose signal was too old';
COMMENT ON COLUMN decisions.score IS 'the policy''s score';
COMMENT ON COLUMN decisions.threshold IS 'what the score was held against';
COMMENT ON COLUMN decisions.terms IS 'the parts of the score by name';
COMMENT ON COLUMN decisions.candidates IS
    'the windows it weighed: starts first_us + i * step_s, expected overlap cost of each in requests and its standard deviation';
COMMENT ON COLUMN decisions.interval_number IS
    'number of the corridor interval in a switchback, from 0; NULL without one';
COMMENT ON COLUMN decisions.arm IS
    'whom the coin gave the interval to: policy or random; NULL without a switchback';
COMMENT ON COLUMN decisions.policy_share IS
    'probability with which the coin gives an interval to the policy';
COMMENT ON COLUMN decisions.drawn_gap_steps IS
    'inner steps from the last merge to the moment drawn as the interval began; random arm only';
COMMENT ON COLUMN decisions.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN decisions.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN decisions.extra IS
    'fields that the schema does not know, NULL if there were none';

CREATE TABLE commands (
    "type" VARCHAR,
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    "group" VARCHAR,
    merge_id VARCHAR,
    at_step BIGINT,
    moment_us BIGINT,
    deadline_us BIGINT,
    window_s DOUBLE,
    reason VARCHAR,
    participants VARCHAR[],
    epoch BIGINT,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE commands IS 'One row a command to the learners.';
COMMENT ON COLUMN commands."type" IS 'merge, pause, resume or merge_now';
COMMENT ON COLUMN commands.v IS 'schema version of the event';
COMMENT ON COLUMN commands.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN commands.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN commands."group" IS 'the merge group';
COMMENT ON COLUMN commands.merge_id IS 'name of the merge; NULL unless type is merge';
COMMENT ON COLUMN commands.at_step IS 'inner step at which to merge, NULL where a moment is named';
COMMENT ON COLUMN commands.moment_us IS
    'moment from which each learner is to merge at its own next step, NULL where at_step is for all';
COMMENT ON COLUMN commands.deadline_us IS
    'worthless after this time, microseconds since the Unix epoch';
COMMENT ON COLUMN commands.window_s IS
    'planned length of the window, seconds; merges may take longer, see late_merges';
COMMENT ON COLUMN commands.reason IS 'why the merge was commanded';
COMMENT ON COLUMN commands.participants IS 'learners that are to take part';
COMMENT ON COLUMN commands.epoch IS
    'merges that the learners'' shared weights must have been through, NULL for any';
COMMENT ON COLUMN commands.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN commands.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN commands.extra IS 'fields that the schema does not know, NULL if there were none';

CREATE TABLE merges (
    "type" VARCHAR,
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    "group" VARCHAR,
    learner VARCHAR,
    merge_id VARCHAR,
    step BIGINT,
    reason VARCHAR,
    moment_us BIGINT,
    seconds DOUBLE,
    exchange_s DOUBLE,
    checkpoint_s DOUBLE,
    bytes_exchanged BIGINT,
    checkpoint_bytes BIGINT,
    parameters BIGINT,
    digest VARCHAR,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE merges IS 'One row a phase of a merge at one learner.';
COMMENT ON COLUMN merges."type" IS 'accepted, started, finished or skipped';
COMMENT ON COLUMN merges.v IS 'schema version of the event';
COMMENT ON COLUMN merges.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN merges.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN merges."group" IS 'the merge group';
COMMENT ON COLUMN merges.learner IS 'the DiLoCo learner';
COMMENT ON COLUMN merges.merge_id IS 'name of the merge';
COMMENT ON COLUMN merges.step IS 'the learner''s inner step';
COMMENT ON COLUMN merges.reason IS
    'why, where there is something to say; of skipped the first word is the cause: late (the command came when that step was past), expired (its deadline was), no_commit (a peer kept silent), peer_skipped, corridor, paused, ...';
COMMENT ON COLUMN merges.moment_us IS
    'moment of the command that was accepted, NULL where it names a step';
COMMENT ON COLUMN merges.seconds IS 'whole merge at this learner, seconds; finished only';
COMMENT ON COLUMN merges.exchange_s IS 'all-reduce, seconds';
COMMENT ON COLUMN merges.checkpoint_s IS 'checkpoint written and synced, seconds';
COMMENT ON COLUMN merges.bytes_exchanged IS 'payload this learner put into the all-reduce, bytes';
COMMENT ON COLUMN merges.checkpoint_bytes IS 'size of the checkpoint, bytes';
COMMENT ON COLUMN merges.parameters IS 'parameters of the model';
COMMENT ON COLUMN merges.digest IS
    'digest of the global weights after the outer step; equal on all learners';
COMMENT ON COLUMN merges.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN merges.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN merges.extra IS 'fields that the schema does not know, NULL if there were none';

CREATE TABLE dead_letters (
    v INTEGER,
    run_id VARCHAR,
    at_us BIGINT,
    raw BLOB,
    error VARCHAR,
    topic VARCHAR,
    "partition" BIGINT,
    "offset" BIGINT,
    topic_partition INTEGER,
    topic_offset BIGINT,
    extra JSON
);
COMMENT ON TABLE dead_letters IS 'One row a piece of bytes that could not be read as an event.';
COMMENT ON COLUMN dead_letters.v IS 'schema version of the event';
COMMENT ON COLUMN dead_letters.run_id IS 'the run that the event belongs to';
COMMENT ON COLUMN dead_letters.at_us IS
    'when the event became observable at its source, microseconds since the Unix epoch';
COMMENT ON COLUMN dead_letters.raw IS 'the bytes';
COMMENT ON COLUMN dead_letters.error IS 'why they could not be read';
COMMENT ON COLUMN dead_letters.topic IS 'Kafka topic they came from';
COMMENT ON COLUMN dead_letters."partition" IS 'partition of that topic';
COMMENT ON COLUMN dead_letters."offset" IS 'offset in that partition';
COMMENT ON COLUMN dead_letters.topic_partition IS 'Kafka partition the event was read from';
COMMENT ON COLUMN dead_letters.topic_offset IS
    'Kafka offset of the message that held the event; several events may share one';
COMMENT ON COLUMN dead_letters.extra IS
    'fields that the schema does not know, NULL if there were none';

CREATE TABLE draws (
    run_id VARCHAR,
    serving_model VARCHAR,
    seed BIGINT,
    draw BIGINT,
    budget BIGINT,
    starts_s DOUBLE[],
    cost DOUBLE
);
COMMENT ON TABLE draws IS 'One row a schedule drawn for the matched random envelope.';
COMMENT ON COLUMN draws.run_id IS 'the run whose budget it matches';
COMMENT ON COLUMN draws.serving_model IS 'how cost was counted: overlap, closed_loop or queue';
COMMENT ON COLUMN draws.seed IS 'seed of the draws';
COMMENT ON COLUMN draws.draw IS 'number of the draw, from 0';
COMMENT ON COLUMN draws.budget IS 'merges in the schedule';
COMMENT ON COLUMN draws.starts_s IS
    'starts of its windows, seconds from the run''s begin (runs.created_us)';
COMMENT ON COLUMN draws.cost IS 'overlap cost, requests';

CREATE TABLE placements (
    run_id VARCHAR,
    policy VARCHAR,
    serving_model VARCHAR,
    budget BIGINT,
    starts_s DOUBLE[],
    reasons VARCHAR[],
    requests BIGINT,
    cost DOUBLE,
    random_mean DOUBLE,
    random_sd DOUBLE,
    random_p05 DOUBLE,
    percentile DOUBLE,
    oracle_exact DOUBLE,
    oracle_greedy DOUBLE,
    gain DOUBLE,
    gain_pp DOUBLE,
    capture DOUBLE,
    excess_pp DOUBLE,
    jain_sidecars DOUBLE,
    jain_tenants DOUBLE,
    detail JSON
);
COMMENT ON TABLE placements IS 'One row an evaluated run and policy: its schedule, beside random ones with as many merges.';
COMMENT ON COLUMN placements.run_id IS 'the evaluated run';
COMMENT ON COLUMN placements.policy IS 'the policy that placed the merges';
COMMENT ON COLUMN placements.serving_model IS 'how cost was counted: overlap, closed_loop or queue';
COMMENT ON COLUMN placements.budget IS 'merges made';
COMMENT ON COLUMN placements.starts_s IS
    'starts of its windows, seconds from the run''s begin (runs.created_us)';
COMMENT ON COLUMN placements.reasons IS 'why each merge was made';
COMMENT ON COLUMN placements.requests IS 'requests that arrived in the run';
COMMENT ON COLUMN placements.cost IS 'requests that the windows harm, summed over windows';
COMMENT ON COLUMN placements.random_mean IS
    'mean cost of random schedules with as many merges, exact';
COMMENT ON COLUMN placements.random_sd IS 'standard deviation of their cost, exact';
COMMENT ON COLUMN placements.random_p05 IS '5th percentile of the cost of those drawn';
COMMENT ON COLUMN placements.percentile IS
    'share of those drawn that cost less, ties by half, 0 to 100';
COMMENT ON COLUMN placements.oracle_exact IS 'least cost of any schedule with as many merges';
COMMENT ON COLUMN placements.oracle_greedy IS 'cost of the greedy re-selection';
COMMENT ON COLUMN placements.gain IS '(random_mean - cost) / random_mean; NULL where the mean is 0';
COMMENT ON COLUMN placements.gain_pp IS 'random_mean - cost, in percentage points of the requests';
COMMENT ON COLUMN placements.capture IS 'gain divided by the exact oracle''s; NULL where that is 0';
COMMENT ON COLUMN placements.excess_pp IS
    'violation rate above that without merges, percentage points, of the schedule as a whole';
COMMENT ON COLUMN placements.jain_sidecars IS
    'Jain''s index of the sidecars'' harm rates; NULL without harm or with one sidecar';
COMMENT ON COLUMN placements.jain_tenants IS 'the same over tenants';
COMMENT ON COLUMN placements.detail IS
    'every other figure of slackwater evaluate --json, by its name there';

CREATE TABLE verdicts (
    run_id VARCHAR,
    at_us BIGINT,
    policy VARCHAR,
    serving_model VARCHAR,
    verdict VARCHAR,
    budget BIGINT,
    cost DOUBLE,
    runs BIGINT,
    gain DOUBLE,
    gain_pp DOUBLE,
    gain_pp_low DOUBLE,
    gain_pp_high DOUBLE,
    p_value DOUBLE,
    capture DOUBLE,
    detail JSON
);
COMMENT ON TABLE verdicts IS 'One row a verdict on a policy.';
COMMENT ON COLUMN verdicts.run_id IS
    'the run judged; EVALUATION/LOAD for a verdict on all runs of a load together';
COMMENT ON COLUMN verdicts.at_us IS
    'when it was judged, wall time, microseconds since the Unix epoch';
COMMENT ON COLUMN verdicts.policy IS 'the policy judged';
COMMENT ON COLUMN verdicts.serving_model IS 'how cost was counted';
COMMENT ON COLUMN verdicts.verdict IS
    'no effect, load not matched, budget only, no claim or placement gain';
COMMENT ON COLUMN verdicts.budget IS 'merges made';
COMMENT ON COLUMN verdicts.cost IS 'overlap cost of the policy, requests';
COMMENT ON COLUMN verdicts.gain IS 'placement gain, share of the matched random mean';
COMMENT ON COLUMN verdicts.runs IS 'runs that it rests on';
COMMENT ON COLUMN verdicts.gain_pp IS 'placement gain, percentage points of requests';
COMMENT ON COLUMN verdicts.gain_pp_low IS 'lower end of the 95% interval of gain_pp';
COMMENT ON COLUMN verdicts.gain_pp_high IS 'upper end of that interval';
COMMENT ON COLUMN verdicts.p_value IS 'of the paired test';
COMMENT ON COLUMN verdicts.capture IS 'placement gain divided by the oracle''s';
COMMENT ON COLUMN verdicts.detail IS 'everything else, as JSON';

CREATE TABLE offsets (
    run_id VARCHAR,
    topic VARCHAR,
    "partition" INTEGER,
    next_offset BIGINT
);
COMMENT ON TABLE offsets IS 'Up to where each partition has been read; written with the rows, in one transaction.';
COMMENT ON COLUMN offsets.run_id IS
    'the run that read it: a throw-away broker starts at 0 again for the next run';
COMMENT ON COLUMN offsets.topic IS 'Kafka topic';
COMMENT ON COLUMN offsets."partition" IS 'Kafka partition';
COMMENT ON COLUMN offsets.next_offset IS 'first offset that is not in the log';

CREATE TABLE incidents (
    at_us BIGINT,
    kind VARCHAR,
    detail VARCHAR
);
COMMENT ON TABLE incidents IS 'One row a thing that went wrong with the log itself.';
COMMENT ON COLUMN incidents.at_us IS 'wall time, microseconds since the Unix epoch';
COMMENT ON COLUMN incidents.kind IS 'what went wrong';
COMMENT ON COLUMN incidents.detail IS 'what was lost and what to do';

INSERT INTO schema_info VALUES (4);
