"""The documentation holds: its programs run and print what it says, and nothing public is missing from it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import handrail
from handrail import errors, events
from tests.docs.pages import (
    DOCS,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    headings,
    links,
    matches,
    pages,
    program,
)

PAGES = pages()
REAL = {README, DOCS / "tutorial" / "first-agent.md", DOCS / "how-to" / "use-an-mcp-server.md"}
"""Pages that start the embedded model or a real server."""

MAX_NOT_RUN = 8
"""How many Python blocks may be there that no test runs."""

OTHER_COMMANDS = {"pip", "git", "cd", "export"}
"""Commands of a console block that are not ours to check."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _marked(paths: list[Path]) -> list[Any]:
    return [pytest.param(path, id=_name(path), marks=[pytest.mark.real] if path in REAL else []) for path in paths]
