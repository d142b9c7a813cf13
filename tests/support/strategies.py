"""Generated annotations with values for them, and values for JSON Schemas."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union, cast

from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

Json = Any


class Color(enum.Enum):
    """An enum of words."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 0
    HIGH = 1


class Odd(enum.Enum):
    """An enum of values of several types, of which one is no JSON value."""

    ONE = 1
    WORD = "w"
    DAY = dt.date(2024, 1, 2)
    PAIR = (1, 2)


class Rights(enum.Flag):
    """A flag."""

    READ = 1
    WRITE = 2


class Item(BaseModel):
    """A model with a nested list."""

    sku: str
    n: int = 1
    tags: list[str] = []


class Node(BaseModel):
    """A model that contains itself."""

    v: int
    kids: list[Node] = []


@dataclass
class At:
    """A dataclass."""

    lat: float
    lon: float


@dataclass
class Stop:
    """A dataclass in a dataclass."""

    name: str
    at: At
    when: dt.date | None = None


class Row(TypedDict):
    """A TypedDict with an optional field."""

    a: int
    b: NotRequired[str]


class Pair(NamedTuple):
    """A named tuple with a default."""

    x: int
    y: str = "y"


class Case(NamedTuple):
    """A type, pairs of a JSON value and the Python value that it means, and the JSON types that it takes."""

    annotation: Any
    values: st.SearchStrategy[tuple[Json, Any]]
    kinds: frozenset[str]

    def __repr__(self) -> str:
        return f"Case({self.annotation})"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers(-(10**30), 10**30) | st.integers(-5, 5)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, -1.5, 1e300])
JSON_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FLOATS | TEXT
JSON: st.SearchStrategy[Json] = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def _case(annotation: Any, values: st.SearchStrategy[Any], write: Callable[[Any], Json], *kinds: str) -> Case:
    return Case(annotation, values.map(lambda value: (write(value), value)), frozenset(kinds))


def _same(value: Any) -> Any:
    return value


def _duration(value: dt.timedelta) -> str:
    sign, value = ("-", -value) if value < dt.timedelta() else ("", value)
    return f"{sign}P{value.days}DT{value.seconds}.{value.microseconds:06}S"


_STAMPS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
_UTC = _STAMPS.map(lambda value: value.replace(tzinfo=dt.UTC))

SCALARS: tuple[Case, ...] = (
    _case(str, TEXT, _same, "string"),
    _case(int, INTEGERS, _same, "number"),
    _case(float, FLOATS, _same, "number"),
    _case(bool, st.booleans(), _same, "boolean"),
    _case(None, st.none(), _same, "null"),
    _case(Literal["a", "b c"], st.sampled_from(["a", "b c"]), _same, "string"),
    _case(Literal[1, 0, -7], st.sampled_from([1, 0, -7]), _same, "number"),
    _case(Literal[True], st.just(True), _same, "boolean"),
    Case(
        Literal["x", 1, True, None],
        st.sampled_from([("x", "x"), (1, 1), (True, True), (None, None)]),
        frozenset({"string", "number", "boolean", "null"}),
    ),
    _case(Color, st.sampled_from(Color), lambda value: value.value, "string"),
    _case(Level, st.sampled_from(Level), lambda value: int(value), "number"),
    _case(Rights, st.sampled_from([Rights(n) for n in range(4)]), lambda value: value.value, "number"),
    Case(
        Odd,
        st.sampled_from([(1, Odd.ONE), ("w", Odd.WORD), ("2024-01-02", Odd.DAY), ([1, 2], Odd.PAIR)]),
        frozenset({"number", "string", "array"}),
    ),
    _case(dt.date, st.dates(), dt.date.isoformat, "string"),
    _case(dt.datetime, _STAMPS | _UTC, dt.datetime.isoformat, "string"),
    _case(dt.time, st.times(), dt.time.isoformat, "string"),
    _case(dt.timedelta, st.timedeltas(dt.timedelta(-999), dt.timedelta(999)), _duration, "string"),
    _case(uuid.UUID, st.uuids(), str, "string"),
    _case(decimal.Decimal, st.decimals(-(10**9), 10**9, places=3), str, "string", "number"),
    _case(pathlib.Path, st.sampled_from(["a/b", "c.txt", "/x"]).map(pathlib.Path), str, "string"),
    _case(bytes, TEXT.map(str.encode), bytes.decode, "string"),
    _case(Annotated[int, Field(ge=-3, le=30)], st.integers(-3, 30), _same, "number"),
    _case(Annotated[str, Field(min_length=1, max_length=4)], st.text("abé", min_size=1, max_size=4), _same, "string"),
    _case(Annotated[float, "with text"], FLOATS, _same, "number"),
)  # fmt: skip

