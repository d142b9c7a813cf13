"""Sees every message of one connection, between the SDK and the transport.

It keeps the answers to ``tools/list`` and ``tools/call`` as the server sent them, and hands the SDK empty
ones in their place: the SDK would refuse a whole answer for one detail that it does not know. An answer
that breaks the rules becomes an error of the one request that it belongs to.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast

import mcp_types as types
from pydantic import ValidationError

from handrail.mcp.frames import Frame, Oversized
from handrail.mcp.link import Link
from handrail.mcp.pipe import StdioPipe

__all__ = ["RAW", "Shim"]

NOISE_CAP = 1024 * 1024
"""How many bytes that are no messages a server may write between two messages."""

RAW = "handrail/raw"
"""Marks what only we can have put into a message."""

_EMPTY: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
    "tools/call": {"content": [], "resultType": "complete"},
}
_HEAD_ID = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")')
_TAIL_ID = re.compile(rb'"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class Shim:
    """The view on one connection's messages. Notes in its link what they say about the server.

    Args:
        link: The connection.
        probe_seconds: How long a child process may leave the question for its protocol version unanswered.
    """

    def __init__(self, link: Link, probe_seconds: float) -> None:
        self._link = link
        self._probe_seconds = probe_seconds
        self._methods: dict[types.RequestId, str] = {}
        self._kept: dict[types.RequestId, dict[str, Any]] = {}
        self._noise = 0
        self._probe: asyncio.TimerHandle | None = None
        self._probe_answer = b""

    def outgoing(self, message: types.JSONRPCMessage) -> None:
        """Note what is asked, and what is given up."""
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._methods[message.id] = message.method
            if message.method == "server/discover" and (pipe := self._link.pipe) is not None:
                self._start_probe(pipe, message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            given_up = cast("types.RequestId", (message.params or {}).get("requestId"))
            self._methods.pop(given_up, None)
            self._kept.pop(given_up, None)

    def incoming(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Put an empty result in place of one that the SDK must not judge."""
        self._noise = 0
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/tools/list_changed":
            self._link.tools_changed()
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return message
        key = self._key(message.id)
        method = self._methods.pop(key, "") if key is not None else ""
        if isinstance(message, types.JSONRPCError) or key is None or method not in _EMPTY:
            return message
        self._kept[key] = message.result
        return types.JSONRPCResponse(jsonrpc="2.0", id=key, result={**_EMPTY[method], "_meta": {RAW: key}})

    def take(self, key: Any) -> dict[str, Any]:
        """Return a result as the server sent it."""
        return self._kept.pop(key)

    def read(self, frame: Frame) -> types.JSONRPCMessage | None:
        """Read one frame. None for what is no message, and for an answer to nothing."""
        if isinstance(frame, Oversized):
            return self._too_long(frame)
        if frame is not self._probe_answer:
            self._stop_probe()
        message = _parse(frame)
        if message is not None:
            self._link.heard = self._link.heard or frame is not self._probe_answer
            return message
        return self._salvage(frame)

    def _salvage(self, frame: bytes) -> types.JSONRPCMessage | None:
        """Turn an answer that breaks the rules into an error of that one request; count anything else."""
        try:
            data: object = json.loads(frame)
        except (ValueError, RecursionError):
            data = None
        given = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        key = self._key(given.get("id"))
        if key is not None and "method" not in given:
            return _broken(key, "the answer is no valid JSON-RPC message")
        self._link.noise += 1
        self._noise += len(frame)
        if self._noise > NOISE_CAP:
            self._link.end("wrote too much that is no message")
        return None

    def _too_long(self, frame: Oversized) -> types.JSONRPCMessage | None:
        found = _HEAD_ID.match(frame.head) or _TAIL_ID.search(frame.tail)
        key = self._key(json.loads(found[1])) if found else None
        if key is None and len(self._methods) == 1:
            key = next(iter(self._methods))
        if key is not None:
            return _broken(key, f"the answer of {frame.size} bytes is too long")
        self._link.noise += 1
        return None

    def _key(self, given: object) -> types.RequestId | None:
        """Find the request that an id belongs to. Some servers send a number back as text."""
        if isinstance(given, str) and given not in self._methods and given.isdecimal():
            given = int(given)
        return given if isinstance(given, int | str) and given in self._methods else None

    def _start_probe(self, pipe: StdioPipe, key: types.RequestId) -> None:
        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="no answer in time")
        answer = types.JSONRPCError(jsonrpc="2.0", id=key, error=error)
        self._probe_answer = answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
        loop = asyncio.get_running_loop()
        self._probe = loop.call_later(self._probe_seconds, pipe.inject, self._probe_answer)

    def _stop_probe(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None

    def close(self) -> None:
        """Let go of timers."""
        self._stop_probe()


def _parse(frame: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(frame, by_name=False)
    except ValidationError:
        pass
    try:
        frame.decode()
    except UnicodeDecodeError:
        try:
            return types.jsonrpc_message_adapter.validate_json(frame.decode("utf-8", "replace"), by_name=False)
        except ValidationError:
            pass
    return None


def _broken(key: types.RequestId, text: str) -> types.JSONRPCError:
    return types.JSONRPCError(
        jsonrpc="2.0",
        id=key,
        error=types.ErrorData(code=types.PARSE_ERROR, message=text, data={RAW: True}),
    )
