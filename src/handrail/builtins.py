"""The tools that ship with Handrail."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from handrail.errors import ToolError
from handrail.schema.wire import WireError, dump
from handrail.tools import Tool, as_tool

MAX_VALUE_BYTES = 1 << 20
"""The largest value that memory takes, in bytes of JSON."""


def memory_tools(memory: MutableMapping[str, Any], *, writes: frozenset[str] | None = None) -> dict[str, Tool]:
    """The built-in tools that work on a memory.

    Args:
        memory: What is written to.
        writes: The keys that may be written; None allows every key that does not start with ``_``.
    """

    async def save(key: str, value: Any) -> dict[str, Any]:
        """Save a value to memory under a key, for later steps.

        Args:
            key: The key to save under.
            value: Any JSON value.
        """
        _check(key, value, writes)
        memory[key] = value
        return {"key": key, "saved": True}

    tool = as_tool(save)
    assert tool is not None
    return {"save_to_memory": replace(tool, name="save_to_memory", source="builtin", effects=frozenset({"read"}))}


def _check(key: str, value: Any, writes: frozenset[str] | None) -> None:
    if not key.strip():
        raise ToolError("not saved: the key is empty")
    if key.startswith("_"):
        raise ToolError(f"not saved: keys that start with '_' are reserved, such as {key!r}")
    if writes is not None and key not in writes:
        allowed = ", ".join(sorted(writes)) or "none"
        raise ToolError(f"not saved: {key!r} may not be written here (allowed: {allowed})")
    try:
        size = len(dump(value).encode())
    except WireError as error:
        raise ToolError(f"not saved: the value has no JSON form ({error})") from None
    if size > MAX_VALUE_BYTES:
        raise ToolError(f"not saved: the value has {size} bytes, more than {MAX_VALUE_BYTES}")
