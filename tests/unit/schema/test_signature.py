"""Any Python callable can be a tool, and the body is called as its signature says."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest
import typing_extensions
from pydantic import BaseModel, Field
from typing_extensions import Doc, Unpack

from handrail import Tool, ToolContext, Toolset, tool
from handrail.errors import ToolDefinitionError

if TYPE_CHECKING:
    from decimal import Decimal


def made(function: Any, **options: Any) -> Tool:
    """A tool of a function without a docstring."""
    options.setdefault("description", "A test's tool.")
    return tool(function, **options)


async def value(function: Any, sent: Any, **options: Any) -> Any:
    """What a call through the gate gives."""
    built = made(function, **options)
    result = await Toolset.of(built).call(built.name, sent, context=ToolContext(deps="the deps"))
    assert result.code is None, result
    return result.value


async def refusal(function: Any, sent: Any, **options: Any) -> str:
    """Why a call through the gate is refused before the body."""
    built = made(function, **options)
    result = await Toolset.of(built).call(built.name, sent, context=ToolContext(deps="the deps"))
    assert result.code == "invalid_arguments", result
    return result.wire


def properties(function: Any, **options: Any) -> dict[str, Any]:
    """The advertised parameters."""
    return made(function, **options).parameters["properties"]


def three(a: int, b: int, c: int = 3) -> list[int]:
    return [a, b, c]


def only_by_position(a: int, /, b: int = 2) -> list[int]:
    return [a, b]


def only_by_name(*, a: int, b: int = 2) -> list[int]:
    return [a, b]


def rest(a: int, *more: int, k: int = 9) -> list[Any]:
    return [a, list(more), k]


def further(a: int, **extra: str) -> list[Any]:
    return [a, extra]


class Options(TypedDict, total=False):
    """Keyword arguments, by name."""

    p: typing_extensions.Required[int]
    q: Annotated[str, "said"]


def unpacked(x: int, **options: Unpack[Options]) -> list[Any]:
    return [x, options]


def pair(*args: *tuple[int, str]) -> Any:
    return args


def odd_names(self: int, cls: str, args: list[int], kwargs: dict[str, int], context: str, tool: str) -> list[Any]:
    return [self, cls, args, kwargs, context, tool]


PARAMETERS: list[Any] = [
    (three, {"a": 1, "b": 2}, [1, 2, 3]),
    (only_by_position, {"a": 1}, [1, 2]),
    (only_by_position, {"b": 5, "a": 1}, [1, 5]),
    (only_by_name, {"a": 1}, [1, 2]),
    (rest, {"a": 1}, [1, [], 9]),
    (rest, {"a": 1, "more": [2, 3], "k": 4}, [1, [2, 3], 4]),
    (further, {"a": 1, "colour": "red"}, [1, {"colour": "red"}]),
    (further, {"a": 1, "extra": "x"}, [1, {"extra": "x"}]),
    (unpacked, {"x": 1, "p": 2}, [1, {"p": 2}]),
    (unpacked, {"x": 1, "p": 2, "q": "s"}, [1, {"p": 2, "q": "s"}]),
    (pair, {"args": [1, "a"]}, [1, "a"]),
    (
        odd_names,
        {"self": 1, "cls": "c", "args": [1], "kwargs": {"a": 1}, "context": "x", "tool": "t"},
        [1, "c", [1], {"a": 1}, "x", "t"],
    ),
]


@pytest.mark.parametrize(("function", "sent", "gives"), PARAMETERS)
async def test_kinds_of_parameters(function: Any, sent: Any, gives: Any) -> None:
    """Parameters of every kind reach the body as its signature wants them, whatever they are called."""
    assert await value(function, sent) == gives


async def test_refusals_of_kinds() -> None:
    """Types, missing arguments and stray keys are refused for every kind of parameter."""
    assert "a: required" in await refusal(only_by_position, {"b": 1})
    assert "more[0]" in await refusal(rest, {"a": 1, "more": ["x"]})
    assert "colour: Input should be a valid string" in await refusal(further, {"a": 1, "colour": 1})
    assert "p: required" in await refusal(unpacked, {"x": 1})
    assert "z: unknown argument" in await refusal(unpacked, {"x": 1, "p": 1, "z": 1})
    assert "args[1]: required" in await refusal(pair, {"args": [1]})


def test_schema_of_kinds() -> None:
    """``*args`` is a list, ``**kwargs`` further keys, and neither is ever required."""
    assert made(rest).parameters["required"] == ["a"]
    assert made(further).parameters["required"] == ["a"]
    assert made(further).parameters["additionalProperties"] == {"type": "string"}
    assert properties(rest)["more"] == {"items": {"type": "integer"}, "type": "array"}
    assert properties(unpacked)["q"] == {"type": "string", "description": "said"}


class Desk:
    """Callables of a class."""

    def __init__(self, number: int) -> None:
        self.number = number

    def method(self, k: int) -> int:
        return self.number * k

    @classmethod
    def of_class(cls, k: int) -> list[Any]:
        return [cls.__name__, k]

    @staticmethod
    def static(k: int) -> int:
        return k

    async def slow(self, k: int) -> int:
        return self.number + k

    def __call__(self, k: int) -> int:
        return self.number - k

    def keywords(self, **extra: int) -> dict[str, int]:
        return extra

    part = functools.partialmethod(method, k=3)


class Waiting:
    """An object whose call is async."""

    async def __call__(self, sku: str) -> str:
        """Wait for an item."""
        return f"got {sku}"


async def add(a: int, b: int) -> int:
    return a + b


TRACE: list[str] = []


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        TRACE.append(function.__name__)
        return function(*args, **kwargs)

    return wrapper


def traced_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        TRACE.append(function.__name__)
        result = function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return wrapper


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@functools.singledispatch
def dispatched(a: Any, b: int = 1) -> Any:
    return ["any", a, b]


@dispatched.register
def _(a: int, b: int = 1) -> Any:
    return ["int", a, b]


@functools.lru_cache
def cached(a: int, b: str = "z") -> list[Any]:
    return [a, b]


UNTYPED: Any = eval("lambda q, r=2: [q, r]")


def gives_awaitable(a: int, b: int) -> Awaitable[int]:
    return add(a, b)


@pytest.mark.parametrize(
    ("function", "name", "sent", "gives"),
    [
        (Desk(3).method, "method", {"k": 2}, 6),
        (Desk.of_class, "of_class", {"k": 2}, ["Desk", 2]),
        (Desk.static, "static", {"k": 2}, 2),
        (Desk(3).slow, "slow", {"k": 2}, 5),
        (Desk(3), "Desk", {"k": 2}, 1),
        (Desk(3).part, "method", {}, 9),
        (Waiting(), "Waiting", {"sku": "7"}, "got 7"),
        (partial(three, 1), "three", {"b": 2}, [1, 2, 3]),
        (partial(three, b=7), "three", {"a": 1, "c": 5}, [1, 7, 5]),
        (partial(partial(three, 1), 2), "three", {}, [1, 2, 3]),
        (partial(Desk(2).method, 4), "method", {}, 8),
        (partial(Desk.method, Desk(2)), "method", {"k": 4}, 8),
        (partial(Desk(5)), "Desk", {"k": 1}, 4),
        (partial(Waiting(), "8"), "Waiting", {}, "got 8"),
        (partial(add, 1), "add", {"b": 2}, 3),
        (traced(three), "three", {"a": 1, "b": 2}, [1, 2, 3]),
        (traced(only_by_position), "only_by_position", {"a": 1}, [1, 2]),
        (traced_async(three), "three", {"a": 1, "b": 2}, [1, 2, 3]),
        (traced_async(add), "add", {"a": 1, "b": 2}, 3),
        (passed_on(add), "add", {"a": 1, "b": 2}, 3),
        (gives_awaitable, "gives_awaitable", {"a": 1, "b": 2}, 3),
        (dispatched, "dispatched", {"a": 1}, ["int", 1, 1]),
        (dispatched, "dispatched", {"a": "x", "b": 2}, ["any", "x", 2]),
        (cached, "cached", {"a": 1}, [1, "z"]),
        (UNTYPED, "given", {"q": {"k": [1]}}, [{"k": [1]}, 2]),
    ],
)
async def test_kinds_of_callables(function: Any, name: str, sent: Any, gives: Any) -> None:
    """Methods, partials, wrappers, callable objects, cached and dispatched functions all work, sync or async."""
    built = made(function, **({"name": "given"} if name == "given" else {}))
    assert built.name == name
    assert await value(function, sent, **({"name": "given"} if name == "given" else {})) == gives


async def test_wrappers_are_called() -> None:
    """The schema is the inner function's, and the call goes through the wrapper."""
    TRACE.clear()
    await value(traced(three), {"a": 1, "b": 2})
    await value(traced_async(add), {"a": 1, "b": 2})
    assert TRACE == ["three", "add"]


