"""The shape of the code: which module may import which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import handrail

SOURCE = Path(handrail.__file__).parent

FLOORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("words", ("errors", "naming", "clock", "values", "provenance", "events")),
    ("values", ("schema", "tools", "sources", "agent")),
    ("supply", ("threads", "builtins", "store", "migrations", "netguard", "mcp", "responses", "local")),
    ("gate", ("policy", "results", "calls", "toolset")),
    ("engine", ("models", "runs", "loop", "runner")),
    ("doors", ("testing", "cli")),
)
"""From the ground up. A module imports what stands before it, on its own floor or a lower one."""

ORDER = {room: number for number, room in enumerate(room for _, rooms in FLOORS for room in rooms)}

AIRLOCKS: dict[str, frozenset[str]] = {
    "pydantic_ai": frozenset({"loop", "models", "responses", "local.model"}),
    "mcp": frozenset({"mcp.session"}),
    "mcp_types": frozenset({"mcp.session", "mcp.shim"}),
    "httpx2": frozenset({"mcp.session", "mcp.httplink", "netguard"}),
    "httpcore2": frozenset({"netguard"}),
    "sqlalchemy": frozenset({"store", "mcp.sql_registry", "migrations"}),
    "alembic": frozenset({"store", "migrations"}),
    "click": frozenset({"cli"}),
    "rich": frozenset({"cli"}),
    "dbos": frozenset(),
    "starlette": frozenset(),
}
"""The modules that may import each heavy dependency."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package with its syntax tree, as ``mcp.session``."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported anywhere: at the top, in functions, and for type checking."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "handrail":
                yield from (f"handrail.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_no_import_runs_upwards() -> None:
    """A reader can read the code from the ground up: no module knows of what stands above it."""
    upwards: list[str] = []
    for name, tree in modules():
        room = name.split(".")[0]
        if room == "__init__":
            continue
        for target in imported(tree):
            parts = target.split(".")
            if parts[0] != "handrail" or len(parts) < 2 or parts[1] == "__version__" or parts[1] == room:
                continue
            if ORDER[parts[1]] > ORDER[room]:
                upwards.append(f"{name} imports {target}")
    assert upwards == []


def test_every_room_has_its_place() -> None:
    """A new module is given a floor when it is made."""
    rooms = {name.split(".")[0] for name, _ in modules()} - {"__init__"}
    assert rooms == set(ORDER)


def test_each_heavy_dependency_has_its_airlock() -> None:
    """What is slow to import, or likely to change, is imported in one known place."""
    leaks: list[str] = []
    for name, tree in modules():
        for target in imported(tree):
            allowed = AIRLOCKS.get(target.split(".")[0])
            if allowed is not None and not any(name == place or name.startswith(f"{place}.") for place in allowed):
                leaks.append(f"{name} imports {target}")
    assert leaks == []


def test_only_the_gate_runs_a_body() -> None:
    """There is no second path around the gate: nothing but ``calls`` touches what a tool runs."""
    touching = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "body" and isinstance(node.ctx, ast.Load)
        if isinstance(node.value, ast.Name) and node.value.id in ("tool", "found", "one")
    }
    assert touching <= {"calls", "tools"}


def _loaded_at_once(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it is loaded: not in functions, and not for type checking only."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            waiting += [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]


def test_no_package_imports_in_circles() -> None:
    """Inside of a package modules may stand as they like, but loading one never waits for itself."""
    trees = dict(modules())
    needs = {
        name: {target.removeprefix("handrail.") for target in _loaded_at_once(tree)} & trees.keys() - {name}
        for name, tree in trees.items()
    }
    while free := {name for name, targets in needs.items() if not targets & needs.keys()}:
        needs = {name: targets for name, targets in needs.items() if name not in free}
    assert needs == {}
