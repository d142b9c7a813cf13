"""What an operator writes down about one MCP server: the boundary at which it is checked.

An entry is a frozen value. Both casings of its wire form are accepted, any other key is refused, and so is
every value that could not work or should not be trusted. Secret values are held as ``SecretStr``; a reference
such as ``${env:GITHUB_TOKEN}`` stays a reference until the connection opens.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from handrail.errors import MCPEntryError
from handrail.naming import did_you_mean
from handrail.netguard import RefusedURLError, check_url

__all__ = [
    "HTTPTransport",
    "MCPServerEntry",
    "SSETransport",
    "StdioTransport",
    "Transport",
    "allow_commands",
    "check_literal_url",
    "private_urls_allowed",
    "stdio_disabled",
]

REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable of the host, inside a secret value."""

MASK = str(SecretStr("x"))
"""What a hidden value looks like in a dump."""

_COMMANDS = frozenset({"npx", "node", "python3", "python", "uvx"})
_extra_commands: set[str] = set()

_LOADER_VARIABLES = frozenset(
    {"NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT",
     "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONEXECUTABLE", "BROWSER",
     "BASH_ENV", "ENV"}
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_FIELDS = frozenset({"env", "headers", "args"})


def _refuse(message: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() == "true"


def stdio_disabled() -> bool:
    """Tell whether ``MCP_STDIO_DISABLED=true`` forbids servers that run as a child process."""
    return _flag("MCP_STDIO_DISABLED")


def private_urls_allowed() -> bool:
    """Tell whether ``HANDRAIL_ALLOW_PRIVATE_MCP_URLS=true`` permits addresses that are not public."""
    return _flag("HANDRAIL_ALLOW_PRIVATE_MCP_URLS")


def allow_commands(*names: str) -> None:
    """Extend the commands that a stdio entry may start. For trusted code only: an entry cannot do it.

    Args:
        names: Bare names of programs, looked up on the ``PATH``; no paths.

    Raises:
        ValueError: If a name is empty, or is a path.
    """
    for name in names:
        if not name or "/" in name or "\\" in name or name.strip() != name:
            raise ValueError(f"{name!r} is not the bare name of a program")
    _extra_commands.update(names)


def check_literal_url(url: str) -> None:
    """Check an address as it is written: its scheme, its form, and a host that is a literal address.

    A host name is not looked up here. That is done when the connection opens.

    Raises:
        ValueError: If the address cannot be used. The message names no credentials.
    """
    try:
        check_url(url, allow_private=private_urls_allowed())
    except RefusedURLError as error:
        more = ", or set HANDRAIL_ALLOW_PRIVATE_MCP_URLS=true for local work" if error.private else ""
        raise _refuse(error.message, error.hint + more) from None


def _check_secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if text == MASK:
        raise _refuse("is the mask of a hidden value", "give the value, or a ${env:NAME} reference")
    if any(char in text for char in "\0\r\n"):
        raise _refuse("holds a line break or a NUL", "remove it")
    if "${" in REFERENCE.sub("", text):
        raise _refuse("holds a reference of an unknown form", "write ${env:NAME}")
    return value


def _shown(value: SecretStr) -> str:
    text = value.get_secret_value()
    return text if text and not REFERENCE.sub("", text) else MASK


_Secret = Annotated[SecretStr, AfterValidator(_check_secret), PlainSerializer(_shown, when_used="json")]
_Millis = Annotated[StrictInt, Field(ge=1, le=3_600_000)]


@functools.cache
def _spellings(model: type[BaseModel]) -> dict[str, str]:
    """The fields of a model by each way to spell them. Kept, because each call of a tool checks an entry."""
    return {spelling: name for name in model.model_fields for spelling in (name, to_camel(name))}


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        # What was a valid transport once may not be any more.
        validate_default=True,
        revalidate_instances="always",
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        given = cast("Mapping[object, object]", data)
        names = _spellings(cls)
        plain: dict[str, object] = {}
        for key, value in given.items():
            if not isinstance(key, str) or key not in names:
                hint = did_you_mean(str(key), cls.model_fields, what="known keys")
                raise _refuse(f"has the unknown key {key!r}", hint)
            if names[key] in plain:
                raise _refuse(f"has {names[key]!r} twice", "keep one casing")
            plain[names[key]] = value
        return plain


class StdioTransport(_Strict):
    """A server that runs as a child process and talks over its standard input and output.

    Attributes:
        command: The bare name of an allowed program: npx, node, python3, python or uvx, and what trusted code
            added with :func:`allow_commands`. ``python`` means the one beside the running interpreter.
        args: Its arguments, handed over as they are; there is no shell.
        env: Variables in addition to the few that every child inherits. Values are secret.
        cwd: The directory to start in. None means the current one.
    """

    type: Literal["stdio"] = "stdio"
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, _Secret] = Field(default_factory=dict[str, SecretStr])
    cwd: str | None = None

    @field_validator("type")
    @classmethod
    def _check_enabled(cls, value: str) -> str:
        if stdio_disabled():
            raise _refuse("is refused while MCP_STDIO_DISABLED=true", "use an http server, or unset the variable")
        return value

    @field_validator("command")
    @classmethod
    def _check_command(cls, value: str) -> str:
        allowed = _COMMANDS | _extra_commands
        if value in allowed:
            return value
        if "/" in value or "\\" in value:
            raise _refuse("is a path", f"give a bare name: {', '.join(sorted(allowed))}")
        raise _refuse("is not an allowed command", f"{did_you_mean(value, allowed, what='allowed')}")

    @field_validator("args")
    @classmethod
    def _check_args(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in arg for arg in value):
            raise _refuse("holds a NUL character", "remove it")
        return value

    @field_validator("cwd")
    @classmethod
    def _check_cwd(cls, value: str | None) -> str | None:
        if value is not None and (not value or "\0" in value):
            raise _refuse("is not a directory's path", "give a path, or leave the field out")
        return value

    @field_validator("env")
    @classmethod
    def _check_env(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                raise _refuse(f"holds {name!r}, which is not a variable's name", "use letters, digits and '_'")
            if name.upper() in _LOADER_VARIABLES or name.upper().startswith("DYLD_"):
                raise _refuse(f"sets {name}, which changes what code the child loads", "remove it")
        return value


class _Remote(_Strict):
    url: str
    headers: dict[str, _Secret] = Field(default_factory=dict[str, SecretStr])

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        check_literal_url(value)
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name in value:
            if not _HEADER.fullmatch(name):
                raise _refuse(f"holds {name!r}, which is not a header's name", "use a plain header name")
        return value


class HTTPTransport(_Remote):
    """A server at an address, over streamable HTTP.

    Attributes:
        url: An http or https address without credentials.
        headers: Sent with every request. Values are secret.
    """

    type: Literal["http"] = "http"


class SSETransport(_Remote):
    """A server at an address, over the older HTTP with server-sent events.

    Attributes:
        url: An http or https address without credentials.
        headers: Sent with every request. Values are secret.
    """

    type: Literal["sse"] = "sse"


Transport: TypeAlias = StdioTransport | HTTPTransport | SSETransport
"""How a server is reached."""


class MCPServerEntry(_Strict):
    """One MCP server, as an operator registers it.

    Attributes:
        id: The name by which agents refer to it: 1 to 64 letters, digits, ``_`` and ``-``.
        name: A name for people. Defaults to the id.
        description: What it is for.
        transport: How it is reached: stdio, http or sse.
        allowed_agents: Ids of the agents that may use it. None means everyone, an empty list nobody.
        timeout_ms: Deadline for opening the connection, retries included, and for listing the tools, in
            milliseconds.
        tool_timeout_ms: Deadline of one call, in milliseconds. None takes the manager's default.
        max_concurrent_calls: How many calls may be under way at once. None takes the manager's default.
        max_retries: How often opening the connection is tried again after a failure that may pass.

    Raises:
        MCPEntryError: If anything in it cannot be accepted. All faults are named at once, no secret value is.
    """

    id: Annotated[str, Field(pattern=r"\A[A-Za-z0-9_-]{1,64}\z")]
    name: str
    description: str | None = None
    transport: Annotated[Transport, Field(discriminator="type")]
    allowed_agents: tuple[str, ...] | None = None
    timeout_ms: _Millis = 30_000
    tool_timeout_ms: _Millis | None = None
    max_concurrent_calls: Annotated[StrictInt, Field(ge=1)] | None = None
    max_retries: Annotated[StrictInt, Field(ge=0, le=10)] = 2

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            refused = _entry_error(error, data.get("id"))
        else:
            return
        # Outside the handler, so that no context of the new error leads back to the input.
        raise refused

    @model_validator(mode="before")
    @classmethod
    def _default_name(cls, data: object) -> object:
        given = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        if "id" not in given:
            return cast("object", data)
        return {"name": given["id"], **given}

    @classmethod
    def parse(cls, data: MCPServerEntry | Mapping[str, Any]) -> MCPServerEntry:
        """Read an entry from its wire form in either casing, or check and copy one.

        Raises:
            MCPEntryError: If anything in it cannot be accepted.
        """
        if isinstance(data, MCPServerEntry):
            return data.checked_copy()
        if not isinstance(cast("object", data), Mapping):
            raise MCPEntryError(f"an MCP server entry is a mapping, not {type(data).__name__}", field="entry")
        return cls(**{str(key): value for key, value in data.items()})

    def allows(self, agent_id: str | None) -> bool:
        """Tell whether an agent may use this server. A caller without an id may, only where everyone may."""
        return self.allowed_agents is None or (agent_id is not None and agent_id in self.allowed_agents)

    def checked_copy(self) -> MCPServerEntry:
        """Return an independent copy that has been validated again, under the rules of this moment.

        Raises:
            MCPEntryError: If the entry is not acceptable any more.
        """
        return type(self)(**self.model_dump())

    def reveal(self) -> dict[str, Any]:
        """Return the JSON form *with* its secret values, for a registry's own storage and nothing else."""
        return cast("dict[str, Any]", _revealed(self.model_dump()))


def _revealed(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _revealed(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, tuple):
        return [_revealed(item) for item in cast("tuple[object, ...]", value)]
    return value


def _entry_error(error: ValidationError, server: object) -> MCPEntryError:
    details = error.errors(include_url=False)
    fields = [_field(detail) for detail in details]
    faults = [_fault(field, detail) for field, detail in zip(fields, details, strict=True)]
    hints = dict.fromkeys(hint for detail in details if (hint := _hint(detail)))
    known = server if isinstance(server, str) and len(server) <= 64 else None
    return MCPEntryError(
        f"MCP server entry {known!r}: " + "; ".join(faults) if known else "MCP server entry: " + "; ".join(faults),
        hint="; ".join(hints) or None,
        server=known,
        field=fields[0],
        fields=tuple(fields),
    )


def _field(detail: ErrorDetails) -> str:
    # The tag of the chosen transport stands in the path; the reader of the entry never wrote it.
    loc = [str(part) for part in detail["loc"]]
    if len(loc) > 1 and loc[0] == "transport" and loc[1] in ("stdio", "http", "sse"):
        del loc[1]
    return ".".join(loc) or "entry"


def _fault(field: str, detail: ErrorDetails) -> str:
    value: object = detail["input"]
    words = detail["msg"]
    words = words[0].lower() + words[1:]
    secret = _SECRET_FIELDS.intersection(field.split(".")) or "credentials" in words
    plain = isinstance(value, bool | int | float | str) and len(str(value)) <= 100
    if secret or not plain or detail["type"] == "missing":
        return f"{field} {words}"
    if field.endswith(".url"):
        value = str(value).partition("?")[0]
    return f"{field} {value!r} {words}"


def _hint(detail: ErrorDetails) -> str | None:
    hint = detail.get("ctx", {}).get("hint")
    if isinstance(hint, str):
        return hint
    if detail["type"] == "union_tag_not_found":
        return 'give transport a "type": stdio, http or sse'
    return None