_ITEMS = st.builds(Item, sku=TEXT, n=INTEGERS, tags=st.lists(TEXT, max_size=2))
_NODES = st.recursive(
    st.builds(Node, v=st.integers(), kids=st.just([])),
    lambda kids: st.builds(Node, v=st.integers(), kids=st.lists(kids, max_size=2)),
    max_leaves=4,
)
_STOPS = st.builds(Stop, name=TEXT, at=st.builds(At, FLOATS, FLOATS), when=st.none() | st.dates())
_ROWS = st.fixed_dictionaries({"a": INTEGERS}, optional={"b": TEXT})


def _plain(value: Any) -> Json:
    return json.loads(json.dumps(dataclasses.asdict(value), default=str))


OBJECTS: tuple[Case, ...] = (
    _case(Item, _ITEMS, lambda value: value.model_dump(mode="json"), "object"),
    _case(Node, _NODES, lambda value: value.model_dump(mode="json"), "object"),
    _case(Stop, _STOPS, _plain, "object"),
    _case(Row, _ROWS, dict, "object"),
    _case(Pair, st.builds(Pair, INTEGERS, TEXT), list, "array"),
)

_KEYS: tuple[Case, ...] = (
    _case(str, TEXT, _same),
    _case(int, INTEGERS, str),
    _case(bool, st.booleans(), lambda value: str(value).lower()),
    _case(dt.date, st.dates(), dt.date.isoformat),
    _case(Color, st.sampled_from(Color), lambda value: value.value),
    _case(Level, st.sampled_from(Level), lambda value: str(int(value))),
    _case(Literal["k", 5], st.sampled_from(["k", 5]), str),
)
_HASHABLE = tuple(case for case in SCALARS if case.annotation not in (None, Odd))


def _many(case: Case, size: int = 3) -> st.SearchStrategy[list[tuple[Json, Any]]]:
    return st.lists(case.values, max_size=size)


def _collected(case: Case, annotation: Any, make: Callable[[list[Any]], Any]) -> Case:
    values = _many(case).map(lambda pairs: ([sent for sent, _ in pairs], make([meant for _, meant in pairs])))
    return Case(annotation, values, frozenset({"array"}))


def _mapped(key: Case, case: Case, annotation: Any) -> Case:
    def pair(entries: dict[Any, tuple[Json, Any]]) -> tuple[Json, Any]:
        sent = {text: value for (text, _), (value, _) in entries.items()}
        return sent, {meant: value for (_, meant), (_, value) in entries.items()}

    return Case(annotation, st.dictionaries(key.values, case.values, max_size=3).map(pair), frozenset({"object"}))


def _fixed(cases: Sequence[Case]) -> Case:
    values = st.tuples(*(case.values for case in cases)).map(
        lambda pairs: ([sent for sent, _ in pairs], tuple(meant for _, meant in pairs))
    )
    return Case(tuple[tuple(case.annotation for case in cases)], values, frozenset({"array"}))  # pyright: ignore[reportInvalidTypeArguments]


def _optional(case: Case) -> Case:
    return Case(Optional[case.annotation], case.values | st.just((None, None)), case.kinds | {"null"})  # noqa: UP045


def _union(cases: Sequence[Case]) -> Case:
    annotations = tuple(case.annotation for case in cases)
    kinds = frozenset[str]().union(*(case.kinds for case in cases))
    return Case(Union[annotations], st.one_of(*(case.values for case in cases)), kinds)  # noqa: UP007


