"""What the schema accepts, the body gets, in the type that its annotation says; nothing else reaches it."""

from __future__ import annotations

import collections
import copy
import datetime as dt
import decimal
import enum
import io
import ipaddress
import itertools
import json
import re
import threading
import types
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import IO, Annotated, Any, Literal, LiteralString, NewType, TypedDict, TypeVar

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    Json,
    SecretStr,
    TypeAdapter,
    WrapValidator,
    create_model,
)
from typing_extensions import TypeAliasType

from handrail import Tool, tool
from handrail.errors import ToolDefinitionError
from handrail.schema.arguments import ArgumentError
from support.strategies import (
    At,
    Color,
    Function,
    Item,
    Level,
    Node,
    Pair,
    Rights,
    Row,
    Stop,
    accepts,
    equal,
    for_schema,
    functions,
    mutations,
)

PROPERTY = settings(
    max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def made(function: Any) -> Tool:
    """A tool of a function without a docstring."""
    return tool(function, description="A test's tool.")


def call(built: Tool, sent: Any) -> Any:
    """Parse arguments and run the body with them, without the gate."""
    parsed = built.arguments.parse(sent)
    built.body(*parsed.positional, **parsed.keyword)
    return parsed


@PROPERTY
@given(functions(), st.data())
def test_valid_arguments_reach_the_body(function: Function, data: st.DataObject) -> None:
    """For any signature the body gets what was sent in the annotated types, and defaults where nothing was sent."""
    built = made(function.call)
    drawn = {name: data.draw(case.values) for name, case in function.cases.items()}
    absent = data.draw(st.sets(st.sampled_from(sorted(function.defaults)))) if function.defaults else set[str]()
    sent = {name: value for name, (value, _) in drawn.items() if name not in absent}
    meant = {name: value for name, (_, value) in drawn.items()} | {name: function.defaults[name] for name in absent}
    note(f"{built.parameters} <- {sent}")
    before = copy.deepcopy(sent)
    assert accepts(built.parameters, sent)
    parsed = call(built, json.dumps(sent))
    assert parsed.repairs == ()
    assert parsed.raw == sent == before
    assert equal(function.received, meant), (function.received, meant)


@PROPERTY
@given(functions(), st.data())
def test_what_the_schema_accepts_is_accepted(function: Function, data: st.DataObject) -> None:
    """Arguments made up from the advertised schema alone are accepted, and have the annotated types."""
    built = made(function.call)
    sent = data.draw(for_schema(built.parameters))
    note(f"{built.parameters} <- {sent}")
    parsed = call(built, json.dumps(sent))
    assert all(": a number read as an integer" in one for one in parsed.repairs)
    for name in sent:
        annotation = function.cases[name].annotation
        TypeAdapter[Any](annotation).validate_python(function.received[name], strict=True)


@PROPERTY
@given(functions(), st.data())
def test_invalid_arguments_never_reach_the_body(function: Function, data: st.DataObject) -> None:
    """Arguments that do not match the advertised schema are refused; what is repaired is on record."""
    built = made(function.call)
    sent = data.draw(mutations({name: data.draw(case.values)[0] for name, case in function.cases.items()}))
    note(f"{built.parameters} <- {sent}")
    try:
        parsed = call(built, json.dumps(sent))
    except ArgumentError:
        return
    assert parsed.repairs or accepts(built.parameters, sent, formats=True)


def taking(annotation: Any, **options: Any) -> Tool:
    """A tool that takes one argument of a type and gives it back."""

    def f(x: Any) -> Any:
        return x

    f.__annotations__ = {"x": annotation}
    return tool(f, description="A test's tool.", **options)


def get(annotation: Any, value: Any) -> Any:
    """What the body receives for a JSON value."""
    parsed = taking(annotation).arguments.parse(json.dumps({"x": value}))
    return parsed.keyword["x"]


def refused(annotation: Any, value: Any) -> str:
    """Why a JSON value is refused."""
    with pytest.raises(ArgumentError) as caught:
        get(annotation, value)
    return caught.value.text


def repaired(annotation: Any, value: Any) -> tuple[Any, tuple[str, ...]]:
    """What the body receives for a JSON value, and what had to be repaired."""
    parsed = taking(annotation).arguments.parse(json.dumps({"x": value}))
    return parsed.keyword["x"], parsed.repairs


class Mixed(enum.Enum):
    """Members of several types."""

    ONE = 1
    WORD = "b"
    DAY = dt.date(2024, 1, 2)
    PAIR = (1, 2)


class Word(enum.StrEnum):
    """Members that are text."""

    A = "a"
    B = "b"


class Bits(enum.IntFlag):
    """A flag with a gap between its bits."""

    R = 1
    X = 4


Ints = TypeAliasType("Ints", list[int])


def _wrapped(value: Any, rest: Callable[[Any], Any]) -> Any:
    return rest(value)


class Lenient(enum.Enum):
    """An enum that finds members by other spellings."""

    ON = 1

    @classmethod
    def _missing_(cls, value: object) -> Lenient | None:
        return cls.ON if value == "on" else None


VALUES: list[Any] = [
    (Color, "red", Color.RED),
    (Level, 1, Level.HIGH),
    (Level, 1.0, Level.HIGH),
    (Word, "a", Word.A),
    (Mixed, "2024-01-02", Mixed.DAY),
    (Mixed, [1, 2], Mixed.PAIR),
    (Bits, 5, Bits.R | Bits.X),
    (Bits, 0, Bits(0)),
    (Lenient, "on", Lenient.ON),
    (Literal[Color.RED], "red", Color.RED),
    (Literal[b"x"], "x", b"x"),
    (Literal[1, True], True, True),
    (Literal[True, 1], 1.0, 1),
    (Literal[0, False], False, False),
    (Literal["a", None], None, None),
    (Iterable[int], [1, 2], [1, 2]),
    (Sequence[str], ["a"], ["a"]),
    (AbstractSet[int], [1, 1], frozenset({1})),
    (collections.deque[int], [1], collections.deque([1])),
    (collections.OrderedDict[str, int], {"a": 1}, collections.OrderedDict(a=1)),
    (collections.Counter[str], {"a": 1}, collections.Counter("a")),
    (collections.defaultdict[str, list[int]], {"a": [1]}, collections.defaultdict(list, a=[1])),
    (ipaddress.IPv4Address, "1.2.3.4", ipaddress.IPv4Address("1.2.3.4")),
    (re.Pattern[str], "a+", re.compile("a+")),
    (complex, "1+2j", 1 + 2j),
    (LiteralString, "a", "a"),
    (NewType("Id", int), 3, 3),
    (Ints, [1], [1]),
    (TypeVar("T", bound=int), 1, 1),
    (Annotated[dt.date, BeforeValidator(str.strip)], " 2024-01-02 ", dt.date(2024, 1, 2)),
    (Annotated[tuple[int, ...], BeforeValidator(list)], [1], (1,)),
    (Annotated[dt.date, WrapValidator(_wrapped)], "2024-01-02", dt.date(2024, 1, 2)),
    (dict[int, str], {"1": "a", "-20": "b"}, {1: "a", -20: "b"}),
    (dict[float, int], {"1.5": 1}, {1.5: 1}),
    (dict[bool, int], {"true": 1}, {True: 1}),
    (dict[Level, int], {"1": 1}, {Level.HIGH: 1}),
    (dict[Literal[1, "a"], int], {"1": 1, "a": 2}, {1: 1, "a": 2}),
    (dict[str | int, int], {"1": 1}, {"1": 1}),
    (int | float, 1, 1),
    (int | float, 1.0, 1.0),
    (float | int, 1, 1),
    (int | str, "007", "007"),
    (dt.date | str, "2024-01-02", "2024-01-02"),
    (uuid.UUID | str, str(uuid.UUID(int=1)), str(uuid.UUID(int=1))),
    (int | bool, True, True),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 0.1, decimal.Decimal("0.1")),
    (dt.datetime, "2024-01-02 03:04", dt.datetime(2024, 1, 2, 3, 4)),
    (float, 1, 1.0),
    (int, 10**30, 10**30),
    (str, "\U0001f680", "\U0001f680"),
]