async def test_each_object_keeps_its_own_tool() -> None:
    """Tools of two objects' methods stay apart, and what a partial has filled is not the model's to choose."""
    assert await value(Desk(1).method, {"k": 5}) == 5
    assert await value(Desk(100).method, {"k": 5}) == 500
    assert "b: unknown argument" in await refusal(partial(three, b=1), {"a": 1, "b": 2})


async def test_further_keywords_cannot_replace_what_is_filled() -> None:
    """``**kwargs`` never lets the model fill what a partial, the object, the context or an alias already has."""

    def capped(limit: int, **extra: int) -> list[Any]:
        return [limit, extra]

    def told(ctx: ToolContext, **extra: int) -> list[Any]:
        return [ctx.deps, extra]

    def renamed(a: Annotated[int, Field(alias="aA")], **extra: int) -> list[Any]:
        return [a, extra]

    assert await value(partial(capped, limit=1), {"x": 2}) == [1, {"x": 2}]
    assert "limit: unknown argument" in await refusal(partial(capped, limit=1), {"limit": 99})
    assert "self: unknown argument" in await refusal(Desk(1).keywords, {"self": 1})
    assert "ctx: unknown argument" in await refusal(told, {"ctx": 1})
    assert "a: unknown argument" in await refusal(renamed, {"aA": 1, "a": 2})
    assert await value(renamed, {"aA": 1, "b": 2}) == [1, {"b": 2}]