def _containers(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    hashable = st.sampled_from(_HASHABLE)
    return st.one_of(
        inner.map(lambda case: _collected(case, list[case.annotation], list)),
        inner.map(lambda case: _collected(case, Sequence[case.annotation], list)),
        inner.map(lambda case: _collected(case, Iterable[case.annotation], list)),
        inner.map(lambda case: _collected(case, tuple[case.annotation, ...], tuple)),
        inner.map(lambda case: _collected(case, collections.deque[case.annotation], collections.deque)),
        hashable.map(lambda case: _collected(case, set[case.annotation], set)),
        hashable.map(lambda case: _collected(case, frozenset[case.annotation], frozenset)),
        st.tuples(st.sampled_from(_KEYS), inner).map(
            lambda two: _mapped(*two, dict[two[0].annotation, two[1].annotation])
        ),
        inner.map(lambda case: _mapped(_KEYS[0], case, Mapping[str, case.annotation])),
        inner.map(_optional),
        st.lists(inner, min_size=1, max_size=3).map(_fixed),
        st.lists(inner, min_size=2, max_size=3).filter(_apart).map(_union),
    )  # fmt: skip


def _apart(cases: Sequence[Case]) -> bool:
    """Whether each JSON value belongs to at most one of the types."""
    return sum(len(case.kinds) for case in cases) == len(frozenset[str]().union(*(case.kinds for case in cases)))


CASES = st.recursive(st.sampled_from(SCALARS + OBJECTS), _containers, max_leaves=3)

_PLAIN_LEAVES: tuple[Any, ...] = (str, int, float, bool, None, Any, list, dict, Literal["a"], Literal["a", "b"],
                                  Literal[1, 2], Literal[0], Literal[True], Literal[True, False])  # fmt: skip
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(_PLAIN_LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),
        inner.map(lambda one: dict[str, one]),
        inner.map(lambda one: Optional[one]),  # noqa: UP045
        st.lists(inner, min_size=2, max_size=3).map(lambda many: Union[tuple(many)]),  # noqa: UP007
    ),
    max_leaves=4,
)


@dataclass
class Function:
    """A generated function that keeps what it was called with.

    Attributes:
        call: The function.
        cases: What each parameter takes.
        received: What the last call gave it, by name.
    """

    call: Callable[..., Any]
    cases: dict[str, Case]
    defaults: dict[str, Any]
    received: dict[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        return f"Function{inspect.signature(self.call)}"[:500]


_NAMES = ("self", "cls", "args", "kwargs", "context", "tool", "name", "type", "title", "default", "schema", "_x", "q")


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """A function of one to three parameters of any kind."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    kinds = sorted(draw(st.lists(st.sampled_from([0, 1, 3]), min_size=len(names), max_size=len(names))))
    cases = {name: draw(CASES) for name in names}
    optional = sorted(draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names))))
    defaults: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, kind, has_default in zip(names, kinds, optional, strict=True):
        default: Any = inspect.Parameter.empty
        if has_default:
            default = defaults[name] = draw(cases[name].values)[1]
        annotation = cases[name].annotation
        parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=default, annotation=annotation))
    made = Function(_recorder(parameters), cases, defaults)
    made.received = cast("Any", made.call).received
    return made


def _recorder(parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    """A real function with these parameters: its body writes down what it gets."""
    bare = inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty
                                                if parameter.default is inspect.Parameter.empty else ...)
                              for parameter in parameters])  # fmt: skip
    source = f"def body{bare}:\n    received.clear()\n    received.update(locals())\n    return None\n"
    scope: dict[str, Any] = {"received": {}, "Ellipsis": ...}
    exec(source, scope)
    body = scope["body"]
    body.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    body.__defaults__ = (
        tuple(one.default for one in parameters if one.kind != 3 and one.default is not one.empty) or None
    )
    body.__kwdefaults__ = {
        one.name: one.default for one in parameters if one.kind == 3 and one.default is not one.empty
    }
    body.received = scope["received"]
    return body


def equal(left: Any, right: Any) -> bool:
    """Equality of values and of their types, at every depth: 1, 1.0 and True differ."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        mine, other = cast("dict[Any, Any]", left), cast("dict[Any, Any]", right)
        return len(mine) == len(other) and all(key in other and equal(value, other[key]) for key, value in mine.items())
    if isinstance(left, list | tuple | collections.deque):
        mine, other = list(cast("list[Any]", left)), list(cast("list[Any]", right))
        return len(mine) == len(other) and all(map(equal, mine, other))
    if isinstance(left, BaseModel):
        return equal(dict(left), dict(right))
    if dataclasses.is_dataclass(left):
        return equal(vars(left), vars(right))
    return left == right and repr(left) == repr(right) if isinstance(left, float) else left == right


def accepts(schema: Any, value: Json, *, formats: bool = False) -> bool:
    """Whether a value matches a schema, as jsonschema sees it."""
    checker = Draft202012Validator.FORMAT_CHECKER if formats else None
    return cast("Any", Draft202012Validator(schema, format_checker=checker)).is_valid(value)


def for_schema(schema: Any, root: Any = None) -> st.SearchStrategy[Json]:
    """Values that a schema accepts, for the schemas that Handrail makes."""
    root = schema if root is None else root
    if schema is True:
        return JSON
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: for_schema(root["$defs"][name], root))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if "anyOf" in schema:
        return st.one_of(*(for_schema(one, root) for one in schema["anyOf"]))
    return _BY_TYPE.get(schema.get("type"), _any_for)(schema, root)