@pytest.mark.parametrize(("annotation", "value", "meant"), VALUES)
def test_types_of_values(annotation: Any, value: Any, meant: Any) -> None:
    """Every type that pydantic describes is built from its JSON form, and text stays text wherever text is allowed."""
    received = get(annotation, value)
    assert (received, type(received)) == (meant, type(meant))
    if annotation is not Lenient:  # whose own code takes more than it lists
        assert accepts(taking(annotation).parameters, {"x": value})


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (bool, 1, "boolean"),
        (bool, "yes", "boolean"),
        (int, True, "integer"),
        (int, 1.5, "integer"),
        (int, "x", "integer"),
        (int, "", "integer"),
        (int, " 1", "integer"),
        (int, 1e300, "integer"),
        (float, "nan", "number"),
        (float, True, "number"),
        (float, 2**53 + 1, "more digits"),
        (str, 1, "string"),
        (str, None, "string"),
        (Literal["north", "south"], "North ", "'north' or 'south'"),
        (Literal[1, 2], True, "1 or 2"),
        (Literal[1, 2], "1", "1 or 2"),
        (Literal[True], 1, "true"),
        (Level, True, "0 or 1"),
        (Mixed, "no", '1, "b", "2024-01-02" or [1,2]'),
        (Bits, 2, "1 (R), 4 (X)"),
        (Bits, True, "sum"),
        (Color, "RED", "'red' or 'blue'"),
        (Iterable[int], [1, "x"], "x[1]"),
        (Pair, {"x": 1}, "array"),
        (Pair, [1, "a", 2], "at most 2"),
        (Row, {"a": 1, "zz": 2}, "x.zz: unknown argument"),
        (Item, {"sku": "a", "m": 1}, "x.m: unknown argument"),
        (Stop, {"name": "a", "at": {"lat": 1}}, "x.at.lon: required"),
        (Node, {"v": 1, "kids": [{"v": "q"}]}, "x.kids[0].v"),
        (tuple[int, str], [1], "x[1]: required"),
        (dict[int, int], {"01": 1}, "x.01: as a key"),
        (dict[int, int], {" 1": 1}, "as a key"),
        (dict[int, int], {"-0": 1}, "as a key"),
        (dict[int, int], {"1\n": 1}, "as a key"),
        (dict[float, int], {"nan": 1}, "as a key"),
        (dict[bool, int], {"yes": 1}, "as a key"),
        (dt.datetime, 1704164645, "a date and time such as"),
        (dt.datetime, "1704164645", "a date and time such as"),
        (dt.datetime, "2024-01-02", "a date and time such as"),
        (dt.datetime, "2024-01-02T03:04:60Z", "second value"),
        (dt.datetime, "2024-01-02T03:04:05.123456789Z", "second fraction"),
        (dt.date, "19000", "a date such as"),
        (dt.date, "2024-02-30", "day value"),
        (dt.timedelta, 5, "PT1H30M"),
        (dt.timedelta, "1:00:00", "PT1H30M"),
        (dt.timedelta, "PT0.0000001S", "PT1H30M"),
        (uuid.UUID, "12345678123456781234567812345678", "UUID"),
        (decimal.Decimal, "NaN", "decimal"),
        (decimal.Decimal, True, "decimal"),
        (decimal.Decimal, "1_0", "decimal"),
        (int | float, "1", "a valid integer or a valid number"),
        (int | str, None, "a valid string or a valid integer"),
        (list[int] | list[str], [1, "a"], "x["),
        (Annotated[str, Field(min_length=5)] | int, "12", "at least 5"),
        (ipaddress.IPv4Address, 16909060, "string"),
    ],
)
def test_refusals(annotation: Any, value: Any, words: str) -> None:
    """What a type does not take is refused with the field and what it takes: nothing is coerced, and bool is no int."""
    text = refused(annotation, value)
    assert words in text
    assert text.startswith("x")