def test_methods_without_an_object() -> None:
    """A method that was taken from its class is refused, mentioning self."""
    with pytest.raises(ToolDefinitionError, match="self"):
        made(Desk.method)


def numbers(n: int) -> Iterator[int]:
    yield n


async def many(n: int) -> AsyncIterator[int]:
    yield n


class Counting:
    """An object whose call is a generator."""

    def __call__(self, n: int) -> Iterator[int]:
        yield n


@pytest.mark.parametrize("function", [numbers, many, Counting(), partial(numbers, 1), passed_on(numbers)])
def test_generators(function: Any) -> None:
    """A generator gives no one result, so it is refused with advice."""
    with pytest.raises(ToolDefinitionError, match=r"generator.*return a list"):
        made(function)


def bare(a, b: int) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]


def bare_args(*a) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]


def bare_kwargs(**a) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]


NO_TOOLS: list[Any] = [
    (bare, "the parameter 'a' has no annotation (write a: str"),
    (bare_args, "the parameter '*a' has no annotation (write *a: str"),
    (bare_kwargs, "the parameter '**a' has no annotation (write **a: str"),
    (max, "its signature cannot be read"),
    (len, "has no annotation"),
    (int, "is a class"),
    (UNTYPED, "a lambda has no name"),
    (5, "cannot be called"),
]


@pytest.mark.parametrize(("function", "words"), NO_TOOLS)
def test_what_cannot_be_a_tool(function: Any, words: str) -> None:
    """What cannot be described is refused where it is defined, with what to write instead."""
    with pytest.raises(ToolDefinitionError) as caught:
        made(function)
    assert words in str(caught.value)


def test_signatures_that_a_decorator_writes() -> None:
    """A decorator's own ``__signature__`` counts, with its annotations."""

    def function(**kwargs: Any) -> Any:
        return kwargs

    parameter = inspect.Parameter("extra", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    function.__signature__ = inspect.Signature([parameter])  # pyright: ignore[reportFunctionMemberAccess]
    assert properties(function) == {"extra": {"type": "integer"}}


Alias = ToolContext


class Sub(ToolContext[Any]):
    """A context of one's own."""


class Nested:
    """Holds the context's type as an attribute."""

    Context = ToolContext


SPELLINGS = (
    "ToolContext", "ToolContext[dict[str, int]]", "ToolContext | None", "Optional[ToolContext]",
    "Optional[ToolContext[Any]]", "Union[ToolContext, None]", "Annotated[ToolContext, 'x']", "'ToolContext'", "Alias",
    "Nested.Context", "Sub",
)  # fmt: skip
PLACES = (
    "def f(q: str, ctx: {0}): return [q, ctx.deps]",
    "def f(ctx: {0}, q: str): return [q, ctx.deps]",
    "def f(q: str, *, ctx: {0}): return [q, ctx.deps]",
    "def f(q: str, ctx: {0} = None): return [q, ctx.deps]",
    "def f(*, ctx: {0} = None, q: str): return [q, ctx.deps]",
    "async def f(q: str, *more: int, ctx: {0}): return [q, ctx.deps]",
    "def f(q: str, /, ctx: {0}): return [q, ctx.deps]",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_the_context(spelling: str, place: str) -> None:
    """The context is found by its type in every spelling and place; the model neither sees nor fills it."""
    scope = dict(globals())
    exec(place.format(spelling), scope)
    built = made(scope["f"])
    assert "ctx" not in built.parameters["properties"]
    assert await value(scope["f"], {"q": "a"}) == ["a", "the deps"]
    assert "ctx: unknown argument" in await refusal(scope["f"], {"q": "a", "ctx": {"deps": "evil"}})


def two(a: ToolContext, b: ToolContext) -> None: ...


def starred(*a: ToolContext) -> None: ...


def starred_twice(**a: ToolContext) -> None: ...


def listed(a: list[ToolContext]) -> None: ...


def only_first(a: ToolContext, /, b: int) -> None: ...


def before_star(a: ToolContext, *b: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (two, "both 'a' and 'b' are annotated ToolContext"),
        (starred, "'*a' is annotated ToolContext (write it without the star)"),
        (starred_twice, "'**a' is annotated ToolContext"),
        (listed, "cannot be described"),
        (only_first, "'a' is annotated ToolContext, and cannot be passed by name"),
        (before_star, "cannot be passed by name (write it after the '*'"),
    ],
)
def test_contexts_that_cannot_be_filled(function: Any, words: str) -> None:
    """A context that the library could not fill in is refused where it is defined."""
    with pytest.raises(ToolDefinitionError) as caught:
        made(function)
    assert words in str(caught.value)


@dataclasses.dataclass
class Tree:
    """A dataclass that names itself."""

    v: int
    left: Optional[Tree] = None  # noqa: UP045


async def test_forward_references() -> None:
    """Annotations that are text are resolved, in the module, in enclosing functions, and in classes."""

    class Local(BaseModel):
        a: int
        sub: Optional[Local] = None  # noqa: UP045

    class Kind(enum.Enum):
        A = "a"

    @dataclasses.dataclass
    class Holder:
        kind: Kind

    Ints = list[int]

    def f(x: Local, tree: Tree, holder: Holder, ints: Ints, kind: Kind = Kind.A) -> Any:  # pyright: ignore[reportInvalidTypeForm, reportUnknownParameterType]
        return [x.a, tree.left.v if tree.left else None, holder.kind.value, ints, kind.value]

    sent = {"x": {"a": 1}, "tree": {"v": 1, "left": {"v": 2}}, "holder": {"kind": "a"}, "ints": [1]}
    assert await value(f, sent) == [1, 2, "a", [1], "a"]


def late(amount: Decimal) -> None: ...


def nowhere(amount: Nowhere) -> None: ...  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType] # noqa: F821


