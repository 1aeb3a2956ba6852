"""The published schema: JSON Schema per topic and one AsyncAPI document, made from the types."""

import json
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import msgspec

from slackwater.events import SCHEMA_VERSION
from slackwater.topics import ALL_TOPICS, Topic

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CONTENT_TYPE = "application/x-ndjson"
ASYNCAPI_FILE = "asyncapi.json"


def event_types(topic: Topic) -> tuple[type[msgspec.Struct], ...]:
    """The event types that a topic carries."""
    return get_args(topic.types) if isinstance(topic.types, UnionType) else (topic.types,)


def topic_schema(topic: Topic) -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a topic's messages.

    Fields beyond the schema are allowed: readers ignore them and the run log keeps them.
    """
    schema: dict[str, Any] = msgspec.json.schema(topic.types)
    schema.pop("discriminator", None)  # A word of OpenAPI, which strict validators refuse.
    return {
        "$schema": DIALECT,
        "title": f"One event of the topic slackwater.{topic.kind}",
        "description": f"Key: {topic.key}. Schema version {SCHEMA_VERSION}.",
        **schema,
    }


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3.0 document: a channel for each topic, a message for each event type."""
    messages = {
        _tag(kind): _message(topic, kind) for topic in ALL_TOPICS for kind in event_types(topic)
    }
    kinds = [kind for topic in ALL_TOPICS for kind in event_types(topic)]
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Slackwater events",
            "version": str(SCHEMA_VERSION),
            "description": (
                "A message holds one event, or several as newline-delimited JSON; a payload here "
                "is one line of it. Times are integer microseconds since the Unix epoch (*_us), "
                "durations are seconds (*_s); null is unknown, which is never 0. "
                "The prefix `slackwater` of the addresses is a setting."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": {topic.kind: _channel(topic) for topic in ALL_TOPICS},
        "operations": {f"receive_{topic.kind}": _operation(topic) for topic in ALL_TOPICS},
        "components": {"messages": messages, "schemas": schemas},
    }


def documents() -> dict[str, str]:
    """File name -> text of every published schema file."""
    files: dict[str, Any] = {f"{topic.kind}.json": topic_schema(topic) for topic in ALL_TOPICS}
    files[ASYNCAPI_FILE] = asyncapi()
    return {name: json.dumps(value, indent=2) + "\n" for name, value in files.items()}


def write(folder: Path) -> list[Path]:
    """Write every schema file into `folder`, which is made; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in documents().items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return paths


def stale(folder: Path) -> list[str]:
    """Names of the schema files in `folder` that are missing or not what the types say."""
    return [
        name
        for name, text in documents().items()
        if not (folder / name).is_file() or (folder / name).read_text() != text
    ]


def _tag(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


def _message(topic: Topic, kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "name": _tag(kind),
        "summary": (kind.__doc__ or "").strip().partition("\n")[0],
        "contentType": CONTENT_TYPE,
        "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
        "bindings": {"kafka": {"key": {"type": "string", "description": topic.key}}},
    }


def _channel(topic: Topic) -> dict[str, Any]:
    return {
        "address": topic.name(),
        "messages": {
            _tag(kind): {"$ref": f"#/components/messages/{_tag(kind)}"}
            for kind in event_types(topic)
        },
        "bindings": {"kafka": {"topic": topic.name()}},
    }


def _operation(topic: Topic) -> dict[str, Any]:
    return {"action": "receive", "channel": {"$ref": f"#/channels/{topic.kind}"}}
