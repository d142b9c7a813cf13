"""The public names: all of them, and nothing by accident."""

from __future__ import annotations

import inspect
import subprocess
import sys

import handrail

PUBLIC = [
    "Agent",
    "AllowAll",
    "ApprovalRequest",
    "Call",
    "CallRequest",
    "Decision",
    "HandrailError",
    "InMemoryMCPServerRegistry",
    "Link",
    "MCPConnectionManager",
    "MCPServerEntry",
    "Media",
    "Policy",
    "PreflightError",
    "Problem",
    "RunError",
    "RunResult",
    "Text",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResolver",
    "ToolResult",
    "Toolset",
    "define_tool",
    "mcp_tools",
    "resolve",
    "run",
    "run_sync",
    "stream",
    "tool",
]


def test_the_public_names_are_a_decision() -> None:
    """A name becomes public because somebody decided so, and the list is sorted."""
    assert handrail.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    """Each public name can be imported and has a docstring."""
    for name in PUBLIC:
        assert inspect.getdoc(getattr(handrail, name)), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any other module."""
    assert not hasattr(handrail, "Agnet")


def test_submodules_do_not_hide_the_functions() -> None:
    """``from handrail import tool`` gives the function, whatever was imported before."""
    code = (
        "import handrail.tools, handrail.toolset, handrail.runner, handrail.runs, handrail.mcp.manager\n"
        "from handrail import tool, resolve, run, stream\n"
        "assert all(callable(one) for one in (tool, resolve, run, stream))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