UNKNOWN: list[Any] = [(late, "Decimal"), (nowhere, "Nowhere")]


@pytest.mark.parametrize(("function", "name"), UNKNOWN)
def test_unknown_names(function: Any, name: str) -> None:
    """An annotation that names something unknown is refused, naming it."""
    with pytest.raises(ToolDefinitionError, match=f"names '{name}', which is not defined"):
        made(function)


def described(
    a: Annotated[int, "of the annotation"],
    b: Annotated[int, Doc("of a Doc")],
    c: Annotated[int, Field(description="of a Field", ge=1)],
    d: Annotated[int, "text", Field(le=3)],
    e: int,
    g: int = Field(5, description="of a default"),
) -> None:
    """Describe.

    Args:
        a: Of the docstring.
        b: Of the docstring.
        c: Of the docstring.
        d: Of the docstring.
        e: Of the docstring.
        g: Of the docstring.
    """


def test_descriptions() -> None:
    """The annotation speaks before the docstring, and bounds beside it hold."""
    fields = properties(described, description=None)
    texts = [field["description"] for field in fields.values()]
    assert texts == ["of the annotation", "of a Doc", "of a Field", "text", "Of the docstring.", "of a default"]
    assert fields["c"]["minimum"] == 1
    assert fields["d"]["maximum"] == 3
    assert fields["g"]["default"] == 5


async def test_field_as_default() -> None:
    """``x: int = Field(3)`` means a default of 3 that the body receives."""

    def f(x: int = Field(3, ge=1), y: list[int] = Field(default_factory=list)) -> Any:  # noqa: B008
        y.append(x)
        return [x, y]

    assert await value(f, {}) == [3, [3]]
    assert await value(f, {}) == [3, [3]]
    assert "x" in await refusal(f, {"x": 0})


class Later(TypedDict):
    """Has an optional field, said as text."""

    a: Literal[1]
    b: NotRequired[int]


def by_union(x: Union[Later, None] = None) -> Any:  # noqa: UP007
    return x


async def test_future_annotations() -> None:
    """With ``from __future__ import annotations`` everything is as without."""
    assert await value(by_union, {"x": {"a": 1}}) == {"a": 1}
    assert "x.a: required" in await refusal(by_union, {"x": {"b": 2}})


def test_awaitables_of_results() -> None:
    """The result of a function that returns an awaitable is what the awaitable gives."""

    def f() -> asyncio.Future[list[int]]: ...  # pyright: ignore[reportReturnType]

    assert made(f).output_schema == {"type": "array", "items": {"type": "integer"}}
    assert made(gives_awaitable).output_schema == {"type": "integer"}