@pytest.mark.parametrize(
    ("annotation", "value", "meant", "said"),
    [
        (int, 7.0, 7, "a number read as an integer"),
        (int, "7000000000000000123", 7000000000000000123, "text read as an integer"),
        (float, "1.5", 1.5, "text read as a number"),
        (bool, "false", False, "text read as a boolean"),
        (list[int], "[1, 2]", [1, 2], "text read as a list"),
        (Item, '{"sku": "a"}', Item(sku="a"), "text read as an object"),
        (Item | None, '{"sku": "a"}', Item(sku="a"), "text read as an object"),
        (dict[str, int] | list[int], '{"a": 1}', {"a": 1}, "text read as an object"),
        (int | list[int], "[1]", [1], "text read as a list"),
        (int | str, 7.0, 7, "a number read as an integer"),
        (int | bool, 1.0, 1, "a number read as an integer"),
        (list[int | str], [1.0, "1"], [1, "1"], "a number read as an integer"),
    ],
)
def test_repairs(annotation: Any, value: Any, meant: Any, said: str) -> None:
    """A value whose type leaves one reading is repaired, exactly, and the repair is on record."""
    received, repairs = repaired(annotation, value)
    assert (received, type(received)) == (meant, type(meant))
    assert len(repairs) == 1
    assert repairs[0].startswith("x")
    assert repairs[0].endswith(said)


