"""A server's answer to a call, read leniently into parts that the gate understands."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, cast

from handrail.errors import MCPProtocolError
from handrail.tools import UNSET, Link, Media, Part, RemoteResult, Text

__all__ = ["RESULT_CAP", "read_result"]

RESULT_CAP = 10 * 1024 * 1024
"""The largest result of a call, in bytes. One that is larger is an error of that call alone."""

_SHOWN = 2_000


def read_result(server: str, raw: Mapping[str, Any]) -> RemoteResult:
    """Turn the result of ``tools/call`` into a :class:`~handrail.tools.RemoteResult`.

    A content block of a kind that we do not know becomes text that says so.

    Raises:
        MCPProtocolError: If the server asks for something instead of answering, or its answer is too long.
    """
    if raw.get("resultType") == "input_required":
        raise MCPProtocolError(
            f"server {server!r} asks for more input during the call, and no handler for that is set",
            server=server,
        )
    content: object = raw.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    structured: object = raw.get("structuredContent")
    parts = tuple(part for block in blocks for part in _parts(block))
    if (size := sum(_size(part) for part in parts)) > RESULT_CAP:
        raise MCPProtocolError(
            f"server {server!r} sent a result of {size} bytes, and {RESULT_CAP} is the most that is taken",
            server=server,
        )
    return RemoteResult(
        parts=parts,
        structured=UNSET if structured is None else structured,
        is_error=raw.get("isError") is True,
    )


def _size(part: Part) -> int:
    match part:
        case Text(text):
            return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        case Media(data):
            return len(data)
        case _:
            return 0


def _parts(block: object) -> list[Part]:
    if not isinstance(block, dict):
        return [_unknown(block)]
    given = cast("dict[str, object]", block)
    match given.get("type"):
        case "text":
            text = given.get("text")
            return [Text(text)] if isinstance(text, str) else [_unknown(given)]
        case "image" | "audio":
            return [_media(given, None)]
        case "resource_link":
            uri = given.get("uri")
            if not isinstance(uri, str):
                return [_unknown(given)]
            return [Link(uri, _text(given, "name"), _text(given, "mimeType"))]
        case "resource":
            return [_resource(given)]
        case _:
            return [_unknown(given)]


def _media(given: Mapping[str, object], name: str | None) -> Part:
    data = given.get("blob") if "blob" in given else given.get("data")
    media_type = _text(given, "mimeType") or "application/octet-stream"
    if not isinstance(data, str) or "/" not in media_type:
        return _unknown(given)
    try:
        return Media(base64.b64decode(data, validate=True), media_type, name)
    except (binascii.Error, ValueError):
        return Text(f"[{media_type} that could not be decoded]")


def _resource(given: Mapping[str, object]) -> Part:
    inner: object = given.get("resource")
    resource = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    text = resource.get("text")
    if isinstance(text, str):
        uri = _text(resource, "uri")
        return Text(f"[resource {uri}]\n{text}" if uri else text)
    return _media(resource, _text(resource, "uri")) if "blob" in resource else _unknown(given)


def _unknown(block: object) -> Text:
    kind = cast("dict[str, object]", block).get("type") if isinstance(block, dict) else None
    shown = json.dumps(block, ensure_ascii=False, default=str)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}… ({len(shown)} characters)"
    return Text(f"[content of an unknown kind{f' {kind!r}' if isinstance(kind, str) else ''}: {shown}]")


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) and value else None
