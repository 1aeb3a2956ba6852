"""Every reader is held to the same laws; what a file gets wrong is named, never guessed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import trace_samples as samples

from replay_producer.readers import FORMATS, RECORDING, detect_format, read_trace
from slackwater.codec import encode
from slackwater.errors import InputError
from slackwater.events import Request

NAMES = [item.name for item in FORMATS]


def traces_folder() -> Path:
    beside = Path(__file__).parents[3] / "shared" / "traces"
    return Path(os.environ.get("SLACKWATER_TRACES", beside))


def real(name: str) -> Path:
    path = traces_folder() / name
    if not path.exists():
        pytest.skip(f"{name} is not here; set SLACKWATER_TRACES to its folder")
    return path


@pytest.mark.parametrize("name", NAMES)
class TestEveryFormat:
    def test_arrivals_at_1_2_9_and_11_ms_stay_four_distinct_times(
        self, name: str, tmp_path: Path
    ) -> None:
        trace = read_trace(samples.write(tmp_path, samples.WRITERS[name]()))
        assert trace.arrival_us.tolist() == [0, 1000, 8000, 10_000]
        assert trace.prompt_tokens.tolist() == list(samples.PROMPTS)
        assert trace.output_tokens.tolist() == list(samples.OUTPUTS)
        assert set(trace.status) == {"ok"}
        assert trace.duration_us == 10_000

    def test_it_is_recognised_by_content(self, name: str, tmp_path: Path) -> None:
        path = samples.write(tmp_path, samples.WRITERS[name](), "misleading.csv.jsonl")
        assert detect_format(path) == name
        assert read_trace(path).format == name

    def test_forcing_its_own_format_changes_nothing(self, name: str, tmp_path: Path) -> None:
        path = samples.write(tmp_path, samples.WRITERS[name]())
        assert np.array_equal(read_trace(path, name).arrival_us, read_trace(path).arrival_us)

    def test_rows_out_of_order_are_sorted_with_a_note(self, name: str, tmp_path: Path) -> None:
        path = samples.write(tmp_path, samples.WRITERS[name]((9, 2, 11, 1)))
        trace = read_trace(path)
        assert trace.arrival_us.tolist() == [0, 1000, 8000, 10_000]
        assert trace.prompt_tokens.tolist() == [40, 20, 10, 30]
        assert any("sorted" in note for note in trace.notes)

    def test_recorded_latency_is_read_where_the_format_has_it(
        self, name: str, tmp_path: Path
    ) -> None:
        trace = read_trace(samples.write(tmp_path, samples.WRITERS[name]()))
        if name in ("azure", "mooncake"):
            assert np.isnan(trace.e2e_s).all()
            return
        assert trace.e2e_s.tolist() == pytest.approx([samples.E2E_S] * 4)
        if name != "burstgpt":
            assert trace.ttft_s.tolist() == pytest.approx([samples.TTFT_S] * 4)

    def test_the_digest_and_the_origin_are_kept(self, name: str, tmp_path: Path) -> None:
        trace = read_trace(samples.write(tmp_path, samples.WRITERS[name]()))
        assert trace.sha256 is not None
        relative = name in ("burstgpt", "mooncake", "vllm-bench")
        assert trace.origin_us == (None if relative else samples.EPOCH_US + 1000)

    def test_a_cut_off_file_is_never_taken_for_whole(self, name: str, tmp_path: Path) -> None:
        text = samples.WRITERS[name]()
        cut = text.rstrip().rfind(
            "," if name in ("azure", "burstgpt") else "]" if "]" in text else "}"
        )
        path = samples.write(tmp_path, text[:cut])
        with pytest.raises(InputError, match=r"trace\.dat: "):
            read_trace(path, name)

    def test_another_format_forced_on_it_is_one_clear_error(
        self, name: str, tmp_path: Path
    ) -> None:
        path = samples.write(tmp_path, samples.WRITERS[name]())
        for other in NAMES:
            if other != name:
                with pytest.raises(InputError, match=r"trace\.dat"):
                    read_trace(path, other)


def test_epoch_and_relative_times_in_one_file_name_the_row(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1.787e12, "input_length": 1, "output_length": 1},
        {"timestamp": 1e4, "input_length": 1, "output_length": 1},
    ]
    for order in (rows, rows[::-1]):
        text = "\n".join(json.dumps(row) for row in order)
        path = samples.write(tmp_path, text)
        for on_bad in ("stop", "skip"):
            with pytest.raises(InputError, match=r"line 2 .*one clock"):
                read_trace(path, on_bad=on_bad)  # type: ignore[arg-type]


def test_an_epoch_and_a_relative_time_in_microseconds_name_the_row(tmp_path: Path) -> None:
    first, second = (json.loads(line) for line in samples.slackwater().splitlines()[:2])
    first |= {"arrival_us": 1_787_000_000_000_000, "at_us": 1_787_000_000_250_000}
    second |= {"arrival_us": 10_000_000, "at_us": 10_250_000}
    path = samples.write(tmp_path, json.dumps(first) + "\n" + json.dumps(second))
    with pytest.raises(InputError, match=r"line 2: .*(at|arrival)_us") as caught:
        read_trace(path)
    assert "1 of 2 rows" in str(caught.value)


def test_a_time_in_the_wrong_unit_is_refused_with_its_value(tmp_path: Path) -> None:
    path = samples.write(tmp_path, '{"timestamp": 1.787e15}\n{"timestamp": 1e7}\n')
    with pytest.raises(InputError, match=r"line 1: timestamp is '1\.787E\+15'.*unit"):
        read_trace(path)


def test_rows_without_a_time_are_counted_and_named(tmp_path: Path) -> None:
    rows = [{"input_length": 5, "output_length": 2}, {"timestamp": 3, "input_length": 1}] * 2
    path = samples.write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"line 1: timestamp is missing.*2 of 4 rows"):
        read_trace(path)
    trace = read_trace(path, on_bad="skip")
    assert (len(trace), trace.skipped) == (2, 2)
    assert "2 of 4 rows left out, first line 1: timestamp is missing" in trace.notes[0]


def test_skipping_every_row_is_not_an_empty_trace(tmp_path: Path) -> None:
    path = samples.write(tmp_path, '{"input_length": 5}\n' * 3)
    with pytest.raises(InputError, match="3 of 3 rows"):
        read_trace(path, on_bad="skip")


def test_unknown_token_counts_are_not_zero(tmp_path: Path) -> None:
    path = samples.write(tmp_path, '{"timestamp": 1, "input_length": null, "output_length": 0}\n')
    trace = read_trace(path)
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (-1, 0)


@pytest.mark.parametrize("tokens", ["-3", "many", "1.5", "99999999999"])
def test_impossible_token_counts_are_refused(tokens: str, tmp_path: Path) -> None:
    text = f"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,{tokens},1\n"
    with pytest.raises(InputError, match=f"line 2: ContextTokens is '{tokens}'"):
        read_trace(samples.write(tmp_path, text))


def test_azure_files_with_images_are_read(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens,NumImages\n2025-01-01 00:00:00.1234567,5,6,2\n"
    trace = read_trace(samples.write(tmp_path, text))
    assert (trace.format, trace.prompt_tokens[0]) == ("azure", 5)


def test_old_burstgpt_files_have_no_latency_and_failures_are_errors(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n"
    )
    trace = read_trace(samples.write(tmp_path, text))
    assert trace.status.tolist() == ["ok", "error"]
    assert trace.tenant.tolist() == ["ChatGPT", "GPT-4"]
    assert np.isnan(trace.e2e_s).all()


def test_a_negative_elapsed_time_is_refused(tmp_path: Path) -> None:
    text = samples.burstgpt().replace(f",{samples.E2E_S},", ",-2,", 1)
    with pytest.raises(InputError, match="line 2: Elapsed time is '-2'"):
        read_trace(samples.write(tmp_path, text))


def test_a_name_that_no_event_can_carry_is_refused(tmp_path: Path) -> None:
    fits, longer = (samples.burstgpt().replace("GPT-4", "m" * count, 1) for count in (200, 201))
    assert read_trace(samples.write(tmp_path, fits)).tenant[0] == "m" * 200
    with pytest.raises(
        InputError, match=r"line 2: Model is 'mmm.*a name of 200 characters at most"
    ):
        read_trace(samples.write(tmp_path, longer))


def test_vllm_results_without_detail_say_which_option_is_missing(tmp_path: Path) -> None:
    result = {"completed": 4, "request_throughput": 1.0, "input_lens": [1, 2, 3, 4]}
    path = samples.write(tmp_path, json.dumps(result))
    with pytest.raises(InputError, match="--save-detailed"):
        read_trace(path)


def test_vllm_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    result = json.loads(samples.vllm_bench())
    result["ttfts"].pop()
    with pytest.raises(InputError, match="ttfts 3"):
        read_trace(samples.write(tmp_path, json.dumps(result)))


def test_a_failed_vllm_request_has_no_latency(tmp_path: Path) -> None:
    result = json.loads(samples.vllm_bench())
    result["errors"][1] = "timed out"
    result["ttfts"][1] = 0.0
    trace = read_trace(samples.write(tmp_path, json.dumps(result)))
    assert trace.status.tolist() == ["ok", "error", "ok", "ok"]
    assert np.isnan(trace.e2e_s[1])
    assert np.isnan(trace.ttft_s[1])


def test_guidellm_groups_become_statuses(tmp_path: Path) -> None:
    report = json.loads(samples.guidellm())
    groups = report["benchmarks"][0]["requests"]
    groups["incomplete"].append(groups["successful"].pop())
    groups["errored"].append({**groups["successful"].pop(), "request_latency": None})
    trace = read_trace(samples.write(tmp_path, json.dumps(report)))
    assert trace.status.tolist() == ["ok", "ok", "error", "aborted"]
    assert np.isnan(trace.e2e_s[2])


def aiperf_with(tmp_path: Path, **metadata: object) -> Path:
    row = json.loads(samples.aiperf().splitlines()[0])
    del row["metrics"]["request_latency"]
    row["metadata"].update(metadata)
    return samples.write(tmp_path, json.dumps(row))


def test_a_wall_clock_arrival_and_a_monotonic_finish_are_never_subtracted(tmp_path: Path) -> None:
    path = aiperf_with(tmp_path, request_end_ns=5_000_000_000)
    with pytest.raises(InputError, match="same clock"):
        read_trace(path)


def test_an_end_before_its_start_is_refused(tmp_path: Path) -> None:
    path = aiperf_with(tmp_path, request_end_ns=samples.EPOCH_US * 1000)
    with pytest.raises(InputError, match="at or after request_start_ns"):
        read_trace(path)


def test_aiperf_falls_back_to_its_own_end_and_knows_cancelled(tmp_path: Path) -> None:
    trace = read_trace(aiperf_with(tmp_path, was_cancelled=True))
    assert trace.status.tolist() == ["aborted"]
    assert trace.e2e_s[0] == pytest.approx(samples.E2E_S)


def test_monotonic_start_times_have_no_origin_though_the_file_has_a_date(tmp_path: Path) -> None:
    trace = read_trace(samples.write(tmp_path, samples.vllm_bench()))
    assert trace.origin_us is None


def test_our_requests_keep_sidecar_tenant_and_status(tmp_path: Path) -> None:
    aborted = Request(
        run_id="r",
        at_us=samples.EPOCH_US + 2_000_000,
        sidecar="sidecar-7",
        id="a",
        arrival_us=samples.EPOCH_US + 500_000,
        status="aborted",
    )
    text = samples.slackwater() + encode(aborted).decode()
    trace = read_trace(samples.write(tmp_path, text))
    assert trace.sidecar.tolist()[-1] == "sidecar-7"
    assert trace.tenant.tolist()[:4] == ["t"] * 4
    assert trace.status[-1] == "aborted"
    assert trace.e2e_s[-1] == pytest.approx(1.5)
    assert trace.prompt_tokens[-1] == -1


def test_a_request_that_ends_before_it_arrives_is_refused(tmp_path: Path) -> None:
    event = json.loads(samples.slackwater().splitlines()[0])
    event["at_us"] = event["arrival_us"] - 1
    with pytest.raises(InputError, match="line 1: at_us"):
        read_trace(samples.write(tmp_path, json.dumps(event)))


def test_our_events_of_other_types_make_it_a_recording(tmp_path: Path) -> None:
    text = samples.slackwater() + encode(samples.load(samples.EPOCH_US)).decode()
    path = samples.write(tmp_path, text)
    assert detect_format(path) == RECORDING
    assert len(read_trace(path, RECORDING)) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty file"),
        (b"\n\n", "empty file"),
        (b"PK\x03\x04\x00\x00", "binary"),
        (b"\xff\xfe\xfa,1,2\n", "UTF-8"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request"),
        (b"a,b,c\n1,2,3\n", "not recognised"),
        (b'{"hello": 1}\n', "not recognised"),
        (b"[1, 2]\n", "JSON list"),
        (b'{"completed": 1,', "not complete JSON"),
    ],
)
def test_unusable_files_end_in_one_clear_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)


def test_missing_files_directories_and_unknown_formats_are_input_errors(tmp_path: Path) -> None:
    for path, name, said in (
        (tmp_path / "none.csv", None, "no such file"),
        (tmp_path, None, "directory"),
        (samples.write(tmp_path, samples.azure()), "parquet", "must be one of azure"),
    ):
        with pytest.raises(InputError, match=said):
            read_trace(path, name)


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    path = samples.write(tmp_path, "\ufeff" + samples.azure())
    assert len(read_trace(path)) == 4


def test_the_real_azure_trace_is_read_whole() -> None:
    path = real("azure_code_2023.csv")
    trace = read_trace(path)
    assert (trace.format, len(trace), trace.skipped) == ("azure", 8819, 0)
    first, last = (path.read_text().split("\n")[i].split(",")[0] for i in (1, -1))
    assert (first, last) == ("2023-11-16 18:17:03.9799600", "2023-11-16 19:14:19.9280160")
    assert trace.origin_us == 1_700_158_623_979_960
    assert trace.arrival_us[-1] == 3_435_948_056


def test_the_real_mooncake_trace_is_read_whole() -> None:
    trace = read_trace(real("mooncake_slice.jsonl"))
    assert (trace.format, len(trace), trace.origin_us) == ("mooncake", 200, None)
    assert trace.arrival_us[:4].tolist() == [0, 0, 40_000, 277_000]