@pytest.mark.parametrize("value", ["[1]", '{"a": 1}', "1", "true", "null", "1.5", ""])
@pytest.mark.parametrize("annotation", [str, str | None, str | list[int], int | str, Annotated[str, "text"]])
def test_text_that_looks_like_json(annotation: Any, value: str) -> None:
    """Text for a parameter that takes text is never decoded."""
    assert repaired(annotation, value) == (value, ())


def test_null_and_absence() -> None:
    """Null and absence mean the default of an optional parameter; a required nullable one has to be given."""

    def f(a: int | None, b: int = 3, c: str | None = None) -> list[Any]:
        return [a, b, c]

    built = made(f)
    assert built.parameters["required"] == ["a"]
    assert call(built, '{"a": null, "c": null}').repairs == ()
    parsed = call(built, {"a": None, "b": None})
    assert parsed.keyword == {"a": None}
    assert parsed.repairs == ("b: null for an optional argument: left out",)
    with pytest.raises(ArgumentError, match="a: required, and missing"):
        call(built, "{}")


@pytest.mark.parametrize("nothing", ["", "  ", "null", None, "{}", {}, b"{}"])
def test_no_arguments(nothing: Any) -> None:
    """However a provider says that there are no arguments, a tool without required ones is called."""
    assert call(tool(lambda: None, name="now", description="d"), nothing).keyword == {}


def test_misspelt_names() -> None:
    """A stray key is refused with the nearest name, and with all names where none is near."""

    def book(day: str, seat_class: str = "eco") -> None: ...

    match = r"seatClass: unknown argument; did you mean 'seat_class'\? \(accepted: day, seat_class\)"
    with pytest.raises(ArgumentError, match=match):
        call(made(book), {"day": "x", "seatClass": "biz"})
    with pytest.raises(ArgumentError, match="zzz: unknown argument; accepted: day, seat_class"):
        call(made(book), {"day": "x", "zzz": 1})


def test_all_problems_at_once() -> None:
    """Every wrong field is named in one answer, so that the model can repair them in one go."""

    def f(a: int, b: str, c: bool = True) -> None: ...

    with pytest.raises(ArgumentError) as caught:
        call(made(f), {"a": "x", "c": "y", "d": 1})
    assert [part.partition(":")[0] for part in caught.value.text.split("; ")][:4] == ["a", "b", "c", "d"]


def _secretive(value: Any) -> Any:
    raise ValueError(f"not good: {value!r} ({value})")


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        Literal["a"],
        Color,
        dt.date,
        uuid.UUID,
        decimal.Decimal,
        ipaddress.IPv4Address,
        list[int],
        Item,
        bool | int,
        Annotated[str, AfterValidator(_secretive)],
        Annotated[str, Field(pattern="^q")],
        HttpUrl,
        Json,
    ],
)
def test_no_values_in_refusals(annotation: Any) -> None:
    """A refusal never repeats what was sent: it may be a secret."""
    assert "sk-VERYSECRET" not in refused(annotation, "sk-VERYSECRET")
    assert "sk-VERYSECRET" not in refused(list[annotation], ["sk-VERYSECRET"])


def test_tags_of_unions_stay_out_of_refusals() -> None:
    """A wrong discriminator is answered with the ones that exist, not with the one that was sent."""

    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"]

    union = Annotated[Cat | Dog, Field(discriminator="kind")]
    assert refused(union, {"kind": "sk-SECRET"}) == "x: 'kind' should be one of 'cat', 'dog'"
    assert refused(union, {"kind": "cat", "lives": "many"}) == "x.lives: Input should be a valid integer"
    assert get(union, {"kind": "cat", "lives": 9}) == Cat(kind="cat", lives=9)
    assert refused(Cat | Dog, {"kind": "cat", "lives": "many"}) == "x.lives: Input should be a valid integer"


