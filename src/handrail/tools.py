"""A tool: what a model may call, declared once.

``tool`` turns a function into a ``Tool``: its signature and docstring give the schema that is advertised, the check
that every call passes, and the types that the body receives.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import math
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeAlias, cast, get_args, get_origin, overload

from typing_extensions import TypeVar

from handrail.errors import ToolDefinitionError, ToolError
from handrail.naming import BUILTIN_NAMES, NAME_PATTERN, did_you_mean
from handrail.provenance import Label
from handrail.schema.arguments import Arguments, Parsed, build_arguments
from handrail.schema.docstrings import read_docstring
from handrail.schema.foreign import ForeignArguments
from handrail.schema.output import Output, build_output
from handrail.schema.signature import MISSING, Signature, call_target, read_signature, union_members
from handrail.values import value

__all__ = [
    "UNSET",
    "Effect",
    "Link",
    "Media",
    "Part",
    "RemoteResult",
    "Text",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "as_tool",
    "define_tool",
    "tool",
]

DEFAULT_TIMEOUT = 30.0
"""Seconds that a call may take where the tool does not say otherwise."""

DEFAULT_MAX_RESULT_BYTES = 256 * 1024
"""Bytes of a result that reach the model where the tool does not say otherwise."""

Effect: TypeAlias = Literal["read", "write", "egress", "destructive", "grant", "money", "credential", "profile"]
"""What a tool does to the world; see ``tool(effects=...)``."""

EFFECTS: frozenset[str] = frozenset(get_args(Effect))


class _Unset:
    """The value of what was not given. Compare by identity: None, 0 and ``[]`` are values."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        raise TypeError("compare with `is UNSET`")


UNSET: Any = _Unset()
"""Not given."""

Deps = TypeVar("Deps", default=Any)


@dataclass(frozen=True, slots=True)
class Text:
    """Text in a result."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a file in a result.

    Attributes:
        data: The content.
        media_type: Its MIME type, such as ``image/png``.
        name: A file name.
    """

    data: bytes = field(repr=False)
    media_type: str
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.data), bytes) or "/" not in self.media_type:
            raise ToolDefinitionError(
                f"Media takes bytes and a MIME type, not {type(self.data).__name__} and {self.media_type!r}",
                hint='write Media(data, "image/png")',
            )

    @property
    def note(self) -> str:
        """What stands for it where only text can stand."""
        name = f"{self.name}, " if self.name else ""
        return f"[{name}{self.media_type}, {len(self.data)} bytes]"


@dataclass(frozen=True, slots=True)
class Link:
    """A reference to something that was not fetched."""

    uri: str
    name: str | None = None
    media_type: str | None = None

    @property
    def note(self) -> str:
        """The link as text."""
        return f"[{self.name or 'link'}: {self.uri}]"


Part: TypeAlias = Text | Media | Link
"""One piece of a result, in the order in which the tool gave it."""


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """What a tool that runs elsewhere answered.

    Attributes:
        parts: The content, in order.
        structured: Structured content as plain JSON data; ``UNSET`` where there was none.
        is_error: Whether the tool itself says that it failed.
    """

    parts: tuple[Part, ...] = ()
    structured: Any = UNSET
    is_error: bool = False


