"""A recording comes back as it was, shifted in time and under the run's own id."""

from pathlib import Path

import msgspec
import pytest
import trace_samples as samples

from replay_producer.export import export
from replay_producer.fleet import Fleet
from replay_producer.generators import generate
from replay_producer.recording import TOPIC_OF, RecordingSource, read_recording
from replay_producer.source import Message
from slackwater.codec import Codec, encode
from slackwater.errors import InputError
from slackwater.events import (
    BinRow,
    Bins,
    Event,
    Finished,
    Heartbeat,
    MergeCommand,
    Started,
    Step,
)
from slackwater.topics import ALL_TOPICS, BINS, COMMANDS, LEARNERS, MERGES, REQUESTS

T = samples.EPOCH_US + 250_000
ORIGIN_US = 1_800_000_000_000_000
COMMON = {"run_id": "recorded"}
MERGE = {"group": "g", "learner": "learner-1", "merge_id": "m", "step": 7}


def events() -> list[Event]:
    row = BinRow(sidecar="sidecar-0", start_us=T - 9, finished=1, sample_us=T - 5)
    return [
        samples.load(T),
        Step(**COMMON, at_us=T + 1, learner="learner-0", step=3, loss=0.1, steps_since_merge=3),
        Heartbeat(**COMMON, at_us=T + 2, learner="learner-1"),
        Bins(
            **COMMON, at_us=T + 3, group="g", partition=0, bin_s=0.25,
            watermarks_us={"sidecar-0": T - 1}, rows=[row],
        ),
        MergeCommand(
            **COMMON, at_us=T + 4, group="g", merge_id="m", at_step=7, deadline_us=T + 900,
            window_s=8, reason="score", participants=["learner-1"],
        ),
        Started(**COMMON, **MERGE, at_us=T + 5),
        Finished(**COMMON, **MERGE, at_us=T + 6, seconds=0.5, bytes_exchanged=4),
    ]  # fmt: skip


def recording_file(folder: Path, extra: str = "") -> Path:
    return samples.write(folder, "".join(encode(e).decode() + "\n" for e in events()) + extra)


def replayed(path: Path, **options: int) -> list[Message]:
    source = RecordingSource(read_recording(path), ORIGIN_US, "mine", **options)
    return source.advance(ORIGIN_US + 10**12)


def test_every_event_goes_to_its_topic_under_its_key(tmp_path: Path) -> None:
    found = [(m.topic, m.key) for m in replayed(recording_file(tmp_path))]
    assert found == [
        (REQUESTS, "sidecar-0"),
        (LEARNERS, "learner-0"),
        (LEARNERS, "learner-1"),
        (BINS, "g"),
        (COMMANDS, "g"),
        (MERGES, "g"),
        (MERGES, "g"),
    ]


def test_all_times_shift_by_one_number_that_keeps_the_fraction_of_a_second(tmp_path: Path) -> None:
    messages = replayed(recording_file(tmp_path))
    assert [m.at_us for m in messages] == [ORIGIN_US + 250_000 + i for i in range(7)]
    shift = ORIGIN_US - samples.EPOCH_US
    bins = Codec(BINS).decode_line(bytes(messages[3].event))
    assert bins.watermarks_us == {"sidecar-0": T - 1 + shift}
    assert (bins.rows[0].start_us, bins.rows[0].sample_us) == (T - 9 + shift, T - 5 + shift)
    command = Codec(COMMANDS).decode_line(bytes(messages[4].event))
    assert command.deadline_us == T + 900 + shift


def test_nothing_but_times_and_run_id_changes_unknown_fields_included(tmp_path: Path) -> None:
    line = msgspec.json.decode(encode(events()[1])) | {"at_us": T + 50, "colour": {"hue": 0.1}}
    path = recording_file(tmp_path, msgspec.json.encode(line).decode())
    last = msgspec.json.decode(replayed(path)[-1].event)
    shift = ORIGIN_US - samples.EPOCH_US
    assert last == line | {"at_us": line["at_us"] + shift, "run_id": "mine"}


def test_every_event_type_of_the_schema_has_a_topic() -> None:
    assert {topic.kind for topic in TOPIC_OF.values()} == {topic.kind for topic in ALL_TOPICS}
    assert TOPIC_OF["skipped"] is MERGES
    assert TOPIC_OF["merge_now"] is COMMANDS


def test_events_are_returned_when_their_time_has_come_and_once(tmp_path: Path) -> None:
    source = RecordingSource(read_recording(recording_file(tmp_path)), ORIGIN_US, "mine")
    first_us = source.next_us()
    assert first_us == ORIGIN_US + 250_000
    assert source.advance(first_us - 1) == []
    assert len(source.advance(first_us + 2)) == 3
    assert len(source.advance(first_us + 10**9)) == 4
    assert source.next_us() is None


def test_a_duration_cuts_the_rest(tmp_path: Path) -> None:
    assert len(replayed(recording_file(tmp_path), duration_us=250_003)) == 3


def test_events_out_of_order_are_sorted_with_a_note(tmp_path: Path) -> None:
    path = recording_file(tmp_path, encode(samples.load(T - 10)).decode())
    recording = read_recording(path)
    assert recording.at_us[0] == T - 10
    assert "sorted" in recording.notes[0]


def test_lines_that_are_not_events_are_named_and_skipped_only_when_told(tmp_path: Path) -> None:
    path = recording_file(tmp_path, '{"type": "weather", "at_us": 1}\n{"type": "load"}\n')
    with pytest.raises(InputError, match=r"line 8: type is 'weather'.*2 lines"):
        read_recording(path)
    recording = read_recording(path, on_bad="skip")
    assert len(recording) == 7
    assert "2 lines left out" in recording.notes[0]


def test_an_exported_trace_replays_as_what_the_model_made(tmp_path: Path) -> None:
    trace = generate("aperiodic", 5)
    path = tmp_path / "events.jsonl"
    written = export(Fleet(trace, ORIGIN_US, "mine"), path)
    fleet = Fleet(trace, ORIGIN_US, "mine")
    made = []
    while (next_us := fleet.next_us()) is not None:
        made += fleet.advance(next_us)
    back = [Codec(m.topic).decode_line(bytes(m.event)) for m in replayed(path)]
    assert len(back) == written
    assert back == [m.event for m in made]
