"""The real time server over stdio, through the manager: what it offers, what it answers, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from handrail.errors import MCPServerDiedError
from handrail.mcp.manager import MCPConnectionManager
from handrail.mcp.registry import InMemoryMCPServerRegistry
from handrail.sources import mcp_tools
from handrail.tools import RemoteResult, Text, Tool, ToolContext

pytestmark = pytest.mark.real
pytest.importorskip("mcp_server_time")


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state not in ("Z", "X"):
            found.add(int(stat.parent.name))
    return found


async def call(tool: Tool, **arguments: str) -> RemoteResult:
    return await tool.body(arguments, ToolContext(call_id="c", agent_id="clerk"))


def text_of(result: RemoteResult) -> str:
    (part,) = result.parts
    assert isinstance(part, Text)
    return part.text


async def test_the_time_server() -> None:
    """Both tools answer; a killed server is a typed error and a new connection; and nothing is left at the end."""
    before = children()
    registry = InMemoryMCPServerRegistry()
    registry.register(
        id="time",
        transport={"type": "stdio", "command": "python", "args": ["-m", "mcp_server_time"]},
        allowed_agents=["clerk"],
        timeout_ms=60_000,
    )
    async with MCPConnectionManager(registry) as manager:
        tools = {tool.name: tool for tool in await manager.resolve_tools([mcp_tools("time")], agent_id="clerk")}
        assert set(tools) == {"get_current_time", "convert_time"}
        assert tools["get_current_time"].taints
        assert "timezone" in tools["get_current_time"].parameters["properties"]

        now = await call(tools["get_current_time"], timezone="Asia/Tokyo")
        assert not now.is_error
        assert json.loads(text_of(now))["timezone"] == "Asia/Tokyo"
        converted = await call(
            tools["convert_time"], source_timezone="Europe/Berlin", time="12:00", target_timezone="Asia/Tokyo"
        )
        assert json.loads(text_of(converted))["target"]["timezone"] == "Asia/Tokyo"
        wrong = await call(tools["get_current_time"], timezone="Nowhere/Land")
        assert wrong.is_error

        pid = manager.status()["time"]["pid"]
        # Stopped first, so that the call is certainly under way when the process is killed.
        os.kill(pid, signal.SIGSTOP)
        under_way = asyncio.create_task(call(tools["get_current_time"], timezone="UTC"))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(MCPServerDiedError, match="SIGKILL"):
            await under_way
        again = await call(tools["get_current_time"], timezone="UTC")
        assert json.loads(text_of(again))["timezone"] == "UTC"
        assert manager.status()["time"]["pid"] != pid
        assert manager.status()["time"]["connections"] == 2
    assert children() == before
