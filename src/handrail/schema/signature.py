"""What a callable takes and gives: its parameters, their annotations, and the one that the library fills in."""

from __future__ import annotations

import asyncio
import collections.abc
import copy
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin

import typing_extensions
from pydantic.fields import FieldInfo

from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import typeddict_fields

MISSING: Any = inspect.Parameter.empty
"""No default, or no annotation. Compare by identity."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""A default that cannot be shown: the argument is simply left out of the call."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One parameter that the model fills in.

    Attributes:
        name: The name in the signature.
        key: The name on the wire, which an alias may change.
        annotation: The type with its metadata.
        default: The default, or ``MISSING``.
        kind: Of ``inspect.Parameter``.
        description: What an annotation says of it; None where it says nothing.
        reserved: For ``**kwargs``: names that the call fills in otherwise, so that the model must not.
    """

    name: str
    key: str
    annotation: Any
    default: Any
    kind: inspect._ParameterKind
    description: str | None = None
    reserved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """A callable, read once.

    Attributes:
        parameters: Those that the model fills in, in order.
        context: The name of the parameter that receives the ``ToolContext``; None where there is none.
        context_kind: How the context is passed.
        returns: The return annotation, or ``MISSING``.
        is_async: Whether calling it gives a coroutine.
        method: Whether the first parameter is an unfilled ``self`` or ``cls``.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    context_kind: inspect._ParameterKind | None
    returns: Any
    is_async: bool
    method: bool


def read_signature(fn: Callable[..., Any], *, is_context: Callable[[Any], bool], label: str) -> Signature:
    """Read a callable of any kind: function, method, partial, callable instance, or a wrapper of one.

    Args:
        fn: The callable.
        is_context: Tells whether an annotation asks for the library's context.
        label: How errors call it.

    Raises:
        ToolDefinitionError: If a parameter has no annotation, an annotation names something unknown, or the callable
            is of a kind that gives no result.
    """
    _refuse_generators(fn, label)
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError) as error:
        raise ToolDefinitionError(
            f"{label}: its signature cannot be read ({error})", hint="wrap it in a function with annotations"
        ) from None
    hints = _hints(fn, label)
    filled = _filled_by_partial(fn)
    raw = [parameter for parameter in signature.parameters.values() if parameter.name not in filled]
    for parameter in raw:  # a decorator may have written a signature of its own
        if parameter.name not in hints and not isinstance(parameter.annotation, str):
            hints[parameter.name] = parameter.annotation
    if raw and hasattr(fn, "registry") and hasattr(fn, "dispatch"):  # functools.singledispatch looks at a position
        raw[0] = raw[0].replace(kind=inspect.Parameter.POSITIONAL_ONLY)
    method = bool(raw) and raw[0].name in ("self", "cls") and hints[raw[0].name] is MISSING and _lives_in_class(fn)
    contexts = [parameter for parameter in raw if is_context(hints[parameter.name])]
    if len(contexts) > 1:
        names = " and ".join(repr(parameter.name) for parameter in contexts)
        raise ToolDefinitionError(f"{label}: both {names} are annotated ToolContext", hint="keep one of them")
    if contexts:
        _check_context(contexts[0], raw, label)
    reserved = filled | {parameter.name for parameter in contexts} | _bound_name(fn)
    parameters = _parameters(raw[1:] if method else raw, hints, contexts, reserved, label, untyped=_is_lambda(fn))
    context = contexts[0] if contexts else None
    return Signature(
        tuple(parameters),
        context.name if context else None,
        context.kind if context else None,
        _unwrap_awaitable(hints.get("return", MISSING)),
        is_async_callable(fn),
        method,
    )


def _check_context(context: inspect.Parameter, raw: list[inspect.Parameter], label: str) -> None:
    """The context is passed by name, so it has to be a parameter that takes one."""
    if context.kind in _STARS:
        raise ToolDefinitionError(
            f"{label}: {_starred(context)!r} is annotated ToolContext", hint="write it without the star"
        )
    starred = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in raw)
    if context.kind is inspect.Parameter.POSITIONAL_ONLY or (
        starred and context.kind is not inspect.Parameter.KEYWORD_ONLY
    ):
        raise ToolDefinitionError(
            f"{label}: {context.name!r} is annotated ToolContext, and cannot be passed by name",
            hint="write it after the '*', or behind the '/'",
        )


def is_async_callable(fn: Callable[..., Any]) -> bool:
    """Tell whether calling ``fn`` gives a coroutine, seeing through partials and callable instances."""
    inner = _innermost(fn)
    return inspect.iscoroutinefunction(inner)


def call_target(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that says what a callable is: behind partials, and ``__call__`` of an instance."""
    return inspect.unwrap(_innermost(fn))


