"""Files that people might point the command line at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

HANDRAIL = Path(sys.executable).with_name("handrail")

Write = Callable[..., Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SHOP = """
    from handrail import Agent, tool
    from handrail.testing import ScriptedModel

    @tool(effects=["read"])
    def lookup(order_id: str, limit: int = 1) -> dict[str, str | int]:
        '''Look up one order.'''
        print("the tool talks")
        return {"order_id": order_id, "limit": limit}

    @tool(needs_approval=True)
    def refund(order_id: str) -> str:
        '''Pay an order back.'''
        return f"refunded {order_id}"

    @tool(taints=True)
    def review(order_id: str) -> str:
        '''Read the customer's review.'''
        return "\\x1b[2Jnice [bold]shelf[/bold]\\x9b31m"

    def script(*calls):
        return ScriptedModel([list(calls), "All done\\x1b[31m."])

    shop = Agent(script(("lookup", {"order_id": "7"}), ("review", {"order_id": "7"})), tools=[lookup, review])
    clerk = Agent(script(("refund", {"order_id": "7"})), tools=[refund])
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file into the test's folder, and gives its path."""

    def write(text: str, name: str = "app.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def shop(write: Write) -> Path:
    """A file with two agents that a script plays, and three tools."""
    return write(SHOP, "shop.py")


@pytest.fixture
def handrail(tmp_path: Path) -> Run:
    """Runs the real command in the test's folder, without a terminal."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HANDRAIL, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8",
            stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip

    return run


@pytest.fixture(autouse=True)
def unchanged_path() -> Iterator[None]:
    """Loading targets adds folders to the module path; a test takes them away again."""
    before = sys.path[:]
    yield
    sys.path[:] = before
