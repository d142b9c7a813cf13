"""Server lists of other programs: read into entries, and written again.

Eight programs write nearly the same file. What differs is the name of the table, how a remote server's kind is
told, the unit of a time limit, and how variables are written. A file is someone else's text: it may name a
variable of this machine only where the caller allowed that, it starts nothing, and what it says about trust is
not taken over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import SecretStr

from handrail.errors import MCPEntryError, Problem
from handrail.mcp.entry import REFERENCE, MCPServerEntry, StdioTransport
from handrail.naming import did_you_mean, nearest, wire_name

__all__ = ["Flavor", "LoadedConfig", "dump_mcp_config", "load_mcp_config", "strip_jsonc"]

Flavor: TypeAlias = Literal[
    "auto", "claude-desktop", "claude-code", "cursor", "vscode", "copilot", "gemini", "cline", "roo", "windsurf"
]
"""The program that a file was written for."""

_MAX_BYTES = 4 * 1024 * 1024
_BY_NAME = {
    "claude_desktop_config.json": "claude-desktop",
    ".mcp.json": "claude-code",
    ".claude.json": "claude-code",
    "cline_mcp_settings.json": "cline",
    "mcp_settings.json": "roo",
    "mcp_config.json": "windsurf",
    "mcp-config.json": "copilot",
}
_BY_FOLDER = {
    ".cursor": "cursor",
    ".vscode": "vscode",
    ".roo": "roo",
    ".gemini": "gemini",
    ".copilot": "copilot",
    "windsurf": "windsurf",
}
_KINDS = {"stdio": "stdio", "local": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_SHELLS = frozenset({"bash", "cmd", "command", "dash", "env", "fish", "powershell", "pwsh", "sh", "sudo", "zsh"})
_MILLISECONDS = {"claude-code": 1, "gemini": 1, "cline": 1000, "roo": 1000}

_KNOWN = frozenset(
    {"type", "command", "args", "env", "envFile", "cwd", "url", "serverUrl", "httpUrl", "headers", "timeout",
     "description", "disabled", "enabled", "handrail"}
)  # fmt: skip
_LEFT_OUT = {
    **dict.fromkeys(("autoApprove", "alwaysAllow", "trust"), "who may call what is decided by the policy"),
    **dict.fromkeys(
        ("includeTools", "excludeTools", "enabledTools", "disabledTools", "tools"),
        'narrow the tools where an agent lists them: mcp_tools("id", only=[...])',
    ),
    "headersHelper": "no command is run to get headers; write them down, with ${VAR} for a secret",
    "dev": "it is for those who develop the server",
}

# One that is not closed goes to the end, so that no part of the text is looked at twice.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)
_BRACED = re.compile(r"\$\{([^{}]*)\}")
_BRACED_OR_BARE = re.compile(r"\$\{([^{}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*)")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """What was read from a file.

    Attributes:
        entries: The servers that can be registered, in the order of the file.
        notes: What was read and deliberately not taken over.
        problems: Why other servers of the file are not among the entries.
    """

    entries: tuple[MCPServerEntry, ...]
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]

    def check(self) -> LoadedConfig:
        """Return this, if every server of the file could be read.

        Raises:
            MCPEntryError: If there are problems. It names all of them.
        """
        if self.problems:
            raise MCPEntryError("; ".join(map(str, self.problems)), field="entry")
        return self


def load_mcp_config(
    path: str | os.PathLike[str],
    *,
    flavor: Flavor = "auto",
    env: Mapping[str, str] | None = None,
    allow: Collection[str] = (),
    inputs: Mapping[str, str] | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> LoadedConfig:
    """Read the servers of another program's file.

    Variables (``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, and ``$VAR`` for Gemini) are replaced only where
    they are in ``env`` or ``allow``. In ``env`` and ``headers`` of a server a variable of this process stays a
    reference, so that its value is not stored.

    Args:
        path: The file.
        flavor: The program that it was written for. ``"auto"`` tells it from the file's name, then its content.
        env: Variables that the file may use, with their values.
        allow: Names of variables of this process that the file may use.
        inputs: Answers to the ``inputs`` that the file asks for (VS Code).
        workspace: What ``${workspaceFolder}`` stands for. None means the project that the file lies in, if it
            lies in one.

    Returns:
        The servers that can be registered, notes on what was left out, and the problems of the others.

    Raises:
        MCPEntryError: If the file cannot be read at all.
    """
    file = Path(path)
    data = _read(file)
    kind = _flavor(file, data) if flavor == "auto" else flavor
    folder = _workspace(file) if workspace is None else Path(workspace)
    variables = _Variables(
        values=dict(env or {}),
        allowed=frozenset({allow} if isinstance(allow, str) else allow),
        inputs=_inputs(data),
        answers=dict(inputs or {}),
        workspace=folder,
        pattern=_BRACED_OR_BARE if kind == "gemini" else _BRACED,
    )
    reader = _Reader(file, kind, variables)
    for name, server in _servers(file, data, folder).items():
        reader.read(name, server)
    return LoadedConfig(tuple(reader.entries.values()), tuple(reader.notes), tuple(reader.problems))


def dump_mcp_config(entries: Iterable[MCPServerEntry]) -> str:
    """Write entries in the form of a ``.mcp.json`` file, which may be shared: no secret value is in it.

    A reference ``${env:NAME}`` becomes ``${NAME}``. In place of a literal secret stands a variable that is named
    after the server and the field. What other programs have no word for, such as ``allowed_agents``, stands
    under ``handrail``, where :func:`load_mcp_config` finds it.
    """
    used: set[str] = set()
    servers: dict[str, Any] = {}
    for entry in entries:
        transport = entry.transport
        server: dict[str, Any] = {"type": transport.type}
        if isinstance(transport, StdioTransport):
            server |= {"command": transport.command, "args": list(transport.args)}
            server |= {} if transport.cwd is None else {"cwd": transport.cwd}
            secrets, key = transport.env, "env"
        else:
            server["url"] = transport.url
            secrets, key = transport.headers, "headers"
        if secrets:
            server[key] = {name: _without_secret(entry.id, name, value, used) for name, value in secrets.items()}
        more = entry.model_dump(mode="json", by_alias=True, exclude={"id", "transport"}, exclude_defaults=True)
        if entry.name == entry.id:
            more.pop("name", None)
        if more:
            server["handrail"] = more
        servers[entry.id] = server
    return json.dumps({"mcpServers": servers}, indent=2) + "\n"


def strip_jsonc(text: str) -> str:
    """Turn JSON with comments and trailing commas into JSON: each becomes blanks, so that places stay the same."""
    without_comments = _COMMENT.sub(_blank_comment, text)
    return _COMMA.sub(lambda match: match[0] if match[0] != "," else " ", without_comments)


def _blank_comment(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith('"') or (text.startswith("/*") and not (text.endswith("*/") and len(text) > 3)):
        return text
    return re.sub(r"[^\r\n]", " ", text)


def _without_secret(server: str, name: str, value: SecretStr, used: set[str]) -> str:
    text = value.get_secret_value()
    if not _SCHEME.sub("", REFERENCE.sub("", text), count=1):
        return REFERENCE.sub(r"${\1}", text)
    variable = re.sub(r"[^A-Z0-9]", "_", f"{server}_{name}".upper())
    variable = f"_{variable}" if variable[0].isdigit() else variable
    number = 2
    unique = variable
    while unique in used:
        unique, number = f"{variable}_{number}", number + 1
    used.add(unique)
    return f"${{{unique}}}"


# ---- the file


def _fail(file: Path, message: str, hint: str | None = None) -> MCPEntryError:
    return MCPEntryError(f"{file}: {message}", hint=hint, file=str(file), field="entry")


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _fail(file, f"cannot be read: {error.strerror}") from None
    if len(raw) > _MAX_BYTES:
        raise _fail(file, "is larger than 4 MiB", "is it the right file?")
    # The parser's own errors hold the whole text, so none of them is the cause of ours.
    fault = hint = None
    data: object = None
    try:
        data = json.loads(strip_jsonc(raw.decode("utf-8-sig")), object_pairs_hook=_no_duplicates)
    except UnicodeDecodeError:
        fault = "is not UTF-8"
    except json.JSONDecodeError as error:
        fault = f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    except _Fault as error:
        fault, hint = error.message, error.hint
    except (ValueError, RecursionError):
        fault = "is not JSON that can be read"
    if fault is None and not isinstance(data, dict):
        fault = "holds no JSON object"
    if fault is not None:
        raise _fail(file, fault, hint)
    return cast("dict[str, Any]", data)


class _Fault(Exception):
    """Something in the file that cannot be taken over."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Fault(f"has the key {_short(twice)} twice in one object", "keep one of them")
    return found