def described(annotation: Any) -> tuple[Any, str | None]:
    """Split the text off an ``Annotated[T, "text"]``; a ``Field(description=...)`` stays with pydantic."""
    if get_origin(annotation) is not Annotated:
        return annotation, None
    metadata: tuple[Any, ...] = annotation.__metadata__
    texts = [item for item in metadata if isinstance(item, str)]
    texts += [item.documentation for item in metadata if isinstance(item, typing_extensions.Doc)]
    if not texts:
        return annotation, None
    rest = [item for item in metadata if not isinstance(item, str | typing_extensions.Doc)]
    inner = get_args(annotation)[0]
    return (Annotated[(inner, *rest)] if rest else inner), texts[0]  # pyright: ignore[reportInvalidTypeForm]


def _parameters(
    raw: list[inspect.Parameter],
    hints: dict[str, Any],
    contexts: list[inspect.Parameter],
    reserved: set[str],
    label: str,
    *,
    untyped: bool,
) -> Iterator[Parameter]:
    for parameter in raw:
        if parameter in contexts:
            continue
        annotation = hints.get(parameter.name, MISSING)
        if annotation is MISSING and untyped:
            annotation = Any
        if annotation is MISSING:
            raise ToolDefinitionError(_untyped(parameter, label), hint=_untyped_hint(parameter))
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and get_origin(annotation) in _UNPACK:
            yield from _unpacked(get_args(annotation)[0])
        else:
            yield _parameter(parameter, annotation, reserved)


def _parameter(parameter: inspect.Parameter, annotation: Any, reserved: set[str]) -> Parameter:
    default = parameter.default
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], _field_default(default)
    annotation, text = described(annotation)
    fields = [item for item in getattr(annotation, "__metadata__", ()) if isinstance(item, FieldInfo)]
    if default is MISSING:
        default = next((found for field in fields if (found := _field_default(field)) is not MISSING), MISSING)
    alias = next((found for field in fields if (found := field.validation_alias or field.alias)), None)
    key = alias if isinstance(alias, str) else parameter.name
    if alias is not None:  # done with: pydantic warns of an alias outside of a model
        annotation = Annotated[(get_args(annotation)[0], *map(_without_alias, annotation.__metadata__))]
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        annotation = get_args(annotation)[0] if get_origin(annotation) in _UNPACK else list[annotation]
        return Parameter(parameter.name, key, annotation, ABSENT, parameter.kind, text)
    held = frozenset(reserved) if parameter.kind is inspect.Parameter.VAR_KEYWORD else frozenset[str]()
    return Parameter(parameter.name, key, annotation, default, parameter.kind, text, held)


def _without_alias(item: Any) -> Any:
    if not isinstance(item, FieldInfo):
        return item
    bare = copy.copy(item)
    bare.alias = bare.validation_alias = bare.serialization_alias = None
    return bare


def _field_default(field: FieldInfo) -> Any:
    if field.default_factory is not None:
        return ABSENT  # pydantic makes one for every call
    return MISSING if field.is_required() else field.get_default()


def _unpacked(typed_dict: Any) -> Iterator[Parameter]:
    """``**kwargs: Unpack[TD]`` stands for one keyword parameter for each key of ``TD``."""
    for name, (hint, required) in typeddict_fields(typed_dict).items():
        annotation, text = described(hint)
        default = MISSING if required else ABSENT
        yield Parameter(name, name, annotation, default, inspect.Parameter.KEYWORD_ONLY, text)