def _any_for(_: Any, __: Any) -> st.SearchStrategy[Json]:
    return JSON


def _number_for(_: Any, __: Any) -> st.SearchStrategy[Json]:
    return FLOATS | st.integers(-(2**53), 2**53)


def _boolean_for(_: Any, __: Any) -> st.SearchStrategy[Json]:
    return st.booleans()


def _null_for(_: Any, __: Any) -> st.SearchStrategy[Json]:
    return st.none()


def _text_for(schema: Any, _: Any) -> st.SearchStrategy[Json]:
    if (form := _FORMATS.get(schema.get("format"))) is not None:
        return form
    if "pattern" in schema:
        return st.from_regex(re.compile(schema["pattern"], re.ASCII), fullmatch=True)
    return st.text("abé ", min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 6))


def _integer_for(schema: Any, _: Any) -> st.SearchStrategy[Json]:
    low, high = schema.get("minimum"), schema.get("maximum")
    whole = st.integers(low if low is not None else -(10**20), high if high is not None else 10**20)
    return whole | whole.filter(lambda value: abs(value) < 2**53).map(float)


def _array_for(schema: Any, root: Any) -> st.SearchStrategy[Json]:
    if "prefixItems" in schema:
        return st.tuples(*(for_schema(one, root) for one in schema["prefixItems"])).map(list)
    items = for_schema(schema.get("items", True), root)
    return st.lists(items, min_size=schema.get("minItems", 0), max_size=schema.get("maxItems", 3))


def _object_for(schema: Any, root: Any) -> st.SearchStrategy[Json]:
    fields = {name: for_schema(one, root) for name, one in schema.get("properties", {}).items()}
    required = schema.get("required", ())
    known = st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={name: one for name, one in fields.items() if name not in required},
    )
    extra = schema.get("additionalProperties")
    if not extra:
        return known
    names = for_schema({"type": "string", **schema.get("propertyNames", {})}, root)
    others = st.dictionaries(names.filter(lambda name: name not in fields), for_schema(extra, root), max_size=2)
    return st.tuples(others, known).map(lambda two: {**two[0], **two[1]})


_BY_TYPE: dict[Any, Callable[[Any, Any], st.SearchStrategy[Json]]] = {
    "string": _text_for,
    "integer": _integer_for,
    "number": _number_for,
    "boolean": _boolean_for,
    "null": _null_for,
    "array": _array_for,
    "object": _object_for,
}
_FORMATS: dict[Any, st.SearchStrategy[Json]] = {
    "date": st.dates().map(dt.date.isoformat),
    "date-time": _UTC.map(dt.datetime.isoformat),
    "time": st.times().map(dt.time.isoformat),
    "duration": st.timedeltas(dt.timedelta(-999), dt.timedelta(999)).map(_duration),
    "uuid": st.uuids().map(str),
}


@st.composite
def mutations(draw: st.DrawFn, value: Json) -> Json:
    """A value with one change somewhere inside: another value, one more key or item, or one less."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        entries = cast("dict[str, Json]", value)
        key = draw(st.sampled_from(sorted(entries)))
        return {**entries, key: draw(mutations(entries[key]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        items = cast("list[Json]", value)
        i = draw(st.integers(0, len(items) - 1))
        return [*items[:i], draw(mutations(items[i])), *items[i + 1 :]]
    changes: list[st.SearchStrategy[Json]] = [JSON_SCALARS, JSON, st.sampled_from([[], {}, "", "1", "true", "[]"])]
    if isinstance(value, dict):
        entries = cast("dict[str, Json]", value)
        changes.append(st.tuples(TEXT, JSON).map(lambda extra: {**entries, extra[0]: extra[1]}))
        changes += [st.just({name: item for name, item in entries.items() if name != key}) for key in entries]
    if isinstance(value, list):
        changes.append(JSON.map(lambda extra: [*cast("list[Json]", value), extra]))
        changes.append(st.just(cast("list[Json]", value)[:-1]))
    if isinstance(value, int | float):
        changes += [
            st.just(str(value)),
            st.just(-value - 1),
            st.just(value + 100),
            st.just(bool(value)),
            st.just(value + 0.5),
        ]
    if isinstance(value, str):
        changes += [st.just(value + "x"), st.just(value * 5), st.just([value]), st.just(" " + value)]
    return draw(st.one_of(*changes))