@value
class ToolResult:
    """The one result of one call.

    Attributes:
        call_id: The call's id, distinct within its run.
        name: The tool's name as the model knows it.
        wire: The text that the model reads: the value as strict JSON, a string as it is, an error as a short text.
        code: None for a success. Otherwise ``unknown_tool``, ``invalid_arguments``, ``denied``, ``needs_approval``,
            ``call_limit``, ``timeout``, ``tool_error``, ``bad_result``, or the code of an MCP error.
        label: Where it came from.
        parts: Text and media in order, where the tool gave any media.
        message: What a developer should know; for a success it is empty.
        arguments: The arguments as they were sent, as plain JSON data, without secrets.
        repairs: What had to be repaired in the arguments.
        truncated: Whether the result was cut to the tool's size cap.
        retry: Whether it makes sense that the model tries again with other arguments.
        duration: Seconds from the start of the call to its result.
    """

    call_id: str
    name: str
    wire: str
    code: str | None
    label: Label
    parts: tuple[Part, ...] = ()
    message: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repairs: tuple[str, ...] = ()
    truncated: bool = False
    retry: bool = True
    duration: float = 0.0
    is_text: bool = False

    @property
    def is_error(self) -> bool:
        """Whether the call failed, for whatever reason."""
        return self.code is not None

    @property
    def value(self) -> Any:
        """The value as plain JSON data, detached from what the tool returned; None for an error."""
        if self.code is not None:
            return None
        if self.is_text or self.truncated:
            return self.wire
        from pydantic_core import from_json

        return from_json(self.wire)

    def as_dict(self) -> dict[str, Any]:
        """The result as plain JSON data."""
        data: dict[str, Any] = {
            "call_id": self.call_id,
            "tool": self.name,
            "is_error": self.is_error,
            "code": self.code,
            "value": self.value,
            "wire": self.wire,
            "arguments": dict(self.arguments),
            "tainted": self.label.tainted,
            "source": self.label.source,
            "server": self.label.server,
            "duration": self.duration,
        }
        if self.message:
            data["message"] = self.message
        if self.repairs:
            data["repairs"] = list(self.repairs)
        if self.truncated:
            data["truncated"] = True
        return data


class CancelToken:
    """Whether a call is still wanted. Safe to read from any thread.

    It is true in a boolean context once the call was cancelled or timed out.
    """

    __slots__ = ("_event", "_lock", "_set")

    def __init__(self) -> None:
        self._set = False
        self._event: threading.Event | None = None
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return self._set

    def set(self) -> None:
        """Say that the call is no longer wanted."""
        with self._lock:
            self._set = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the call is no longer wanted, at most ``timeout`` seconds.

        Returns:
            Whether the call was cancelled.
        """
        with self._lock:
            if self._event is None:
                self._event = threading.Event()
                if self._set:
                    self._event.set()
        return self._event.wait(timeout)


@dataclass(slots=True, eq=False)
class ToolContext(Generic[Deps]):
    """What a tool may know of the call that it serves.

    A function takes it by annotating one parameter ``ToolContext``, whatever the parameter's name; the model neither
    sees nor fills it. ``ToolContext[MyDeps]`` and ``ToolContext | None`` work as well.

    Attributes:
        call_id: The id of this call.
        run_id: The id of the run; None for a call outside of a run.
        agent_id: The id of the agent that called.
        instance_id: The id of the addressed instance, such as a customer, for an agent that is bound to one.
        tool: The tool's name.
        deps: What the application passed to the run.
        user: The run's user, as the application described it; None where it did not.
        memory: A read-only view of the memory that this call may see.
        cancelled: True once the result is no longer wanted.
        log: A logger for this tool.
    """

    call_id: str = ""
    run_id: str | None = None
    agent_id: str | None = None
    instance_id: str | None = None
    tool: str = ""
    deps: Deps = None  # pyright: ignore[reportAssignmentType] - what a run without deps has
    user: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    cancelled: CancelToken = field(default_factory=CancelToken)
    _report: Callable[[float, float | None, str | None], None] | None = None

    @property
    def log(self) -> logging.Logger:
        """The logger ``handrail.tool.<name>``."""
        return logging.getLogger(f"handrail.tool.{self.tool}")

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is. It becomes an event of the run. Safe to call from any thread.

        Args:
            progress: How much is done.
            total: How much there is to do; None if unknown.
            message: A short text for people.
        """
        if self._report is not None:
            self._report(progress, total, message)


class Send(Protocol):
    """Runs a call elsewhere; see ``Tool.remote``."""

    def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Awaitable[RemoteResult]:
        """Run the call and give its answer. Arguments are validated already."""
        ...


Approval: TypeAlias = "bool | Callable[[Mapping[str, Any]], bool]"
"""Whether a call needs a person's approval: always, never, or by a predicate over its validated arguments."""