def _hints(fn: Callable[..., Any], label: str) -> dict[str, Any]:
    target = call_target(fn)
    names: dict[str, Any] | None = None
    while True:
        try:
            return typing.get_type_hints(target, localns=names, include_extras=True)
        except NameError as error:
            if names is None:
                names = visible_names(getattr(target, "__globals__", None)) | _nonlocals(target)
                continue
            raise ToolDefinitionError(
                f"{label}: an annotation names {error.name or str(error)!r}, which is not defined",
                hint="import it outside `if TYPE_CHECKING:`, or define it at module level before the tool",
            ) from None
        except TypeError as error:
            if not callable(target) or not hasattr(target, "__annotations__"):
                return {}
            raise ToolDefinitionError(f"{label}: an annotation cannot be read ({error})") from None
        except (SyntaxError, AttributeError) as error:
            raise ToolDefinitionError(f"{label}: an annotation cannot be read ({error})") from None


def visible_names(module: object = None) -> dict[str, Any]:
    """Names that annotations written as text may mean: the locals of the calls under way.

    Args:
        module: The globals of a module, to look at its calls only. Default: at all but Handrail's.
    """
    found: dict[str, Any] = {}
    frame = sys._getframe(1)
    while frame is not None:
        here = frame.f_globals
        ours = str(here.get("__name__", "")).startswith("handrail.")
        if (here is module or (module is None and not ours)) and frame.f_locals is not here:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _nonlocals(target: Callable[..., Any]) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(target).nonlocals)
    except (TypeError, ValueError):
        return {}


def _refuse_generators(fn: Callable[..., Any], label: str) -> None:
    target = call_target(fn)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise ToolDefinitionError(
            f"{label} is a generator: it yields values, and a tool gives one result",
            hint="return a list; report progress with ToolContext.progress()",
        )


def _filled_by_partial(fn: Callable[..., Any]) -> set[str]:
    """Arguments that a partial has filled by name are not the model's to choose."""
    filled: set[str] = set()
    while isinstance(fn, functools.partial):
        filled |= set(fn.keywords)
        fn = cast("Callable[..., Any]", fn.func)
    return filled


def _bound_name(fn: Callable[..., Any]) -> set[str]:
    """The name under which a bound method already has its instance."""
    while isinstance(fn, functools.partial):
        fn = cast("Callable[..., Any]", fn.func)
    bound = fn if inspect.ismethod(fn) else getattr(fn, "__call__", None)  # noqa: B004 - for its parameters
    code = getattr(getattr(bound, "__func__", None), "__code__", None)
    return {code.co_varnames[0]} if code is not None and code.co_argcount else set()


def _innermost(fn: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(fn, functools.partial):
        fn = cast("Callable[..., Any]", fn.func)
    plain = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)
    if not isinstance(fn, plain) and not hasattr(fn, "__wrapped__"):
        return type(fn).__call__
    return fn


def _lives_in_class(fn: Callable[..., Any]) -> bool:
    return "." in getattr(fn, "__qualname__", "").rpartition("<locals>.")[2]


def _is_lambda(fn: Callable[..., Any]) -> bool:
    return getattr(_innermost(fn), "__name__", "") == "<lambda>"


def _unwrap_awaitable(annotation: Any) -> Any:
    """A function that returns an awaitable is awaited, so its result is what the awaitable gives."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (collections.abc.Awaitable, collections.abc.Coroutine, asyncio.Future, asyncio.Task) and arguments:
        return arguments[-1]
    return annotation


_UNPACK = (typing.Unpack, typing_extensions.Unpack)
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _starred(parameter: inspect.Parameter) -> str:
    return f"{_STARS.get(parameter.kind, '')}{parameter.name}"


def _untyped(parameter: inspect.Parameter, label: str) -> str:
    return f"{label}: the parameter '{_starred(parameter)}' has no annotation"


def _untyped_hint(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"write **{parameter.name}: str to take any further text arguments, or leave it out"
    return f"write {_starred(parameter)}: str, or another type that says what the model may send"


def union_members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation alone."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
