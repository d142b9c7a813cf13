"""What the commands print, and where: the payload on stdout, everything else on stderr.

Text of tools, servers and models is not trusted. It reaches a terminal without control characters, and is never read
as markup.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from enum import IntEnum
from typing import Any, Concatenate, ParamSpec, TextIO

import click
from rich.console import Console, RenderableType
from rich.text import Text

from handrail.errors import DefinitionError, HandrailError, MCPError, PreflightError, Problem, ToolDeniedError

__all__ = ["Exit", "Screen", "clean", "error_json", "one_line", "problem_json", "screened", "short"]

WIDTH = 100
"""Columns where the output is no terminal that has a width of its own."""

# C0 but for tab and line feed, DEL, C1, and what turns the direction of text around.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Exit(IntEnum):
    """What a command exits with."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PREFLIGHT = 3
    DENIED = 4


def clean(text: str) -> str:
    """Make control characters visible instead of effective. Tabs and line ends stay."""
    return _UNSAFE.sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    """Clean text, and put it on one line."""
    return clean(" ".join(text.split()))


def short(text: str, limit: int) -> str:
    """Clean text on one line, cut to a number of characters."""
    line = one_line(text)
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def to_json(data: object) -> str:
    """Write a payload as JSON text, with every unsafe character as an escape."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def error_json(error: HandrailError) -> dict[str, Any]:
    """An error as plain JSON data."""
    data: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, PreflightError):
        data["problems"] = [problem_json(problem) for problem in error.problems]
    return data


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem as plain JSON data."""
    return {
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "where": problem.where,
    }


class Screen:
    """Where a command prints.

    Args:
        as_json: Whether the payload is JSON.
        color: Whether styles may be used; a terminal and the environment have a say as well.
        debug: Whether errors come with their traceback.

    Attributes:
        err: Everything that is not the payload.
    """

    def __init__(self, *, as_json: bool = False, color: bool = True, debug: bool = False) -> None:
        self.as_json = as_json
        self.debug = debug
        self._color = color
        self._stdout = sys.stdout
        self.err = self._console(sys.stderr)

    def _console(self, file: TextIO) -> Console:
        # Without a terminal there is no width to keep to.
        width = None if file.isatty() else WIDTH
        system = "auto" if self._color else None
        return Console(file=file, width=width, color_system=system, highlight=False, markup=False, emoji=False)

    @property
    def interactive(self) -> bool:
        """Whether there is a person who can be asked."""
        return sys.stdin.isatty() and self.err.file.isatty()

    @property
    def plain_ascii(self) -> bool:
        """Whether only ASCII can be shown."""
        return not self.err.encoding.lower().startswith("utf")

    def payload(self, data: object) -> None:
        """Print the payload of ``--json``."""
        self.text(to_json(data))

    def text(self, text: str) -> None:
        """Print text as the payload. It must be clean."""
        encoding = getattr(self._stdout, "encoding", None) or "utf-8"
        self._stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stdout.flush()

    def render(self, renderable: RenderableType) -> None:
        """Print a table or the like as the payload; without padding and styles where no terminal shows it."""
        encoding = getattr(self._stdout, "encoding", None) or ""
        if self._stdout.isatty() and encoding.lower().startswith("utf"):
            self._console(self._stdout).print(renderable)
            return
        file = io.StringIO()
        self._console(file).print(renderable)
        self.text("\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n")))

    def note(self, text: str | Text, style: str = "") -> None:
        """Say something beside the payload. A plain string must be clean."""
        self.err.print(text if isinstance(text, Text) else Text(text), style=style or None, soft_wrap=True)

    def error(self, problem: str, word: str = "error") -> None:
        """Say on one line what is wrong."""
        style = "bold red" if word == "error" else "bold yellow"
        self.note(Text.assemble((f"{word}: ", style), one_line(problem)))

    def fail(self, error: HandrailError, payload: Mapping[str, Any] | None = None) -> Exit:
        """Report an error, and give the code to exit with."""
        if self.debug:
            self.err.file.write(clean("".join(traceback.format_exception(error))))
        problems = error.problems if isinstance(error, PreflightError) else ()
        if len(problems) > 1:
            for problem in problems:
                self.error(str(problem), problem.severity)
        else:
            self.error(str(error))
        if self.as_json:
            self.payload({**(payload or {}), "error": error_json(error)})
        return exit_code(error)

    @contextlib.contextmanager
    def guarded(self) -> Generator[None]:
        """Keep stdout for the payload: whatever else is printed, by a tool for example, goes to stderr."""
        with contextlib.redirect_stdout(self.err.file):
            yield


def exit_code(error: HandrailError) -> Exit:
    """What a command exits with after an error."""
    if isinstance(error, PreflightError | DefinitionError | MCPError):
        return Exit.PREFLIGHT
    return Exit.DENIED if isinstance(error, ToolDeniedError) else Exit.FAILED


Params = ParamSpec("Params")


def screened(function: Callable[Concatenate[Screen, Params], Exit]) -> Callable[Params, None]:
    """Give a command the options that all have, a screen to print on, and its exit code.

    An error of the library becomes one line on stderr; with ``--json`` it is the payload as well.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print the payload as one JSON document on stdout.")
    @click.option("--no-color", is_flag=True, help="Print without colours; NO_COLOR in the environment does it too.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def wrapper(*args: Any, as_json: bool, no_color: bool, debug: bool, **values: Any) -> None:
        screen = Screen(as_json=as_json, color=not no_color, debug=debug)
        raise click.exceptions.Exit(_outcome(screen, functools.partial(function, screen, *args, **values)))

    return wrapper


def _outcome(screen: Screen, work: Callable[[], Exit]) -> Exit:
    try:
        with screen.guarded():
            return work()
    except HandrailError as error:
        return screen.fail(error)
    except (BrokenPipeError, click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        return _unexpected(screen, error)


def _unexpected(screen: Screen, error: Exception) -> Exit:
    failure = HandrailError(
        f"unexpected {type(error).__name__}: {error}", hint=None if screen.debug else "--debug shows where"
    )
    failure.__cause__ = error
    return screen.fail(failure)


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"
