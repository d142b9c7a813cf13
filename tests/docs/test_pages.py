"""The documentation holds: its programs run and print what it says, and nothing public is missing from it."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.docs.pages import (
    DOCS,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    links,
    matches,
    pages,
    program,
    sections,
)

import handrail
from handrail import Agent, MCPServerEntry, errors, events
from handrail.runner import RunOptions

REAL = {README, DOCS / "tutorial" / "first-agent.md", DOCS / "how-to" / "use-an-mcp-server.md"}
"""Pages that start the embedded model or a real server."""

MAX_NOT_RUN = 5
"""How many Python blocks may be there that no test runs."""

OTHER_COMMANDS = {"pip", "git", "cd", "export"}
"""Commands of a console block that are not ours to check."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _all_pages() -> list[Any]:
    return [pytest.param(page, id=_name(page), marks=[pytest.mark.real] if page in REAL else []) for page in pages()]


def _expected(block: Block, after: Block | None) -> list[str]:
    """What a block says that it prints: in its own ``#>`` lines, or in a ``text`` block that follows."""
    if block.printed or after is None or after.language != "text" or not _follows(block, after):
        return block.printed
    return after.text.splitlines()


def _follows(block: Block, after: Block) -> bool:
    between = block.page.read_text("utf-8").splitlines()[block.end : after.line - 1]
    return not any(line.strip() for line in between)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A directory that has the examples, as a clone has."""
    (tmp_path / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    return tmp_path


@pytest.mark.parametrize("page", _all_pages())
def test_the_programs_of_a_page_run_and_print_what_the_page_says(page: Path, workplace: Path) -> None:
    """Whoever types a page's programs in order sees what the page shows."""
    found = blocks(page)
    with program(workplace) as running:
        for block, after in zip_longest(found, found[1:]):
            if block.language == "python" and block.runs:
                printed, expected = running.run(block), _expected(block, after)
                if page == README and not expected:
                    continue  # the readme shows its output in words
                assert matches(expected, printed), _difference(block.place, expected, printed)
            elif block.language == "console" and block.runs:
                _run_console(block, workplace)


def _difference(place: str, expected: list[str], printed: list[str]) -> str:
    return "\n".join([f"{place} says:", *expected, "it prints:", *printed])


def _run_console(block: Block, workplace: Path) -> None:
    for command, expected in block.commands:
        words = shlex.split(command)
        assert words[0] == "handrail", f"{block.place}: only handrail commands are run"
        environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "handrail.cli", *words[1:]],
            cwd=workplace, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        printed = [line.rstrip() for line in (done.stdout + done.stderr).strip().splitlines()]
        assert matches(expected, printed), _difference(f"{block.place}: {command}", expected, printed)


def test_every_block_that_does_not_run_says_why_and_there_are_few() -> None:
    """A program that nobody runs is a promise that nobody checks, so each has a reason and their number is small."""
    left_out = [block for page in pages() for block in blocks(page) if block.language == "python" and not block.runs]
    assert [block.place for block in left_out if not block.reason] == []
    assert len(left_out) <= MAX_NOT_RUN, [block.place for block in left_out]


def test_every_block_says_what_it_is() -> None:
    """A fence without a language, or with one that no test knows, would be shown and never looked at."""
    known = {"python", "console", "text", "json", "toml", "yaml", "mermaid"}
    odd = [block.place for page in pages() for block in blocks(page) if block.language not in known]
    assert odd == []


def test_no_program_is_wider_than_the_code_of_the_library() -> None:
    """A reader need not scroll sideways through a program; what it prints may be as long as it is."""
    wide = [
        f"{block.page.relative_to(ROOT)}:{number}"
        for page in pages()
        for block in blocks(page)
        if block.language == "python"
        for number, line in enumerate(block.text.splitlines(), block.line + 1)
        if len(line) > 120 and not line.strip().startswith("#>")
    ]
    assert wide == []


def test_every_command_that_a_page_shows_exists() -> None:
    """A reader can type every ``handrail`` and ``make`` line of the documentation."""
    wrong = [
        f"{block.place}: {command}: {problem}"
        for page in pages()
        for block in blocks(page)
        if block.language == "console"
        for command, _ in block.commands
        if (problem := _command_problem(shlex.split(command, comments=True)))
    ]
    assert wrong == []


def _command_problem(words: list[str]) -> str | None:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
        return None if set(words[1:]) <= targets else "the Makefile has no such target"
    if words[0] == "handrail":
        return _parse(_cli(), "handrail", words[1:])
    return None if words[0] in OTHER_COMMANDS else "nobody checks this command"


def _cli() -> Any:
    return importlib.import_module("handrail.cli").cli


def _parse(command: Any, name: str, words: list[str], parent: Any = None) -> str | None:
    """Parse a command line without running it; give what is wrong with it."""
    import click

    try:
        context = command.make_context(name, list(words), parent=parent)
        if isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
            inner, found, left = command.resolve_command(context, rest)
            return _parse(found, inner or "", left, context)
    except click.exceptions.Exit:
        return None  # --help and --version answer at once
    except click.ClickException as error:
        return error.format_message()
    return None


def test_every_page_is_in_the_navigation() -> None:
    """Nothing is written that no reader finds, and no entry leads nowhere."""
    listed = re.findall(r":\s*([\w/-]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in pages() if page != README)


@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page)) for page in pages()])
def test_every_link_inside_the_documentation_leads_somewhere(page: Path) -> None:
    """A reader who follows a link arrives, also at the heading that it names."""
    broken: list[str] = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (anchor and other.suffix == ".md" and anchor not in anchors(other)):
            broken.append(target)
    assert broken == []


