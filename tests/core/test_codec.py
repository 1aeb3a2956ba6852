"""Bytes to events and back: nothing is lost, nothing raises, good lines survive bad ones."""

import base64
import json

import msgspec
import pytest
from event_strategies import event_of, lines_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.codec import (
    MAX_DEAD_LETTER_BYTES,
    MAX_LINE_BYTES,
    Codec,
    encode,
    encode_lines,
)
from slackwater.errors import EventError
from slackwater.events import SCHEMA_VERSION, DeadLetter, Heartbeat, Step
from slackwater.schema import event_types
from slackwater.topics import ALL_TOPICS, DEADLETTER, LEARNERS

AT_US = 1_700_000_000_000_000
STEP = Step(run_id="r", at_us=AT_US, learner="learner-0", step=7, steps_since_merge=3)
EVERY_TYPE = [(topic, kind) for topic in ALL_TOPICS for kind in event_types(topic)]
LINE = {
    "v": 1,
    "run_id": "r",
    "at_us": AT_US,
    "type": "heartbeat",
    "learner": "learner-0",
    "final": False,
}
quick = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def line(**changes):
    return json.dumps({**LINE, **changes}).encode()


def raw_line(field: bytes):
    """A heartbeat with one more field, given as the bytes of `"name":value`."""
    return line()[:-1] + b", " + field + b"}"


def one_bad(raw, topic=LEARNERS):
    decoded = Codec(topic).decode(raw)
    assert decoded.events == []
    assert len(decoded.bad) == 1
    return decoded.bad[0]


@pytest.mark.parametrize(("topic", "kind"), EVERY_TYPE, ids=lambda x: getattr(x, "__name__", ""))
@quick
@given(data=st.data())
def test_every_event_type_comes_back_as_it_went(topic, kind, data):
    event = data.draw(event_of(kind))
    decoded = Codec(topic).decode(encode(event))
    assert decoded.events == [event]
    assert decoded.bad == []
    assert decoded.extras == {}
    assert Codec(topic).decode_line(encode(event)) == event


@pytest.mark.parametrize("topic", ALL_TOPICS, ids=lambda t: t.kind)
@quick
@given(data=st.data())
def test_micro_batch_keeps_every_event_in_order(topic, data):
    events = data.draw(lines_of(topic))
    assert Codec(topic).decode(encode_lines(events)).events == events


@quick
@given(raw=st.binary(max_size=2000))
def test_arbitrary_bytes_never_raise_and_never_vanish(raw):
    decoded = Codec(LEARNERS).decode(raw)
    assert decoded.events or decoded.bad


@settings(quick, max_examples=300)
@given(data=st.data())
def test_damaged_events_never_raise_and_never_vanish(data):
    raw = bytearray(encode_lines([STEP, STEP]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw) - 1))
        junk = data.draw(st.sampled_from([b'"', b"{", b"}", b"\n", b",", b"\xff", b"1e999", b""]))
        raw[start : start + data.draw(st.integers(0, 3))] = junk
    decoded = Codec(LEARNERS).decode(bytes(raw))
    assert decoded.events or decoded.bad


@quick
@given(raw=st.binary(min_size=1, max_size=200), before=st.booleans())
def test_bad_line_keeps_its_bytes_and_the_good_line_beside_it(raw, before):
    junk = b"!" + raw.replace(b"\n", b"")
    good = encode(STEP)
    message = junk + b"\n" + good if before else good + b"\n" + junk
    decoded = Codec(LEARNERS).decode(message)
    assert decoded.events == [STEP]
    assert [bad.raw for bad in decoded.bad] == [junk]


@pytest.mark.parametrize("raw", [None, b"", b"\n", b" ", b"\n\n\r\n"])
def test_empty_message_is_a_bad_line_not_nothing(raw):
    assert "empty" in one_bad(raw).error


