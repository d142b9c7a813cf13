"""The tools that a server offers: read page by page, each checked by itself, and kept for a while."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from handrail.clock import Clock
from handrail.errors import MCPProtocolError

__all__ = ["Manifest", "ManifestCache", "RemoteTool", "read_manifest"]

PAGE_CAP = 100
"""How many pages of tools are read before a server is taken to have no end of them."""

TOOL_CAP = 5_000
"""How many tools are read before a server is taken to have no end of them."""


class Pages(Protocol):
    """Gives one page of a tool list, as the server sent it."""

    async def __call__(self, cursor: str | None) -> Mapping[str, Any]:
        """Ask for the page at a cursor; None is the first."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """One tool as its server describes it. Nothing in it is trusted.

    Attributes:
        name: The server's own name for it.
        description: The server's text for the model; empty where there is none.
        parameters: The JSON Schema of its arguments.
        output_schema: The JSON Schema of its structured result, or None.
        annotations: The server's hints, such as ``readOnlyHint``.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a server offered at one moment.

    Attributes:
        tools: The tools that can be used, by name, in the server's order.
        notes: What is wrong with the list, and which tools were left out for it; each with the tool's name
            or None.
    """

    tools: Mapping[str, RemoteTool] = field(default_factory=dict[str, RemoteTool])
    notes: tuple[tuple[str | None, str], ...] = ()


async def read_manifest(server: str, pages: Pages) -> Manifest:
    """Read the whole tool list of a server.

    A tool that cannot be used is left out with a note, and the others stay. So is what follows a cursor
    that was given before.

    Raises:
        MCPProtocolError: If the list has no end, or is no list.
        MCPError: If asking for it fails.
    """
    tools: dict[str, RemoteTool] = {}
    notes: list[tuple[str | None, str]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(PAGE_CAP):
        page = await pages(cursor)
        _read_page(server, page, tools, notes)
        following: object = page.get("nextCursor")
        if not isinstance(following, str) or not following:
            return Manifest(tools, tuple(notes))
        if following in seen:
            notes.append((None, f"the list of tools comes back to the cursor {following[:40]!r}"))
            return Manifest(tools, tuple(notes))
        if len(tools) + len(notes) > TOOL_CAP:
            break
        seen.add(following)
        cursor = following
    raise MCPProtocolError(
        f"server {server!r} has no end of tools",
        hint=f"gave up after {PAGE_CAP} pages or {TOOL_CAP} tools",
        server=server,
    )


def _read_page(
    server: str,
    page: Mapping[str, Any],
    tools: dict[str, RemoteTool],
    notes: list[tuple[str | None, str]],
) -> None:
    listed: object = page.get("tools")
    if not isinstance(listed, list):
        raise MCPProtocolError(f"server {server!r} answered tools/list without a list of tools", server=server)
    for raw in cast("list[object]", listed):
        tool = _read_tool(raw)
        if isinstance(tool, str):
            notes.append((_name_of(raw), tool))
        elif tool.name in tools:
            notes.append((tool.name, "is listed twice; the first one counts"))
        else:
            tools[tool.name] = tool


def _read_tool(raw: object) -> RemoteTool | str:
    """Read one tool, or say what is wrong with it."""
    name = _name_of(raw)
    if not isinstance(raw, dict) or name is None:
        return "an entry of the list of tools has no name"
    given = copy.deepcopy(cast("dict[str, Any]", raw))
    parameters: object = given.get("inputSchema")
    if not isinstance(parameters, dict):
        return "has no inputSchema"
    output: object = given.get("outputSchema")
    if output is not None and not isinstance(output, dict):
        return "has an outputSchema that is no schema"
    execution: object = given.get("execution")
    if isinstance(execution, dict) and cast("dict[str, object]", execution).get("taskSupport") == "required":
        return "can only be run as a task, which is not supported"
    description: object = given.get("description")
    annotations: object = given.get("annotations")
    return RemoteTool(
        name=name,
        description=description if isinstance(description, str) else "",
        parameters=cast("dict[str, Any]", parameters),
        output_schema=cast("dict[str, Any] | None", output),
        annotations=cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else None,
    )


def _name_of(raw: object) -> str | None:
    name = cast("dict[str, object]", raw).get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) and name else None


class ManifestCache:
    """Manifests by server, each for a limited time.

    Args:
        ttl_ms: How long one is kept, in milliseconds; 0 keeps none.
        clock: Tells the time.
    """

    def __init__(self, ttl_ms: int, clock: Clock) -> None:
        self._seconds = ttl_ms / 1000
        self._clock = clock
        self._kept: dict[str, tuple[float, Manifest]] = {}

    @property
    def keeps(self) -> bool:
        """Whether manifests are kept at all."""
        return self._seconds > 0

    def get(self, server: str) -> Manifest | None:
        """Return the manifest of a server while it is fresh."""
        if (kept := self._kept.get(server)) is None:
            return None
        if self._clock.monotonic() - kept[0] >= self._seconds:
            del self._kept[server]
            return None
        return kept[1]

    def put(self, server: str, manifest: Manifest) -> None:
        """Keep the manifest of a server."""
        if self._seconds > 0:
            self._kept[server] = (self._clock.monotonic(), manifest)

    def drop(self, server: str | None = None) -> None:
        """Forget the manifest of one server, or of all."""
        if server is None:
            self._kept.clear()
        else:
            self._kept.pop(server, None)
