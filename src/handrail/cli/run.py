"""``handrail run``: ask an agent, and watch its calls."""

from __future__ import annotations

import asyncio

import click

from handrail.cli.approval import approver
from handrail.cli.live import Live, provenance_lines
from handrail.cli.screen import Exit, Screen, clean, screened
from handrail.cli.targets import Target, load_target, open_providers
from handrail.errors import RunError
from handrail.policy import Approver
from handrail.runner import run
from handrail.runs import RunResult

UNANSWERED = frozenset({"denied", "needs_approval"})
"""Codes of calls that nobody let through."""


@click.command("run")
@click.argument("target")
@click.option("-m", "--message", required=True, help="What to say to the agent.")
@click.option("--model", help="Use this model instead of the agent's: local, or provider:name.")
@click.option("--yes", is_flag=True, help="Approve every call that needs approval.")
@screened
def command(screen: Screen, target: str, message: str, model: str | None, yes: bool) -> Exit:
    """Ask the agent of TARGET.

    Its answer goes to stdout; each call, and where the answer came from, to stderr.
    """
    loaded = load_target(target)
    try:
        result = asyncio.run(_run(screen, loaded, message, model, approver(screen, yes=yes)))
    except RunError as error:
        if not isinstance(error.result, RunResult):
            raise
        return screen.fail(error, error.result.to_json())
    return _report(screen, result)


async def _run(screen: Screen, target: Target, message: str, model: str | None, approve: Approver | None) -> RunResult:
    agent = target.as_agent(model)
    async with open_providers(target) as providers:
        with Live(screen) as live:
            return await run(agent, message, tools=providers, model=model, approve=approve, memory={}, on_event=live)


def _report(screen: Screen, result: RunResult) -> Exit:
    waiting = [call for call in result.calls if call.code in UNANSWERED]
    if screen.as_json:
        screen.payload(result.to_json())
    else:
        screen.text(clean(result.output))
    screen.note("")
    screen.err.print(provenance_lines(result))
    for call in waiting:
        hint = "--yes approves it" if call.code == "needs_approval" else "it did not run"
        screen.error(f"{call.name} was not approved ({hint})")
    return Exit.DENIED if waiting else Exit.OK


__all__ = ["command"]
