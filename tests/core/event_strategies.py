"""Hypothesis strategies for every event type, read off the types so that none is forgotten."""

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from slackwater.schema import event_types

TEXT = st.characters(codec="utf-8")
# Values near the ends of a range show more than values in its middle.
REAL = {"allow_nan": False, "allow_infinity": False}


def _bounds(metas):
    found = {}
    for meta in metas:
        for name in ("ge", "le", "lt", "min_length", "max_length"):
            if getattr(meta, name, None) is not None:
                found[name] = getattr(meta, name)
    return found


def _plain(kind, bounds):
    if kind is bool:
        return st.booleans()
    if kind is int:
        top = bounds.get("le", bounds["lt"] - 1 if "lt" in bounds else (1 << 63) - 1)
        return st.integers(bounds.get("ge", -(1 << 63)), top)
    if kind is float:
        return st.floats(bounds.get("ge"), bounds.get("le"), **REAL)
    if kind is str:
        most = min(bounds.get("max_length", 20), 20)
        return st.text(TEXT, min_size=bounds.get("min_length", 0), max_size=most)
    if kind is bytes:
        return st.binary(max_size=40)
    if issubclass(kind, msgspec.Struct):
        return event_of(kind)
    raise NotImplementedError(kind)


def _value(kind: Any, bounds=None):
    bounds = bounds or {}
    origin, args = get_origin(kind), get_args(kind)
    if kind is NoneType:
        return st.none()
    if origin is Annotated:
        return _value(args[0], {**bounds, **_bounds(args[1:])})
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        return st.one_of(*(_value(arg, bounds) for arg in args))
    if origin is list:
        return st.lists(_value(args[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(_value(args[0]), _value(args[1]), max_size=4)
    return _plain(kind, bounds)


def event_of(kind):
    """Any value of this struct that the current schema version allows."""
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: _value(hint) for name, hint in hints.items() if name != "v"}
    return st.builds(kind, **{k: v for k, v in fields.items() if k in kind.__struct_fields__})


def lines_of(topic):
    """Up to five events of a topic."""
    return st.lists(st.one_of(*map(event_of, event_types(topic))), min_size=1, max_size=5)