def _flavor(file: Path, data: Mapping[str, Any]) -> str:
    found = _BY_NAME.get(file.name) or _BY_FOLDER.get(file.absolute().parent.name)
    if found is not None:
        return found
    return (
        "vscode"
        if {"servers", "mcp.servers"} & {*data, *(f"mcp.{key}" for key in _mapping(data.get("mcp")))}
        else "unknown"
    )


def _workspace(file: Path) -> Path | None:
    folder = file.absolute().parent
    if folder.name in (".vscode", ".cursor", ".roo", ".gemini"):
        folder = folder.parent
    elif file.name != ".mcp.json":
        return None
    # In the home directory lie the files for all projects.
    return None if folder == Path.home() else folder


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _servers(file: Path, data: Mapping[str, Any], workspace: Path | None) -> dict[str, object]:
    project = _mapping(_mapping(data.get("projects")).get(str(workspace)))
    tables = (
        data.get("mcpServers"),
        data.get("servers"),
        data.get("mcp.servers"),
        _mapping(data.get("mcp")).get("servers"),
        project.get("mcpServers"),
    )
    found = [table for table in tables if table is not None]
    if not found and "projects" not in data:
        raise _fail(file, "has no table of servers", "it is called mcpServers, or servers for VS Code")
    if not all(isinstance(table, dict) for table in found):
        raise _fail(file, "has a table of servers that is not an object")
    return {name: server for table in found for name, server in cast("dict[str, object]", table).items()}


