"""``handrail tools``: what an agent, or a file, can call."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import click
from rich.table import Table
from rich.text import Text

from handrail.cli.live import origin
from handrail.cli.screen import Exit, Screen, clean, one_line, screened, short
from handrail.cli.targets import Target, load_target, open_toolset
from handrail.provenance import Label
from handrail.tools import Tool
from handrail.toolset import Toolset

__all__ = ["command"]


@click.command("tools")
@click.argument("target")
@screened
def command(screen: Screen, target: str) -> Exit:
    """List the tools of TARGET, its MCP servers' included."""
    loaded = load_target(target)
    toolset = asyncio.run(_toolset(loaded))
    if screen.as_json:
        screen.payload([_as_json(tool) for tool in toolset])
    else:
        _show(screen, toolset)
    count = "1 tool" if len(toolset) == 1 else f"{len(toolset)} tools"
    screen.note(f"{count} in {clean(loaded.label)}", "dim")
    return Exit.OK


async def _toolset(target: Target) -> Toolset:
    async with open_toolset(target) as toolset:
        return toolset


def _show(screen: Screen, toolset: Toolset) -> None:
    table = Table(box=None, show_header=False, padding=(0, 0, 1, 0), pad_edge=False)
    for tool in toolset:
        table.add_row(_entry(tool))
    screen.render(table)


def _entry(tool: Tool) -> Text:
    text = Text.assemble((one_line(tool.name), "bold"), f"({_signature(tool.parameters)})")
    text.append(f"\n    {short(tool.description.partition(chr(10) * 2)[0], 300)}", "dim")
    marks = [Text(word, style) for word, style in _marks(tool)]
    return text.append("\n    ").append(Text(", ").join(marks)) if marks else text


def _signature(schema: dict[str, Any]) -> str:
    """Parameters as people read them: ``order_id: string, limit: integer = 10``."""
    properties: dict[str, Any] = schema.get("properties", {})
    required: list[str] = schema.get("required", [])
    return ", ".join(_parameter(name, part, name in required) for name, part in properties.items())


def _parameter(name: str, schema: Any, required: bool) -> str:
    details = cast("dict[str, Any]", schema if isinstance(schema, dict) else {})
    text = f"{one_line(name)}: {one_line(_type(details))}"
    if required:
        return text
    return f"{text} = {short(repr(details['default']), 40)}" if "default" in details else f"{text} = ..."


def _type(schema: dict[str, Any]) -> str:
    if isinstance(values := schema.get("enum"), list):
        return " | ".join(repr(value) for value in cast("list[Any]", values[:6]))
    if isinstance(options := schema.get("anyOf"), list):
        return " | ".join(_type(option) for option in cast("list[dict[str, Any]]", options))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = schema.get("type", "any")
    return " | ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)


def _marks(tool: Tool) -> list[tuple[str, str]]:
    label = Label(tool.source, server=tool.server)
    marks = [(origin(label), "cyan")] if tool.server is not None or tool.source == "builtin" else []
    if tool.taints or tool.server is not None:
        marks.append(("results are external", "yellow"))
    if tool.needs_approval is not False:
        marks.append(("needs approval", "magenta"))
    if tool.effects is not None and not tool.effects <= {"read"}:
        marks.append((", ".join(sorted(tool.effects)), "magenta"))
    return marks


def _as_json(tool: Tool) -> dict[str, Any]:
    return {
        **tool.schema(),
        "output_schema": tool.output_schema,
        "source": tool.source,
        "server": tool.server,
        "taints": tool.taints or tool.server is not None,
        "effects": None if tool.effects is None else sorted(tool.effects),
        "needs_approval": tool.needs_approval if isinstance(tool.needs_approval, bool) else "depends",
        "timeout": tool.timeout,
        "tags": sorted(tool.tags),
    }
