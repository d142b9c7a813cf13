"""``handrail call``: one tool, through the gate, without a model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click
from rich.text import Text

from handrail.cli.approval import approver
from handrail.cli.live import origin, seconds, trust
from handrail.cli.run import UNANSWERED
from handrail.cli.screen import Exit, Screen, clean, one_line, screened
from handrail.cli.targets import Target, load_target, open_toolset
from handrail.cli.values import read_arguments, read_pairs
from handrail.policy import Approver
from handrail.tools import ToolContext, ToolResult

__all__ = ["command"]


@click.command("call")
@click.argument("target")
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "text", metavar="JSON", help="The arguments as a JSON object, also beside KEY=VALUE.")
@click.option("--yes", is_flag=True, help="Approve the call, if it needs approval.")
@screened
def command(screen: Screen, target: str, tool: str, pairs: tuple[str, ...], text: str | None, yes: bool) -> Exit:
    """Call TOOL of TARGET, as a model's call would be.

    A VALUE is text where the tool takes text, and JSON elsewhere: order_id=order_1042 limit=5 tags='["a"]'. The
    result goes to stdout; --json prints it with its code, its duration and whether it is tainted.
    """
    words = read_pairs(pairs)
    loaded = load_target(target)
    result = asyncio.run(_call(loaded, tool, words, text, approver(screen, yes=yes)))
    _report(screen, result)
    return Exit.DENIED if result.code in UNANSWERED else Exit.FAILED if result.is_error else Exit.OK


async def _call(
    target: Target, name: str, words: dict[str, str], text: str | None, approve: Approver | None
) -> ToolResult:
    async with open_toolset(target, wanted=name) as toolset:
        schema = toolset[name].parameters if name in toolset else {}
        arguments = read_arguments(words, text, schema)
        context: ToolContext[Any] = ToolContext(agent_id=target.agent_id)
        return await toolset.call(name, arguments, context=context, approve=approve)


def _report(screen: Screen, result: ToolResult) -> None:
    if screen.as_json:
        screen.payload(result.as_dict())
    elif not result.is_error:
        screen.text(clean(_shown(result)))
    if result.is_error:
        hint = " (--yes approves it)" if result.code == "needs_approval" else ""
        screen.error(f"{result.message or result.wire}{hint}")
        return
    for repair in result.repairs:
        screen.error(repair, "warning")
    screen.note(Text.assemble(
        (one_line(result.name), "bold"), (f"  {seconds(result.duration)}  {origin(result.label)}  ", "dim"),
        trust(result.label),
    ))  # fmt: skip


def _shown(result: ToolResult) -> str:
    """Text as it is, and anything else as JSON on lines of its own."""
    value = result.value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