@pytest.mark.parametrize(
    "field",
    [
        b'"x": "\xff\xfe"',
        b'"\xff": 1',
        b'"x": 1e999',
        b'"x": ' + b"9" * 6000,
        b'"x": "\\ud800"',
        b'"x": ' + b"[" * 50_000 + b"]" * 50_000,
    ],
    ids=["utf-8 in a value", "utf-8 in a name", "float", "integer", "surrogate", "depth"],
)
def test_unknown_field_that_cannot_be_read_makes_a_bad_line_not_a_crash(field):
    raw = raw_line(field)
    decoded = Codec(LEARNERS).decode(raw + b"\n" + encode(STEP))
    assert decoded.events == [STEP]
    assert [bad.raw for bad in decoded.bad] == [raw]
    assert decoded.bad[0].error


def test_unknown_fields_are_kept_with_the_event_they_came_in():
    message = b"\n".join([encode(STEP), line(colour="red", n={"a": [1]}), encode(STEP)])
    decoded = Codec(LEARNERS).decode(message)
    assert [type(event) for event in decoded.events] == [Step, Heartbeat, Step]
    assert decoded.extras == {1: {"colour": "red", "n": {"a": [1]}}}


def test_other_spacing_order_and_line_ends_read_the_same():
    tidy = msgspec.json.decode(encode(STEP))
    loose = json.dumps(dict(reversed(tidy.items())), indent=None, separators=(", ", " : "))
    decoded = Codec(LEARNERS).decode(f"{loose}\r\n\r\n{loose}\r\n".encode())
    assert decoded.events == [STEP, STEP]
    assert decoded.bad == []
    assert decoded.extras == {}


def test_newer_schema_version_is_refused_by_name():
    assert f"schema version {SCHEMA_VERSION + 1}" in one_bad(line(v=SCHEMA_VERSION + 1)).error


def test_newer_shape_is_called_newer_not_malformed():
    error = one_bad(line(v=SCHEMA_VERSION + 1, final="a word now")).error
    assert f"schema version {SCHEMA_VERSION + 1}" in error


@pytest.mark.parametrize(
    "at_us", [AT_US // 1_000_000, AT_US // 1000, AT_US * 1000, 0, -1, AT_US + 0.5, str(AT_US)]
)
def test_time_that_is_not_microseconds_since_1970_is_refused(at_us):
    assert "at_us" in one_bad(line(at_us=at_us)).error


@pytest.mark.parametrize("step", [-1, 1 << 63, 10**30, 1.5, "7", None])
def test_count_outside_a_signed_64_bit_column_is_refused(step):
    fields = {**msgspec.json.decode(encode(STEP)), "step": step}
    assert "step" in one_bad(json.dumps(fields).encode()).error


def test_event_of_another_topic_is_refused():
    assert "heartbeat" in one_bad(line(), DEADLETTER).error
    with pytest.raises(EventError, match="heartbeat"):
        Codec(DEADLETTER).decode_line(line())


def test_longest_line_is_read_and_one_byte_more_is_not():
    spare = MAX_LINE_BYTES - len(raw_line(b'"x": ""'))
    longest = raw_line(b'"x": "' + b"a" * spare + b'"')
    assert len(longest) == MAX_LINE_BYTES
    assert len(Codec(LEARNERS).decode(longest).events) == 1
    too_long = raw_line(b'"x": "' + b"a" * (spare + 1) + b'"')
    assert str(MAX_LINE_BYTES) in one_bad(too_long).error


def test_long_message_of_short_lines_is_read_whole():
    count = MAX_LINE_BYTES // len(encode(STEP)) + 10
    assert Codec(LEARNERS).decode(encode_lines([STEP] * count)).events == [STEP] * count


def test_dead_letter_can_hold_the_longest_line():
    letter = DeadLetter(
        run_id="r",
        at_us=AT_US,
        raw=b"\xff" * MAX_LINE_BYTES,
        error="no",
        topic="t",
        partition=0,
        offset=1,
    )
    assert Codec(DEADLETTER).decode(encode(letter)).events == [letter]
    larger = msgspec.structs.replace(letter, raw=b"x" * MAX_DEAD_LETTER_BYTES)
    assert str(MAX_DEAD_LETTER_BYTES) in one_bad(encode(larger), DEADLETTER).error


def test_dead_letter_keeps_bytes_that_are_not_text():
    letter = DeadLetter(
        run_id="r", at_us=AT_US, raw=b"\xff\x00\n", error="no", topic="t", partition=0, offset=1
    )
    assert base64.b64decode(json.loads(encode(letter))["raw"]) == b"\xff\x00\n"
