"""What must not stand in the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:root|work|home/\w+|Users/\w+)/[\w.-]+")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")


def tracked(*patterns: str) -> list[Path]:
    """The files that git knows of."""
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return [ROOT / name for name in done.stdout.split("\0") if name]


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    """Every text file of the project but the lock file and this one."""
    found: dict[Path, str] = {}
    for path in tracked():
        if path.name == "uv.lock" or path == Path(__file__) or not path.is_file():
            continue
        try:
            found[path] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def test_no_path_of_a_machine(texts: dict[Path, str]) -> None:
    """Nothing in the project depends on where somebody has it."""
    assert {str(path): match.group() for path, text in texts.items() if (match := MACHINE_PATH.search(text))} == {}


def test_nothing_is_left_unfinished(texts: dict[Path, str]) -> None:
    """The source holds no note about work that is not done."""
    source = {path: text for path, text in texts.items() if "src" in path.parts}
    assert [str(path) for path, text in source.items() if UNFINISHED.search(text)] == []
