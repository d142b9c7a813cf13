"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 5.0) -> None:
    """Wait until a condition holds; fail when it does not within the bound."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        await asyncio.sleep(0.002)


async def settled(*, turns: int = 10) -> None:
    """Let the event loop take some turns, so that everything that is ready has run."""
    for _ in range(turns):
        await asyncio.sleep(0)