@dataclass(frozen=True, eq=False, repr=False)
class Tool:
    """What a model may call. Make one with ``tool``; it cannot be changed afterwards.

    A tool made from a function can still be called like that function, without any check.

    Attributes:
        name: What the model calls it: 1 to 64 letters, digits, ``_`` and ``-``.
        description: What the model reads to decide when to call it.
        taints: Whether results are text from outside, which a policy must not trust.
        timeout: Seconds that a call may take; 0 for no limit.
        effects: What it does to the world; None where nobody said.
        tags: Words to filter by.
        needs_approval: Whether a person has to approve a call.
        sequential: Whether calls of one turn run one after the other once this tool is among them.
        max_concurrency: How many calls may run at once; 0 for no limit.
        max_result_bytes: Bytes of a result that reach the model.
        expose_errors: Whether the model reads the text of unexpected exceptions.
        retries: How often the body runs again after an unexpected exception, within the deadline.
        source: ``custom_tool``, ``builtin`` or ``mcp_tool``.
        server: The MCP server that it belongs to.
        remote_name: The server's own name for it.
    """

    name: str
    description: str
    arguments: Arguments | ForeignArguments
    output: Output
    body: Callable[..., Any]
    context: str | None = None
    is_async: bool = False
    taints: bool = False
    timeout: float = DEFAULT_TIMEOUT
    effects: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    needs_approval: Approval = False
    sequential: bool = False
    max_concurrency: int = 0
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES
    expose_errors: bool = False
    retries: int = 0
    source: Literal["custom_tool", "builtin", "mcp_tool"] = "custom_tool"
    server: str | None = None
    remote_name: str | None = None
    one_input: bool = False
    method: bool = False
    location: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as a copy."""
        import copy

        return copy.deepcopy(self.arguments.json_schema)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the result, as a copy; None where nothing is declared."""
        import copy

        return copy.deepcopy(self.output.json_schema)

    def schema(self) -> dict[str, Any]:
        """The tool as a provider-neutral ``{name, description, parameters}``."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def rename(self, name: str) -> Tool:
        """The same tool under another name.

        Raises:
            ToolDefinitionError: If the name is not legal.
        """
        _check_name(name, self.location)
        return dataclasses.replace(self, name=name)

    def same_as(self, other: Tool) -> bool:
        """Whether both are the same tool: one body under one name, declared alike."""
        if self is other:
            return True
        same_body = self.body == other.body if inspect.ismethod(self.body) else self.body is other.body
        mine, theirs = (dataclasses.replace(one, body=_same, arguments=cast("Any", None), output=cast("Any", None))
                        for one in (self, other))  # fmt: skip
        return same_body and all(
            getattr(mine, item.name) == getattr(theirs, item.name)
            for item in dataclasses.fields(mine)
            if item.name not in ("arguments", "output", "annotations", "location")
        ) and self.arguments.json_schema == other.arguments.json_schema  # fmt: skip

    @classmethod
    def remote(
        cls,
        *,
        name: str,
        description: str | None,
        parameters: Mapping[str, Any],
        output_schema: Mapping[str, Any] | None = None,
        server: str,
        send: Send,
        timeout: float = DEFAULT_TIMEOUT,
        annotations: Mapping[str, Any] | None = None,
        max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES,
    ) -> Tool:
        """Make a tool that runs elsewhere, from what an MCP server says of it.

        Its results always count as text from outside. What the server says of its effects is not believed.

        Args:
            name: The server's name for the tool. One that providers refuse is mapped to one that they take.
            description: The server's description; one is made up from the name where it has none.
            parameters: The JSON Schema of the arguments.
            output_schema: The JSON Schema of the structured result.
            server: The server's id.
            send: Runs the call.
            timeout: Seconds that a call may take; 0 for no limit.
            annotations: The server's hints, kept for people to read.
            max_result_bytes: Bytes of a result that reach the model.

        Raises:
            ToolDefinitionError: If a schema cannot be taken over.
        """
        from handrail.naming import is_name, wire_name

        label = f"the tool {name!r} of server {server!r}"
        return cls(
            name=name if is_name(name) else wire_name(server, name),
            description=description or f"{name} (no description given by the server {server})",
            arguments=ForeignArguments(parameters, label=label),
            output=build_output(output_schema if output_schema else MISSING, label=label),
            body=send,
            context="context",
            is_async=True,
            taints=True,
            timeout=_check_timeout(timeout, label),
            source="mcp_tool",
            server=server,
            remote_name=name,
            max_result_bytes=max_result_bytes,
            annotations=MappingProxyType(dict(annotations or {})),
        )

    def approval_needed(self, arguments: object) -> bool:
        """Whether a call with these arguments has to wait for a person.

        Anything unclear means yes: arguments that do not parse, a predicate that raises, or one that answers neither
        True nor False.

        Args:
            arguments: JSON text or a mapping, as sent; or what ``Tool.arguments.parse`` gave.
        """
        if not callable(self.needs_approval):
            return self.needs_approval
        try:
            parsed = arguments if isinstance(arguments, Parsed) else self.arguments.parse(arguments)
            answer: object = self.needs_approval(MappingProxyType(_by_name(self, parsed)))
        except Exception:
            return True
        return answer is not False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that this tool was made from, as if it were not a tool."""
        return self.body(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool:
        """Bind a tool that was declared in a class body to an instance."""
        if instance is None or not self.method:
            return self
        return dataclasses.replace(self, body=self.body.__get__(instance, owner), method=False)

    def __repr__(self) -> str:
        origin = f", server={self.server!r}" if self.server else ""
        return f"Tool({self.name!r}{origin})"


def _same() -> None: ...


def _by_name(tool: Tool, parsed: Parsed) -> dict[str, Any]:
    names = [parameter.name for parameter in getattr(tool.arguments, "parameters", ())]
    return {**dict(zip(names, parsed.positional, strict=False)), **parsed.keyword}


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(function: Callable[..., Any], /, **options: Any) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input: Any = UNSET,
    output: Any = UNSET,
    taints: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    effects: Iterable[Effect] | None = None,
    tags: Iterable[str] = (),
    needs_approval: Approval = False,
    sequential: bool = False,
    max_concurrency: int = 0,
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES,
    expose_errors: bool = False,
    retries: int = 0,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a function into a tool.

    Use it as ``@tool``, as ``@tool(timeout=5)``, or as ``tool(function, name="other")``. The parameters' annotations
    give the schema; the docstring, in Google, NumPy or Sphinx style, gives the descriptions; the return annotation
    gives the output schema.

    Args:
        function: The function, sync or async: also a bound method, a partial or a callable object.
        name: The model's name for it. Default: the function's.
        description: When to call it. Default: the docstring's text before its sections.
        input: A pydantic model or a JSON Schema of an object, instead of the signature. The function then takes one
            argument: an instance of the model, or a dict.
        output: A type or a JSON Schema, instead of the return annotation. None means that it returns nothing.
        taints: Whether its results are text from outside, such as pages, mail or documents. Default False.
        timeout: Seconds that a call may take. Default 30; 0 for no limit.
        effects: What it does: any of ``read``, ``write``, ``egress``, ``destructive``, ``grant``, ``money``,
            ``credential``, ``profile``. Default: not said.
        tags: Words to filter by, in addition to the function's ``__tags__``.
        needs_approval: True, or a predicate over the validated arguments; a person then has to approve the call.
        sequential: Run the calls of a turn one after the other when this tool is among them.
        max_concurrency: How many calls may run at once. Default 0: no limit.
        max_result_bytes: Bytes of a result that reach the model. Default 256 KiB.
        expose_errors: Let the model read the text of unexpected exceptions. Default False.
        retries: How often to run the body again after an unexpected exception. Default 0.

    Raises:
        ToolDefinitionError: If the function cannot be a tool. It names the file, the line and the parameter.
    """
    if function is None:
        return functools.partial(_define, options=options)
    return _define(function, options)


define_tool = tool
"""The same function as ``tool``, by its long name."""

_OPTIONS = frozenset(
    {"name", "description", "input", "output", "taints", "timeout", "effects", "tags", "needs_approval", "sequential",
     "max_concurrency", "max_result_bytes", "expose_errors", "retries"}
)  # fmt: skip


def as_tool(entry: object) -> Tool | None:
    """The tool that an entry of a ``tools=[...]`` list is, or can be made into; None if it can not.

    Raises:
        ToolDefinitionError: If it is a function that cannot be a tool.
    """
    if isinstance(entry, Tool):
        if entry.method:
            raise ToolDefinitionError(
                f"the tool {entry.name!r} still needs its 'self'", hint="list it from an instance: obj.method"
            )
        return entry
    return _define(entry, {}) if callable(entry) else None


def _define(function: Callable[..., Any], options: Mapping[str, Any]) -> Tool:
    if isinstance(function, Tool):
        raise ToolDefinitionError(f"{function!r} is a tool already", hint="use Tool.rename for another name")
    if isinstance(function, str):
        raise ToolDefinitionError(f"{function!r} is text", hint=f"write @tool(name={function!r})")
    if not callable(function) or isinstance(function, staticmethod | classmethod):
        raise ToolDefinitionError(
            f"{function!r} cannot be called",
            hint="put @tool below @staticmethod or @classmethod, next to the function",
        )
    if isinstance(function, type):
        raise ToolDefinitionError(f"{function.__name__!r} is a class", hint="give a function, a method or an instance")
    for key in options:
        if key not in _OPTIONS:
            raise ToolDefinitionError(f"tool() has no option {key!r}", hint=did_you_mean(key, _OPTIONS))
    location = _location(function)
    name = _name(function, options.get("name"), location)
    label = f"the tool {name!r}" + (f" ({location})" if location else "")
    settings = _settings(function, options, label)
    signature = read_signature(function, is_context=_is_context, label=label)
    if signature.method and not _in_class_body(function):
        raise ToolDefinitionError(
            f"{label}: 'self' is not filled in: the method was taken from its class",
            hint="take it from an instance",
        )
    document = read_docstring(inspect.getdoc(call_target(function)))
    description = options.get("description") or document.text or document.returns
    if not isinstance(description, str) or not description.strip():
        raise ToolDefinitionError(
            f"{label} has no description",
            hint="write a docstring that says when to call it, or give description=",
        )
    given = options.get("input", UNSET)
    one_input = given is not UNSET
    arguments = (
        _given_arguments(given, signature, label)
        if one_input
        else build_arguments(signature.parameters, document.parameters, label=label)
    )
    declared = options.get("output", UNSET)
    returns = signature.returns if declared is UNSET else declared
    return Tool(
        name=name,
        description=description.strip(),
        arguments=arguments,
        output=build_output(MISSING if _has_parts(returns) else returns, label=label),
        body=function,
        context=signature.context,
        is_async=signature.is_async,
        one_input=one_input,
        method=signature.method,
        location=location,
        **settings,
    )


def _settings(function: Callable[..., Any], options: Mapping[str, Any], label: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "timeout": _check_timeout(options.get("timeout", DEFAULT_TIMEOUT), label),
        "effects": _effects(options.get("effects"), label),
        "tags": _tags(options.get("tags", ()), label) | _tags(getattr(function, "__tags__", ()), label),
    }
    for key in ("taints", "sequential", "expose_errors"):
        settings[key] = _check_flag(key, options.get(key, False), label)
    for key, default in (
        ("max_concurrency", 0),
        ("retries", 0),
        ("max_result_bytes", DEFAULT_MAX_RESULT_BYTES),
    ):
        settings[key] = _check_count(key, options.get(key, default), label)
    approval = options.get("needs_approval", False)
    if not isinstance(approval, bool) and not callable(approval):
        raise ToolDefinitionError(f"{label}: needs_approval must be True, False or a function, not {approval!r}")
    settings["needs_approval"] = approval
    return settings


def _given_arguments(given: Any, signature: Signature, label: str) -> Arguments | ForeignArguments:
    if len(signature.parameters) != 1:
        raise ToolDefinitionError(
            f"{label}: with input= the function takes one argument, not {len(signature.parameters)}",
            hint="take the validated input as the only parameter beside a ToolContext",
        )
    if isinstance(given, Mapping):
        return ForeignArguments(cast("Mapping[str, Any]", given), label=label)
    from handrail.schema.models import ModelArguments

    return ModelArguments(given, label=label)


def _name(function: Callable[..., Any], given: object, location: str | None) -> str:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = cast("Any", inner).func
    own = getattr(inner, "__name__", None) or type(inner).__name__
    name = given if given is not None else own
    return _check_name(name, location)


def _check_name(name: object, location: str | None) -> str:
    place = f" ({location})" if location else ""
    if not isinstance(name, str) or NAME_PATTERN.fullmatch(name) is None:
        hint = "a lambda has no name: give one with tool(fn, name=...)" if name == "<lambda>" else (
            "use 1 to 64 letters, digits, '_' or '-'; give one with tool(fn, name=...)")  # fmt: skip
        raise ToolDefinitionError(f"{name!r} is not a legal name for a tool{place}", hint=hint)
    if name in BUILTIN_NAMES:
        raise ToolDefinitionError(f"{name!r} is the name of a built-in tool{place}", hint="choose another name")
    return name


def _location(function: Callable[..., Any]) -> str | None:
    code = getattr(call_target(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def _check_timeout(value: object, label: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ToolDefinitionError(
            f"{label}: timeout must be a number of seconds, not {value!r}", hint="0 means no limit"
        )
    return float(value)


def _check_flag(key: str, value: object, label: str) -> bool:
    if not isinstance(value, bool):
        raise ToolDefinitionError(f"{label}: {key} must be True or False, not {value!r}")
    return value


def _check_count(key: str, value: object, label: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < (1 if key == "max_result_bytes" else 0):
        raise ToolDefinitionError(f"{label}: {key} must be a whole number, not {value!r}")
    return value


def _effects(given: object, label: str) -> frozenset[str] | None:
    if given is None:
        return None
    words = _words("effects", given, label)
    for word in words:
        if word not in EFFECTS:
            raise ToolDefinitionError(f"{label}: unknown effect {word!r}", hint=did_you_mean(word, EFFECTS))
    return words


def _tags(given: object, label: str) -> frozenset[str]:
    return _words("tags", given, label)


def _words(key: str, given: object, label: str) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ToolDefinitionError(f"{label}: {key} must be a set of words, not {given!r}", hint=f"write {key}={{...}}")
    words = list(cast("Iterable[object]", given))
    if not all(isinstance(word, str) and word for word in words):
        raise ToolDefinitionError(f"{label}: {key} must be words, not {words!r}")
    return frozenset(cast("list[str]", words))


def _is_context(annotation: Any) -> bool:
    for member in union_members(_bare(annotation)):
        bare = _bare(member)
        origin = get_origin(bare) or bare
        if isinstance(origin, type) and issubclass(origin, ToolContext):
            return True
    return False


def _bare(annotation: Any) -> Any:
    """An annotation without its metadata, seen through new types and aliases."""
    while True:
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        else:
            return annotation


def _has_parts(annotation: Any) -> bool:
    """Whether a return annotation speaks of typed parts, which have no JSON Schema."""
    parts = (Text, Media, Link, RemoteResult)
    if annotation in parts if isinstance(annotation, type) else False:
        return True
    return any(_has_parts(argument) for argument in get_args(annotation))


def _in_class_body(function: Callable[..., Any]) -> bool:
    """Whether the class that the function belongs to is just being defined: then it will be bound later."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    frame = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_locals.get("__qualname__") == owner:
            return True
        frame = frame.f_back
    return False


def parts_of(value: object) -> tuple[Part, ...] | None:
    """The typed parts that a result consists of; None for a plain value."""
    if isinstance(value, Text | Media | Link):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    items = cast("Sequence[object]", value)
    if not any(isinstance(item, Media | Link | Text) for item in items):
        return None
    if not all(isinstance(item, Text | Media | Link | str) for item in items):
        return None
    return tuple(Text(item) if isinstance(item, str) else cast("Part", item) for item in items)
