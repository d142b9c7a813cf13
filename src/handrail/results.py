"""How a result becomes what the model reads: text, typed parts, and a cap on their size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from pydantic_core import to_json

from handrail.schema.foreign import first_error
from handrail.schema.output import Output, OutputError
from handrail.schema.wire import MAX_DEPTH, join
from handrail.tools import UNSET, Link, Media, Part, RemoteResult, Text, Tool, parts_of


@dataclass(frozen=True, slots=True)
class Written:
    """A result as it will be read.

    Attributes:
        wire: The text.
        is_text: Whether the text is the value itself, and not its JSON.
        parts: Text and media in order; empty where there is only text.
        truncated: Whether it was cut.
    """

    wire: str
    is_text: bool
    parts: tuple[Part, ...] = ()
    truncated: bool = False


def write_value(tool: Tool, value: Any) -> Written:
    """Write what a Python body returned.

    Raises:
        OutputError: If it has no JSON form, does not match the declared type, or is declared and too large.
    """
    if isinstance(value, str):
        return _write_text(tool, value if type(value) is str else _plain(value))
    if not isinstance(value, dict) and (parts := parts_of(value)) is not None:
        return _write_parts(tool, parts)
    wire = tool.output.write(value)
    if ('"media_type"' in wire or '"text"' in wire) and (path := _part_inside(value, "", 0)) is not None:
        raise OutputError(f"{path}: text, media and links stand alone or in a list, not inside of other data")
    if len(wire) * 4 > tool.max_result_bytes and (size := _size(wire)) > tool.max_result_bytes:
        if tool.output.json_schema is not None:
            raise OutputError(f"the result has {size} bytes, more than the {tool.max_result_bytes} that are allowed")
        wire, _ = cut(wire, tool.max_result_bytes)
        return Written(wire, True, (), True)
    return Written(wire, False)


def write_remote(tool: Tool, answer: RemoteResult) -> Written:
    """Write what a remote tool answered: its text, else its structured content.

    Structured content is checked against the tool's output schema. A mismatch does not lose the text.

    Raises:
        OutputError: If there is only structured content, and it does not match.
    """
    structured = answer.structured
    texts = "\n".join(part.text for part in answer.parts if isinstance(part, Text))
    problem = _mismatch(tool, structured) if not answer.is_error else None
    if problem is not None and not answer.parts:
        raise OutputError(f"the structured content does not match the output schema: {problem}")
    if not answer.parts:
        if structured is UNSET:
            return Written("(no output)", True)
        wire, truncated = cut(to_json(structured, inf_nan_mode="strings").decode(), tool.max_result_bytes)
        return Written(wire, truncated, (), truncated)
    mark = "[the structured part of this result does not match what the server promised]\n" if problem else ""
    if any(not isinstance(part, Text) for part in answer.parts):
        parts = (Text(mark), *answer.parts) if mark else answer.parts
        return _write_parts(tool, parts)
    wire, truncated = cut(mark + texts, tool.max_result_bytes)
    return Written(wire, True, (), truncated)


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Cut text to about ``limit`` bytes, keeping its head and its tail, and say that it was cut.

    Returns:
        The text, and whether it was cut.
    """
    if len(text) * 4 <= limit or (size := _size(text)) <= limit:
        return text, False
    mark = f"[truncated: {size} bytes in all, the middle is left out]"
    half = max((limit - len(mark) - 6) // 2, 0)
    data = text.encode("utf-8", "replace")
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore") if half else ""
    return f"{mark}\n{head}\n...\n{tail}", True


def _part_inside(value: Any, path: str, depth: int) -> str | None:
    if isinstance(value, Text | Media | Link):
        return path
    if depth > MAX_DEPTH:
        return None
    children: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        children = cast("Mapping[Any, Any]", value).items()
    elif isinstance(value, list | tuple):
        children = enumerate(cast("list[Any]", value))
    for key, item in children:
        if (found := _part_inside(item, join(path, key), depth + 1)) is not None:
            return found
    return None


def _plain(value: str) -> str:
    """The text of an enumeration's member, or of any other kind of string."""
    return str(value.value) if isinstance(value, Enum) else str.__str__(value)


def _write_text(tool: Tool, value: str) -> Written:
    if type(tool.output) is not Output and tool.output.json_schema != {"type": "string"}:
        tool.output.write(value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise OutputError("text with a lone surrogate has no JSON form") from None
    wire, truncated = cut(value, tool.max_result_bytes)
    return Written(wire, True, (), truncated)


def _write_parts(tool: Tool, parts: tuple[Part, ...]) -> Written:
    kept: list[Part] = []
    room = tool.max_result_bytes
    truncated = False
    for part in parts:
        if isinstance(part, Text):
            text, was_cut = cut(part.text, max(room, 256))
            room -= _size(text)
            truncated |= was_cut
            kept.append(Text(text))
        else:
            kept.append(part)
    return Written("\n".join(_as_text(part) for part in kept), True, tuple(kept), truncated)


def _as_text(part: Part) -> str:
    return part.text if isinstance(part, Text) else part.note


def _mismatch(tool: Tool, structured: Any) -> str | None:
    schema = tool.output.json_schema
    if schema is None:
        return None
    if structured is UNSET:
        return "there is no structured content"
    return first_error(schema, structured)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


__all__ = ["Link", "Media", "Written", "cut", "write_remote", "write_value"]
