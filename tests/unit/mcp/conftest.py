"""Servers that misbehave, and the proof that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio

from handrail.mcp.entry import MCPServerEntry

FAULT_SERVER = Path(__file__).with_name("fault_server.py")


def members_of(group: int) -> list[int]:
    """The processes of a group that still run."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in ("Z", "X"):
            found.append(int(stat.parent.name))
    return found


async def eventually(condition: Callable[[], object], *, within: float = 5.0) -> None:
    """Wait until a condition holds; fail when it does not within the bound."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        await asyncio.sleep(0.01)


class Fault:
    """One misbehaving server: its entry, and its notebook."""

    def __init__(self, mode: str, notebook: Path) -> None:
        self.mode = mode
        self.notebook = notebook

    def entry(self, **fields: Any) -> MCPServerEntry:
        """The entry of the server. ``env`` and ``cwd`` go into its transport."""
        transport: dict[str, Any] = {
            "type": "stdio",
            "command": "python",
            "args": ["-S", str(FAULT_SERVER), self.mode, str(self.notebook)],
        }
        transport |= {key: fields.pop(key) for key in ("env", "cwd") if key in fields}
        defaults: dict[str, Any] = {"id": "fault", "timeout_ms": 10_000, "max_retries": 0}
        return MCPServerEntry(transport=transport, **(defaults | fields))

    def notes(self) -> list[dict[str, Any]]:
        """What the server wrote down, over all its starts."""
        if not self.notebook.exists():
            return []
        return [json.loads(line) for line in self.notebook.read_text("utf-8").splitlines()]

    async def until(self, condition: Callable[[], object], *, within: float = 5.0) -> None:
        """Wait until a condition holds; fail when it does not within the bound."""
        await eventually(condition, within=within)

    def running(self) -> list[int]:
        """The processes of all its starts that still run, with their children."""
        return [member for pid in self.pids for member in members_of(pid)]

    @property
    def pids(self) -> list[int]:
        """The pid of each start."""
        return [note["pid"] for note in self.notes() if "pid" in note]

    def read(self, method: str) -> list[dict[str, Any]]:
        """The messages of a method that the server has read."""
        return [note["read"] for note in self.notes() if note.get("read", {}).get("method") == method]


@pytest_asyncio.fixture
async def fault(tmp_path: Path) -> AsyncGenerator[Callable[[str], Fault]]:
    """Makes misbehaving servers. At the end no process of them may be left, and no task of ours."""
    made: list[Fault] = []

    def make(mode: str) -> Fault:
        made.append(Fault(mode, tmp_path / f"notes-{len(made)}.jsonl"))
        return made[-1]

    yield make
    for one in made:
        await one.until(lambda one=one: not one.running(), within=2.0)
    own = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not own and not _of_the_test_runner(task)]
    assert left == [], "tasks were left behind"


def _of_the_test_runner(task: asyncio.Task[Any]) -> bool:
    return "pytest" in repr(task.get_coro()) or "_asyncgen" in repr(task.get_coro())
