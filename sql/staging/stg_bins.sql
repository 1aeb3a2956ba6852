-- One row a closed bin of one sidecar, out of the messages that carried them.
CREATE OR REPLACE VIEW stg_bins AS
SELECT
    b.run_id,
    b."group" AS merge_group,
    b."partition" AS requests_partition,
    b.bin_s,
    us_to_ts(b.at_us) AS closed,
    b.at_us AS closed_us,
    us_to_ts(bin_row.start_us) AS started,
    bin_row.sidecar,
    bin_row.start_us AS started_us,
    bin_row.finished,
    bin_row.failed,
    bin_row.prompt_tokens,
    bin_row.output_tokens,
    bin_row.e2e_sum_s,
    bin_row.samples,
    bin_row.in_system,
    bin_row.sample_us,
    bin_row.finished_after_sample,
    bin_row.late
FROM (
    SELECT run_id, "group", "partition", bin_s, at_us, unnest("rows") AS bin_row FROM bins
) AS b;
