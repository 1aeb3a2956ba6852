"""Events into tables and out again."""

import itertools
import json
import shutil
from typing import get_args

import msgspec
import pytest
from event_strategies import event_of
from handmade import bins, loads, request, requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater import events
from slackwater.topics import ALL_TOPICS
from streams.runlog import RunLog
from streams.runlog.tables import TABLES

KINDS = [kind for topic in ALL_TOPICS for kind in (get_args(topic.types) or (topic.types,))]
BESIDE = {"topic_partition", "topic_offset", "extra"}
UNKNOWN_FIELDS = st.dictionaries(st.text(min_size=1), st.integers() | st.text() | st.none())


@pytest.fixture(scope="module")
def shared(tmp_path_factory, empty_log):
    made = shutil.copy(empty_log, tmp_path_factory.mktemp("events") / "run.duckdb")
    with RunLog(made) as opened:
        opened.numbers = itertools.count()
        yield opened


def rows(log, table, offset):
    """The rows of one message, as columns by name."""
    names = [
        name
        for (name,) in log.rows(
            "SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index",
            [table],
        )
    ]
    found = log.rows(f"SELECT * FROM {table} WHERE topic_offset = ?", [offset])  # noqa: S608
    return [dict(zip(names, row, strict=True)) for row in found]


def test_every_event_type_has_a_table():
    assert TABLES.keys() == set(KINDS)


@pytest.mark.parametrize("table", sorted(set(TABLES.values())))
def test_columns_are_the_fields_of_the_events(shared, table):
    kinds = [kind for kind, name in TABLES.items() if name == table]
    fields = {name for kind in kinds for name in kind.__struct_fields__}
    types = {"type"} if len(kinds) > 1 else set()
    late = {"late"} if table == "requests" else set()
    columns = {
        name
        for (name,) in shared.rows(
            "SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [table]
        )
    }
    assert columns == fields | types | late | BESIDE


@pytest.mark.parametrize(
    ("column", "kind"), [("rows", events.BinRow), ("candidates", events.Candidates)]
)
def test_nested_columns_are_the_fields_of_the_nested_types(shared, column, kind):
    ((declared,),) = shared.rows(
        "SELECT data_type FROM duckdb_columns() WHERE column_name = ? AND schema_name = 'main' "
        "AND table_name IN ('bins', 'decisions')",
        [column],
    )
    assert [p.split()[0] for p in declared[7:].split(", ")] == list(kind.__struct_fields__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__struct_config__.tag)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_event_comes_back_as_it_went_in(shared, kind, data):
    event = data.draw(event_of(kind))
    extra = data.draw(UNKNOWN_FIELDS)
    offset = next(shared.numbers)
    shared.append([event], topic="t", partition=3, offset=offset, extras={0: extra})
    shared.commit()
    (row,) = rows(shared, TABLES[kind], offset)
    plain = {k: v for k, v in row.items() if k in kind.__struct_fields__}
    plain["type"] = kind.__struct_config__.tag
    assert msgspec.convert(plain, kind, builtin_types=(bytes,)) == event
    assert row.get("type", plain["type"]) == plain["type"]
    assert json.loads(row["extra"]) == extra
    assert (row["topic_partition"], row["topic_offset"]) == (3, offset)


def test_one_message_of_several_types_keeps_extras_and_lateness_at_their_events(shared):
    offset = next(shared.numbers)
    first, second = requests()[:2]
    batch = [loads()[0], first, loads()[1], second]
    shared.append(
        batch, topic="t", partition=3, offset=offset, extras={2: {"a": 1}, 3: {"b": None}}, late=[3]
    )
    shared.commit()
    found = rows(shared, "requests", offset)
    assert [(r["id"], r["late"], r["extra"]) for r in found] == [
        (first.id, False, None),
        (second.id, True, '{"b":null}'),
    ]
    assert [(r["seq"], r["extra"]) for r in rows(shared, "loads", offset)] == [
        (1, None),
        (2, '{"a":1}'),
    ]


def test_lateness_that_nobody_told_is_unknown(shared):
    offset = next(shared.numbers)
    shared.append(requests()[:1], topic="t", partition=3, offset=offset)
    shared.commit()
    assert [r["late"] for r in rows(shared, "requests", offset)] == [None]


def test_an_event_that_fits_no_column_becomes_a_dead_letter_and_stops_nothing(shared):
    offset = next(shared.numbers)
    unfit = msgspec.structs.replace(bins(), watermarks_us={"sidecar-0": 1 << 70})
    shared.append([bins(), unfit, bins()], topic="t", partition=3, offset=offset)
    assert shared.commit() == 3
    assert len(rows(shared, "bins", offset)) == 2
    (dead,) = rows(shared, "dead_letters", offset)
    assert msgspec.json.decode(dead["raw"], type=events.Bins) == unfit
    assert (dead["topic"], dead["partition"], dead["offset"]) == ("t", 3, offset)
    assert shared.misfits == 1


def test_unknown_is_null_and_not_zero(shared):
    offset = next(shared.numbers)
    shared.append([request("r", 1, 1, "aborted")], topic="t", partition=3, offset=offset)
    shared.commit()
    (row,) = rows(shared, "requests", offset)
    assert row["e2e_s"] is None
    assert row["prompt_tokens"] is None