def test_every_public_name_has_an_entry_with_its_parameters() -> None:
    """``api.md`` lists what can be imported from ``handrail``, and nothing that cannot; with all that one can pass."""
    entries = sections(DOCS / "reference" / "api.md", level=3)
    assert sorted(entries) == sorted(handrail.__all__)
    missing = [
        f"{name}: {parameter}"
        for name, text in entries.items()
        if inspect.isfunction(value := getattr(handrail, name)) or name in ("Agent", "Call", "Decision", "Media")
        for parameter in inspect.signature(value).parameters
        if parameter not in ("function", "options") and not re.search(rf"\b{parameter}\b", text)
    ]
    assert missing == []


def test_every_code_of_an_error_has_an_anchor() -> None:
    """Whoever reads a code in a log finds what it means under that very word."""
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "Problem"]
    assert sorted(kind.code for kind in kinds if kind.code not in anchors(DOCS / "reference" / "errors.md")) == []
    page = (DOCS / "reference" / "errors.md").read_text("utf-8")
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in page] == []


def test_every_code_that_a_call_can_have_is_on_the_page_of_errors() -> None:
    """Also the codes that stand in no class, since a program may have to match on them."""
    source = (ROOT / "src/handrail/calls.py").read_text("utf-8")
    codes = set(re.findall(r"""self\.fail\(\s*"(\w+)\"""", source)) | {"denied", "needs_approval"}
    assert codes >= {"timeout", "call_limit"}, "the pattern finds no codes any more"
    assert sorted(codes - anchors(DOCS / "reference" / "errors.md")) == []


def test_every_event_and_its_fields_are_described() -> None:
    """Whoever reads events knows what each field means."""
    described = sections(DOCS / "reference" / "events.md", level=2)
    kinds: tuple[Any, ...] = get_args(events.Event)
    common = {"run_id", "seq", "at", "type"}
    missing = [
        f"{kind.__name__}.{field.name}"
        for kind in kinds
        for field in fields(kind)
        if field.name not in common and f"`{field.name}`" not in described.get(kind.__name__, "")
    ]
    assert missing == []


def test_every_setting_is_described() -> None:
    """The page of settings has each field of an agent and a server entry, and each option of a run and a tool."""
    settings = sections(DOCS / "reference" / "configuration.md", level=2)
    tools = sections(DOCS / "how-to" / "define-a-tool.md", level=2)
    manager = inspect.signature(handrail.MCPConnectionManager.__init__).parameters
    wanted = {
        "Agents": (settings, set(inspect.signature(Agent.__init__).parameters) - {"self"}),
        "Runs": (settings, set(RunOptions.__annotations__)),
        "MCP server entries": (settings, set(MCPServerEntry.model_fields)),
        "Connection managers": (settings, set(manager) - {"self", "registry"}),
        "Options": (tools, set(inspect.signature(handrail.Tool).parameters) & set(_tool_options())),
    }
    missing = [
        f"{section}: {name}"
        for section, (page, names) in wanted.items()
        for name in sorted(names)
        if f"`{name}`" not in page[section]
    ]
    assert missing == []


def _tool_options() -> frozenset[str]:
    from handrail.tools import _OPTIONS

    return _OPTIONS


def test_every_logger_is_named() -> None:
    """Whoever sets up logging knows which names to listen to."""
    logging = sections(DOCS / "reference" / "configuration.md", level=2)["Logging"]
    names = {
        name
        for path in (ROOT / "src/handrail").rglob("*.py")
        for name in re.findall(r"""getLogger\(f?"(handrail[\w.]*)""", path.read_text("utf-8"))
    }
    assert sorted(name for name in names if f"`{name}" not in logging) == []


def test_every_command_has_an_entry() -> None:
    """``cli.md`` describes every command of the program with every option of it, and no other."""
    import click

    described = sections(DOCS / "reference" / "cli.md", level=3)
    common = sections(DOCS / "reference" / "cli.md", level=2)["Options of every command"]
    group = _cli()
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    assert sorted(described) == sorted(f"handrail {name}" for name in commands)
    missing = [
        f"{name} {option}"
        for name, command in commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if f"`{option}`" not in described[f"handrail {name}"] + common
    ]
    assert missing == []


def test_the_floors_of_the_architecture_page_are_those_of_the_code() -> None:
    """Every module is on the page, and imports only what stands above it there."""
    order = re.findall(r"^\| `(\w+)` \|", _section("architecture.md", "Floors"), re.MULTILINE)
    modules = {_unit(path) for path in (ROOT / "src/handrail").rglob("*.py")} - {"__init__", "migrations"}
    assert sorted(modules - set(order)) == []
    upward = [
        f"{path.relative_to(ROOT)} imports {imported}"
        for path in (ROOT / "src/handrail").rglob("*.py")
        if _unit(path) in order
        for imported in _imports(path)
        if imported in order and order.index(imported) > order.index(_unit(path))
    ]
    assert upward == []


def _section(page: str, heading: str) -> str:
    return sections(DOCS / "explanation" / page, level=2)[heading]


def _unit(path: Path) -> str:
    return path.relative_to(ROOT / "src/handrail").with_suffix("").parts[0]


def _imports(path: Path) -> set[str]:
    source = path.read_text("utf-8")
    named = re.findall(r"^\s*from handrail import (.+)$", source, re.MULTILINE)
    submodules = {word.strip() for line in named for word in line.split(",")}
    return submodules | set(re.findall(r"^\s*(?:from|import) handrail\.(\w+)", source, re.MULTILINE))