def _inputs(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    listed: object = data.get("inputs", _mapping(data.get("mcp")).get("inputs"))
    items = cast("list[object]", listed) if isinstance(listed, list) else []
    return {str(_mapping(item)["id"]): _mapping(item) for item in items if "id" in _mapping(item)}


# ---- one server


class _Reader:
    """Turns the servers of one file into entries, and keeps what stands in the way of the others."""

    def __init__(self, file: Path, flavor: str, variables: _Variables) -> None:
        self._file = file
        self._flavor = flavor
        self._variables = variables
        self.entries: dict[str, MCPServerEntry] = {}
        self.notes: list[str] = []
        self.problems: list[Problem] = []

    def read(self, name: str, server: object) -> None:
        """Read one server: an entry, a note that it is disabled, or a problem."""
        notes: list[str] = []
        try:
            entry = self._entry(name, server, notes)
        except _Fault as fault:
            self._problem(name, f"server {_short(name)}: {fault.message}", fault.hint)
        except MCPEntryError as error:
            self._problem(name, self._variables.hide(error.message), _fix(error, server))
        else:
            if entry is not None:
                self.entries[entry.id] = entry
        self.notes += [f"server {_short(name)}: {note}" for note in notes]

    def _problem(self, name: str, message: str, hint: str | None) -> None:
        self.problems.append(Problem("mcp_entry", f"{self._file}: {message}", hint, where=name))

    def _entry(self, name: str, server: object, notes: list[str]) -> MCPServerEntry | None:
        if not isinstance(server, dict):
            raise _Fault("is not an object")
        given = cast("dict[str, Any]", server)
        if given.get("disabled") is True or given.get("enabled") is False:
            notes.append("is disabled in the file, and was not loaded")
            return None
        server_id = wire_name(name)
        if server_id in self.entries:
            raise _Fault(f"has the id {server_id!r}, like another", "rename one of them")
        if server_id != name:
            notes.append(f"its id is {server_id!r}, since an id has 1 to 64 letters, digits, '_' and '-'")
        self._note_keys(given, notes)
        more = _object(given, "handrail")
        if taken := {"id", "transport"} & more.keys():
            raise _Fault(f"handrail.{min(taken)} cannot be set there")
        fields: dict[str, Any] = {"id": server_id, "name": name, "transport": self._transport(given, notes)}
        fields |= self._limits(given, notes)
        if isinstance(given.get("description"), str):
            fields["description"] = given["description"]
        return MCPServerEntry.parse(fields | more)

    def _note_keys(self, given: Mapping[str, Any], notes: list[str]) -> None:
        for key in given:
            if (why := _LEFT_OUT.get(key)) is not None:
                notes.append(f"{key} was ignored: {why}")
            elif key not in _KNOWN:
                near = nearest(key, _KNOWN)
                notes.append(
                    f"the key {_short(key)} was ignored: " + (f"did you mean {near!r}?" if near else "not known")
                )

    def _transport(self, given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
        def shown(name: str, text: object) -> str:
            return self._variables.expand(_text(name, text), name, notes)

        def hidden(name: str, text: object) -> str:
            return self._variables.expand(_text(name, text), name, notes, secret=True)

        kind, key = self._kind(given)
        if kind == "stdio":
            args = given.get("args", [])
            if not isinstance(args, list):
                raise _Fault("args is not a list")
            listed = [shown(f"args.{number}", text) for number, text in enumerate(cast("list[object]", args))]
            own = {name: hidden(f"env.{name}", text) for name, text in _object(given, "env").items()}
            env = self._env_file(given, shown, hidden) | own
            transport = {"type": kind, "command": shown("command", given.get("command")), "args": listed, "env": env}
            return transport if given.get("cwd") is None else transport | {"cwd": shown("cwd", given["cwd"])}
        headers = {name: hidden(f"headers.{name}", text) for name, text in _object(given, "headers").items()}
        return {"type": kind, "url": shown(key, given.get(key)), "headers": headers}

    def _kind(self, given: Mapping[str, Any]) -> tuple[str, str]:
        """Tell how a server is reached, and which key says where."""
        places = [key for key in ("command", "httpUrl", "serverUrl", "url") if given.get(key) is not None]
        if len(places) != 1:
            raise _Fault(f"has {' and '.join(places) or 'neither command nor url'}", "give it one of them")
        (key,) = places
        if "type" in given:
            kind = _KINDS.get(re.sub("[-_]", "", _text("type", given["type"])).lower())
            if kind is None:
                raise _Fault(f"type {_short(str(given['type']))} is not supported", "use stdio, http or sse")
            if (kind == "stdio") is not (key == "command"):
                raise _Fault(f"type {kind!r} does not go with {key}")
            return kind, key
        if key in ("command", "httpUrl"):
            return ("stdio" if key == "command" else "http"), key
        return ("sse" if self._flavor == "gemini" or _ends_in_sse(given[key]) else "http"), key

    def _limits(self, given: Mapping[str, Any], notes: list[str]) -> dict[str, int]:
        timeout: object = given.get("timeout")
        if timeout is None:
            return {}
        factor = _MILLISECONDS.get(self._flavor)
        if factor is None:
            notes.append("timeout was ignored: its unit is not known; pass flavor=..., or set tool_timeout_ms")
            return {}
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            raise _Fault("timeout is not a number")
        if not 0 < timeout * factor <= 3_600_000:
            raise _Fault(f"timeout {timeout!r} is not more than 0 and at most one hour")
        return {"tool_timeout_ms": max(1, round(timeout * factor))}

    def _env_file(
        self, given: Mapping[str, Any], shown: Callable[[str, object], str], hidden: Callable[[str, object], str]
    ) -> dict[str, str]:
        if given.get("envFile") is None:
            return {}
        base = (self._variables.workspace or self._file.absolute().parent).resolve()
        path = (base / shown("envFile", given["envFile"])).resolve()
        if not path.is_relative_to(base):
            raise _Fault("envFile lies outside of the workspace", "pass its variables as env={...}, or workspace=...")
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, ValueError):
            text = None
        if text is None:
            raise _Fault("envFile cannot be read", "create it, or remove the key")
        return {name: hidden(f"envFile.{name}", value) for name, value in _env_lines(text)}


def _env_lines(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line.strip())) is None:
            continue
        name, value = match[1], match[2]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            yield name, value[1:-1]
        else:
            yield name, re.split(r"[ \t]#", value, maxsplit=1)[0].rstrip()