@pytest.mark.parametrize(
    ("extra", "taken"), [("allow", {"a": 1, "z": 2}), ("ignore", {"a": 1}), ("forbid", None), (None, None)]
)
def test_unknown_keys_of_models(extra: Any, taken: Any) -> None:
    """A model is closed unless it says otherwise itself, beside models that say something else."""
    config = ConfigDict(extra=extra) if extra else ConfigDict()
    model = create_model("Model", a=(int, ...), __config__=config)
    both = create_model("Both", one=(model, ...), item=(Item, ...))
    sent = {"one": {"a": 1, "z": 2}, "item": {"sku": "a"}}
    assert accepts(taking(both).parameters, {"x": sent}) is (taken is not None)
    if taken is None:
        assert refused(both, sent) == "x.one.z: unknown argument"
    else:
        assert get(both, sent).one.model_dump() == taken
    assert refused(both, {**sent, "item": {"sku": "a", "q": 1}}).endswith("x.item.q: unknown argument")


def test_fields_with_odd_names() -> None:
    """Fields that are called like a schema's own words are fields."""

    class Odd(TypedDict):
        type: Literal[1]
        config: dict[int, int]
        default: int
        metadata: Level
        cls: Pair

    sent = {"type": 1, "config": {"1": 2}, "default": 3, "metadata": 1, "cls": [1]}
    assert get(Odd, sent) == {"type": 1, "config": {1: 2}, "default": 3, "metadata": Level.HIGH, "cls": Pair(1)}
    assert "x.metadata" in refused(Odd, {**sent, "metadata": True})
    assert "x.type" in refused(Odd, {**sent, "type": True})
    assert "x.config.01" in refused(Odd, {**sent, "config": {"01": 1}})


@pytest.mark.parametrize(
    "annotation",
    [
        Callable[[int], int],
        type,
        type[int],
        types.ModuleType,
        object.__class__,
        io.StringIO,
        IO[str],
        list[threading.Event],
        dict[str, Callable[..., Any]],
        dict[tuple[int, int], str],
        dict[None, str],
        Generator[int, None, None],
        Exception,
        bytearray,
        5,
        {"a": int},
        Annotated[int, Field(pattern="(")],
    ],
)
def test_what_cannot_be_described(annotation: Any) -> None:
    """A type without a JSON form is refused where the tool is defined, naming the parameter and what to write."""
    with pytest.raises(ToolDefinitionError) as caught:
        taking(annotation)
    assert "the parameter 'x' cannot be described as JSON" in str(caught.value)
    assert "ToolContext.deps" in str(caught.value)
    assert "arbitrary_types_allowed" not in str(caught.value)
    assert "core_schema" not in str(caught.value)


def test_schema_of_keys_and_flags() -> None:
    """The advertised schema says how keys are written and which sums a flag takes."""
    names = taking(dict[Level, int]).parameters["properties"]["x"]["propertyNames"]
    assert names == {"enum": ["0", "1"]}
    assert taking(dict[bool, int]).parameters["properties"]["x"]["propertyNames"] == {"enum": ["true", "false"]}
    assert taking(Rights).parameters["$defs"]["Rights"]["maximum"] == 3
    assert taking(Bits).parameters["$defs"]["Bits"]["enum"] == [0, 1, 4, 5]


def test_bounds_that_json_cannot_carry() -> None:
    """Infinite bounds and defaults that are no JSON numbers are left out of the schema."""

    class Range(BaseModel):
        low: Annotated[float, Field(ge=float("-inf"))] = float("-inf")

    def f(r: Range, x: Annotated[float, Field(le=float("inf"))] = float("nan")) -> None: ...

    schema = made(f).parameters
    json.dumps(schema, allow_nan=False)
    assert schema["properties"]["x"] == {"type": "number"}
    assert schema["$defs"]["Range"]["properties"]["low"] == {"type": "number"}


class Twin:
    """A default whose equality cannot be asked for."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (Color, Color.RED, "red"),
        (dt.date, dt.date(2024, 1, 2), "2024-01-02"),
        (Item, Item(sku="a"), {"sku": "a", "n": 1, "tags": []}),
        (Any, Twin(), None),
        (Any, object(), None),
        (float, float("nan"), None),
        (bytes, b"\xff", None),
        (SecretStr, SecretStr("s"), None),
        (int | None, None, "null"),
        (list[int], [], []),
    ],
)
def test_defaults(annotation: Any, default: Any, shown: Any) -> None:
    """A default is shown as JSON, left out where it has no JSON form, and is the body's default either way."""

    def f(x: Any = default) -> Any:
        return x

    f.__annotations__ = {"x": annotation}
    built = made(f)
    described = built.parameters["properties"]["x"]
    assert "x" not in built.parameters.get("required", ())
    assert described.get("default", "absent") == ("absent" if shown is None else None if shown == "null" else shown)
    parsed = built.arguments.parse({})
    received = built.body(*parsed.positional, **parsed.keyword)
    assert type(received) is type(default)


