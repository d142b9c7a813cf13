"""What an import loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pydantic_ai", "mcp", "mcp_types", "dbos", "sqlalchemy", "alembic", "starlette", "jsonschema", "griffe", "httpx2",
    "rich", "click",
)  # fmt: skip


def loaded(code: str) -> set[str]:
    """Which of the heavy modules a fresh process has loaded after running ``code``."""
    script = f"{code}\nimport sys\nprint(*sorted({set(HEAVY) | {'pydantic'}!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    """``import handrail`` is free: not even pydantic is loaded before a name is used."""
    assert loaded("import handrail") == set()


@pytest.mark.parametrize(
    "code",
    [
        "from handrail import Agent, tool, mcp_tools",
        "from handrail import InMemoryMCPServerRegistry, MCPConnectionManager",
        "from handrail.testing import ScriptedModel",
        "from handrail import run, run_sync, stream, resolve, Toolset",
    ],
)
def test_the_public_names_load_no_model_layer_and_no_protocol(code: str) -> None:
    """The model layer and the protocol's SDK are loaded when a run needs them, not when they are named."""
    assert loaded(code) <= {"pydantic"}


def test_the_command_line_answers_its_version_without_the_library() -> None:
    """``handrail --version`` is instant: only the command-line library is loaded."""
    assert loaded("import handrail.cli") <= {"click"}