def _fix(error: MCPEntryError, server: object) -> str | None:
    """Add to the hint what only the caller of the import can do about it."""
    command: object = _mapping(server).get("command")
    if error.context.get("field") != "transport.command" or not isinstance(command, str):
        return error.hint
    program = re.split(r"[/\\]", command)[-1]
    if program.lower().removesuffix(".exe") in _SHELLS:
        more = f"there is no shell here: name the program that {_short(program)} would start"
    else:
        more = (
            f"if you trust the program {_short(program)}, write its bare name, and call allow_commands() with it first"
        )
    return f"{error.hint}; {more}" if error.hint else more


def _ends_in_sse(url: object) -> bool:
    try:
        return isinstance(url, str) and urlsplit(url).path.rstrip("/").endswith("/sse")
    except ValueError:
        return False


def _object(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    value: object = given.get(key)
    if value is None or isinstance(value, dict):
        return _mapping(cast("object", value))
    raise _Fault(f"{key} is not an object")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _Fault(f"{name} is not a text", "put it in quotes")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:63]}…")


# ---- variables


@dataclass(frozen=True, slots=True)
class _Variables:
    """What may stand for a variable of the file."""

    values: Mapping[str, str]
    allowed: frozenset[str]
    inputs: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, str]
    workspace: Path | None
    pattern: re.Pattern[str]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    shown: dict[str, str] = field(default_factory=dict[str, str])

    def expand(self, text: str, name: str, notes: list[str], *, secret: bool = False) -> str:
        """Replace the variables of one text.

        Args:
            text: What the file says.
            name: The field, for the error.
            notes: Takes what the caller should know.
            secret: Whether the field is secret, and may refer to a variable of this process.
        """
        kept: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            word = match[match.lastindex or 0]
            try:
                value = self._value(word, name, notes, secret=secret)
            except _Fault as fault:
                raise _Fault(f"{name} {fault.message}", fault.hint) from None
            kept.extend(REFERENCE.findall(value) if secret and value == _reference(word) else ())
            if not secret:
                self.shown[value] = match[0]
            return value

        rest = self.pattern.sub("", text)
        if "${" in rest:
            raise _Fault(f"{name} holds a variable that is not closed, or is inside of another", "write ${VAR}")
        result = self.pattern.sub(replaced, text)
        if secret and REFERENCE.findall(result) != kept:
            # Pieces that form a reference together would get round the allowlist.
            raise _Fault(f"{name} is put together to a reference", "write ${VAR}, and allow VAR")
        return result

    def hide(self, message: str) -> str:
        """Put the variables back in place of their values, in an error that quotes a field."""
        for value in sorted(self.shown, key=len, reverse=True):
            message = message.replace(value, self.shown[value]) if len(value) > 3 else message
        return message

    def _value(self, word: str, name: str, notes: list[str], *, secret: bool) -> str:
        kind, colon, rest = word.partition(":")
        if kind == "input" and colon:
            return self._input(rest, name, notes, secret=secret)
        if word in ("userHome", "workspaceFolder", "workspaceFolderBasename", "pathSeparator", "/"):
            return self._place(word)
        variable, has_default, default = _bare(word).partition(":-")
        if not _NAME.fullmatch(variable):
            raise _Fault(f"uses {_short('${' + word + '}')}, which has no meaning here", "use ${VAR} or ${env:VAR}")
        value = self._variable(variable)
        if value is None and has_default:
            if not self._may_read(variable) and variable in self.environ:
                notes.append(f"{name} has its default, since the file may not read {variable}")
            return default
        if value is None and self._may_read(variable):
            raise _Fault(f"refers to the variable {variable}, which is not set", f"set {variable}, or pass it in env")
        if value is None:
            raise _Fault(
                f"refers to the variable {variable}, which this file may not read",
                f"pass allow=[{variable!r}], or a value for it in env",
            )
        if secret and self.environ.get(variable) == value:
            return _reference(variable)
        if not secret and variable in self.allowed:
            notes.append(f"the value of {variable} stands in {name}, which is not secret")
        return value

    def _may_read(self, variable: str) -> bool:
        return variable in self.values or variable in self.allowed

    def _variable(self, variable: str) -> str | None:
        if variable in self.values:
            return self.values[variable]
        return self.environ.get(variable) if variable in self.allowed else None

    def _input(self, key: str, name: str, notes: list[str], *, secret: bool) -> str:
        if key not in self.inputs:
            raise _Fault(
                f"refers to the input {_short(key)}, which the file does not define", did_you_mean(key, self.inputs)
            )
        asked = self.inputs[key]
        value = self.answers.get(key, None if asked.get("type") == "command" else asked.get("default"))
        if not isinstance(value, str):
            raise _Fault(f"needs the input {_short(key)}", f"pass inputs={{{key!r}: ...}}")
        if asked.get("password") is True and not secret:
            notes.append(f"the input {_short(key)} is a password and stands in {name}, which is not secret")
        return value

    def _place(self, word: str) -> str:
        if word in ("pathSeparator", "/"):
            return os.sep
        if word == "userHome":
            return str(Path.home())
        if self.workspace is None:
            raise _Fault(f"refers to ${{{word}}}", "pass workspace=...")
        folder = self.workspace.absolute()
        return str(folder) if word == "workspaceFolder" else folder.name


def _bare(word: str) -> str:
    return word.removeprefix("env:")


def _reference(word: str) -> str:
    return f"${{env:{_bare(word).partition(':-')[0]}}}"