@pytest.mark.parametrize("default", [[1], {"a": [1]}, {1}, Item(sku="a"), collections.deque([1]), ([1],), At(1, 2)])
def test_defaults_are_not_shared(default: Any) -> None:
    """A body that changes its default changes nothing for the next call."""

    def f(x: Any = default) -> Any:
        return x

    built = made(f)
    first, second = (built.arguments.parse({}).keyword["x"] for _ in range(2))
    assert first == second == default
    assert first is not second
    assert first is not default


def test_defaults_that_are_made_for_each_call() -> None:
    """A default factory runs for each call, not when the tool is defined, and shows no default."""
    counter = itertools.count()

    def f(
        x: int = Field(default_factory=lambda: next(counter)), y: Annotated[int, Field(default_factory=lambda: 9)] = 8
    ) -> None: ...

    built = made(f)
    assert next(counter) == 0
    assert [built.arguments.parse({}).keyword["x"] for _ in range(2)] == [1, 2]
    assert "default" not in built.parameters["properties"]["x"]
    assert "required" not in built.parameters


def test_aliases() -> None:
    """An alias is the name on the wire; the body gets its own name, also where two aliases cross."""

    def f(
        a: Annotated[int, Field(alias="b")], b: Annotated[int, Field(alias="a")], c: int = Field(3, alias="cC")
    ) -> Any: ...

    built = made(f)
    assert list(built.parameters["properties"]) == ["b", "a", "cC"]
    assert built.arguments.parse({"b": 1, "a": 2}).keyword == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(ArgumentError, match="c: unknown argument; did you mean 'cC'"):
        built.arguments.parse({"b": 1, "a": 2, "c": 3})


def test_two_parameters_of_one_name() -> None:
    """Two parameters that would have one name on the wire are refused."""

    def f(a: int, b: Annotated[int, Field(alias="a")]) -> None: ...

    with pytest.raises(ToolDefinitionError, match="two parameters are called 'a'"):
        made(f)


def test_secrets() -> None:
    """Arguments that hold a password, at whatever depth, are known, so that no event shows them."""

    class Login(BaseModel):
        user: str
        password: SecretStr

    def f(a: str, b: SecretStr, c: Login, d: list[Login], e: Item, g: SecretStr | None = None) -> None: ...

    assert made(f).arguments.secret_keys == {"b", "c", "d", "g"}


def test_exact_numbers() -> None:
    """A number that would lose digits is refused, wherever it stands; in a set its place does not matter."""
    assert get(set[float], [9007199254740992, 3]) == {9007199254740992.0, 3.0}
    assert get(set[Level], [1, 0]) == {Level.HIGH, Level.LOW}
    assert "x[0]: the number has more digits" in refused(set[float], [9007199254740993, 3])
    assert "x[1]" in refused(list[float], [1, 9007199254740993])
    assert "digits" in refused(dict[int, float], {"1": 9007199254740993})
    long = '{"x": 0.1234567890123456789012345}'
    with pytest.raises(ArgumentError, match="digits"):
        taking(decimal.Decimal).arguments.parse(long)
    aliased = create_model("Aliased", n=(float, Field(alias="nN")))
    assert "x.nN" in refused(aliased, {"nN": 9007199254740993})


def test_the_sent_mapping_stays_as_it_is() -> None:
    """A mapping that the caller passes is read, never changed, and may hold Python values."""
    sent = {"day": dt.date(2024, 1, 2), "items": [{"sku": "a"}]}

    def f(day: dt.date, items: list[Item]) -> None: ...

    parsed = made(f).arguments.parse(types.MappingProxyType(sent))
    assert parsed.keyword == {"day": dt.date(2024, 1, 2), "items": [Item(sku="a")]}
    parsed.raw["items"].append(1)
    assert sent == {"day": dt.date(2024, 1, 2), "items": [{"sku": "a"}]}
