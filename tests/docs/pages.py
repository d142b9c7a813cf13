"""The pages of the documentation as what a test needs: their blocks, headings and links; and a place to run them.

A page is run like one program: its Python blocks share a namespace, a working directory and an event loop, in order.

    ```python                                runs; what it prints must stand in it as ``#> ...`` lines,
                                             or in a ``text`` block right after it
    ```python {title="app.py"}               is also written to that file, for the blocks that follow
    ```python {.no-run reason="..."}         does not run, and says why
    ```console                               every ``$ handrail`` and ``$ make`` line must be one that exists
    ```console {.run}                        its ``$ handrail`` lines run; the lines below each are what they print

In expected output ``...`` stands for anything.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import os
import re
import sys
import types
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<language>\w*)\s*(?P<info>.*)$")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)(?: *\{ *#(?P<id>[\w-]+) *\})? *$")
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The page that it stands on.
        line: The line of its opening fence, from 1.
        end: The line of its closing fence.
        language: The first word after the fence.
        info: The rest of that line.
        text: What is between the fences.
    """

    page: Path
    line: int
    end: int
    language: str
    info: str
    text: str

    @property
    def runs(self) -> bool:
        """Whether it is meant to be run."""
        if self.language == "console":
            return ".run" in self.info
        return self.language == "python" and "no-run" not in self.info

    @property
    def title(self) -> str | None:
        """The file that it is to be written to."""
        return _attribute(self.info, "title")

    @property
    def reason(self) -> str | None:
        """Why it does not run."""
        return _attribute(self.info, "reason") or _attribute(self.info, "no-run")

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def printed(self) -> list[str]:
        """What its ``#>`` lines say that it prints."""
        lines = [line.strip() for line in self.text.splitlines()]
        return [line[2:].removeprefix(" ") for line in lines if line.startswith("#>")]

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands of a console block, each with the lines below it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line.rstrip())
        return found


def _attribute(info: str, name: str) -> str | None:
    found = re.search(rf'(?<![\w-]){name}="([^"]*)"', info)
    return found[1] if found else None


def pages() -> list[Path]:
    """Every page, and the readme."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    start, lines = 0, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if opened is None:
            if (opened := _FENCE.match(line)) is not None:
                start, lines = number, []
        elif line.strip() == opened["marks"]:
            text = "\n".join(lines)
            found.append(Block(page, start, number, opened["language"], opened["info"].strip(), text))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise AssertionError(f"{page.relative_to(ROOT)}:{start}: the block is not closed")
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    kept: list[str] = []
    marks = ""
    for line in page.read_text("utf-8").splitlines():
        fence = _FENCE.match(line)
        if not marks and fence is not None:
            marks = fence["marks"]
        elif marks and line.strip() == marks:
            marks = ""
        elif not marks:
            kept.append(line)
    return "\n".join(kept)


def anchors(page: Path) -> set[str]:
    """The ids of the headings of a page."""
    found = (_HEADING.match(line) for line in prose(page).splitlines())
    return {match["id"] or _slug(match["text"]) for match in found if match is not None}


def sections(page: Path, *, level: int) -> dict[str, str]:
    """The sections under headings of one level, by their headings, with their blocks and deeper sections."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    marks = ""
    for line in page.read_text("utf-8").splitlines():
        fence, heading = _FENCE.match(line), _HEADING.match(line)
        if marks:
            marks = "" if line.strip() == marks else marks
        elif fence is not None:
            marks = fence["marks"]
        elif heading is not None and (depth := len(line) - len(line.lstrip("#"))) <= level:
            current = found.setdefault(heading["text"].replace("`", ""), []) if depth == level else None
            continue
        if current is not None:
            current.append(line)
    return {heading: "\n".join(lines) for heading, lines in found.items()}


def links(page: Path) -> list[str]:
    """The targets of the links of a page."""
    return [match["target"] for match in _LINK.finditer(prose(page))]


def _slug(text: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether lines are as expected; ``...`` stands for anything."""
    pattern = re.escape("\n".join(expected)).replace(r"\.\.\.", "(?s:.*)")
    return re.fullmatch(pattern, "\n".join(printed)) is not None


class Program:
    """A page that is being run."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._module = types.ModuleType("docs_page")

    def run(self, block: Block) -> list[str]:
        """Run a Python block after those before it.

        Returns:
            The lines that it printed.
        """
        if block.title is not None:
            Path(block.title).write_text(block.text + "\n", "utf-8")
        source = "\n" * block.line + block.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(block.page), "exec", flags=flags, dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            coroutine: Any = eval(code, self._module.__dict__)
            if coroutine is not None:
                self._runner.run(coroutine)
        return printed.getvalue().splitlines()

    @contextlib.contextmanager
    def importable(self) -> Generator[None]:
        """Let pydantic and dataclasses find the module that the blocks live in."""
        sys.modules["docs_page"] = self._module
        try:
            yield
        finally:
            del sys.modules["docs_page"]


@contextlib.contextmanager
def program(directory: Path) -> Generator[Program]:
    """Make a program that runs in a directory of its own."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        with asyncio.Runner() as runner:
            made = Program(runner)
            with made.importable():
                yield made
    finally:
        os.chdir(before)
