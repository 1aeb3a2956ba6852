"""The published schema is what the types say, and judges events as the codec does."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from event_strategies import event_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater import schema
from slackwater.cli import main
from slackwater.codec import Codec, encode
from slackwater.events import Request
from slackwater.topics import ALL_TOPICS, REQUESTS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "schema"
EVERY_TYPE = [(topic, kind) for topic in ALL_TOPICS for kind in schema.event_types(topic)]
REQUEST = msgspec.json.decode(
    encode(
        Request(
            run_id="r",
            at_us=1_700_000_001_000_000,
            sidecar="sidecar-0",
            id="q",
            arrival_us=1_700_000_000_000_000,
            status="ok",
            e2e_s=1.0,
        )
    )
)


def published(name):
    return json.loads((DOCS / name).read_text())


def validator(topic):
    found = published(f"{topic.kind}.json")
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_committed_schema_is_current():
    assert schema.stale(DOCS) == [], "run make schema"
    assert {path.name for path in DOCS.iterdir()} == set(schema.documents())


@pytest.mark.parametrize(("topic", "kind"), EVERY_TYPE, ids=lambda x: getattr(x, "__name__", ""))
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_encoded_events_are_valid_by_the_schema_of_their_topic(topic, kind, data):
    event = data.draw(event_of(kind))
    validator(topic).validate(json.loads(encode(event)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at_us", 1_700_000_001),
        ("at_us", 1_700_000_001_000),
        ("at_us", None),
        ("arrival_us", "2023-11-14"),
        ("e2e_s", -0.1),
        ("status", "fine"),
        ("sidecar", ""),
        ("run_id", "r" * 201),
        ("prompt_tokens", -1),
        ("prompt_tokens", 1 << 63),
        ("type", "question"),
        ("v", 0),
    ],
)
def test_schema_and_codec_refuse_the_same_values(field, value):
    check = validator(REQUESTS)
    assert check.is_valid(REQUEST)
    wrong = {**REQUEST, field: value}
    assert not check.is_valid(wrong)
    assert Codec(REQUESTS).decode(json.dumps(wrong).encode()).events == []


@pytest.mark.parametrize("field", ["type", "run_id", "at_us", "sidecar", "id", "status"])
def test_schema_and_codec_demand_the_same_fields(field):
    wrong = {name: value for name, value in REQUEST.items() if name != field}
    assert not validator(REQUESTS).is_valid(wrong)
    assert Codec(REQUESTS).decode(json.dumps(wrong).encode()).events == []


def test_fields_beyond_the_schema_are_allowed():
    assert validator(REQUESTS).is_valid({**REQUEST, "colour": "red"})


def test_every_field_of_every_type_has_a_description():
    schemas = schema.asyncapi()["components"]["schemas"]
    missing = [
        f"{name}.{field}"
        for name, found in schemas.items()
        for field, what in found["properties"].items()
        if field != "type" and not what.get("description")
    ]
    assert missing == []


def test_asyncapi_has_a_channel_for_each_topic_and_every_reference_resolves():
    document = published(schema.ASYNCAPI_FILE)
    assert document["asyncapi"].startswith("3.")
    assert [c["address"] for c in document["channels"].values()] == [t.name() for t in ALL_TOPICS]
    pending, seen = [document], 0
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
            if "$ref" in node:
                seen += 1
                found = document
                for part in node["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
    assert seen > len(EVERY_TYPE)


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["slackwater", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_command_writes_what_it_then_finds_current_and_notices_a_change(
    monkeypatch, tmp_path, capsys
):
    folder = tmp_path / "new" / "schema"
    assert run(monkeypatch, "schema", "--write", folder) == 0
    assert run(monkeypatch, "schema", "--check", folder) == 0
    (folder / "requests.json").write_text("{}")
    (folder / "bins.json").unlink()
    capsys.readouterr()
    assert run(monkeypatch, "schema", "--check", folder) == 1
    assert "requests.json, bins.json" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("--write", "a", "--check", "b")])
def test_command_wants_one_of_write_and_check(monkeypatch, capsys, arguments):
    assert run(monkeypatch, "schema", *arguments) == 2
    assert "--write DIR or --check DIR" in capsys.readouterr().err


def test_folder_that_cannot_be_written_is_one_line(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(monkeypatch, "schema", "--write", tmp_path / "file" / "below") == 2
    assert "cannot write into" in capsys.readouterr().err
