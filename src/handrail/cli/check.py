"""``handrail check``: everything that stands in the way of a run, at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import click
from rich.text import Text

from handrail.agent import Agent
from handrail.cli.screen import Exit, Screen, one_line, problem_json, screened
from handrail.cli.targets import Target, load_target, open_providers, open_toolset
from handrail.errors import PreflightError, Problem
from handrail.runner import prepare
from handrail.sources import MCPSource
from handrail.toolset import ToolProvider

__all__ = ["command"]


@dataclass(frozen=True)
class _Outcome:
    label: str
    model: str | None
    tools: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)


@click.command("check")
@click.argument("target")
@click.option("--model", help="Check with this model instead of the agent's.")
@screened
def command(screen: Screen, target: str, model: str | None) -> Exit:
    """Find everything that stands in the way of running TARGET.

    Its servers are started, its tools and its model are found. No token is spent.
    """
    outcome = _check(target, model)
    for problem in outcome.problems:
        screen.error(str(problem), problem.severity)
    if screen.as_json:
        screen.payload({
            "target": outcome.label,
            "ok": outcome.ok,
            "model": outcome.model,
            "tools": list(outcome.tools),
            "problems": [problem_json(problem) for problem in outcome.problems],
        })  # fmt: skip
    elif outcome.ok:
        screen.render(_good(outcome))
    return Exit.OK if outcome.ok else Exit.PREFLIGHT


def _check(text: str, model: str | None) -> _Outcome:
    label, name = text, model
    try:
        target = load_target(text)
        label, name = target.label, model or (target.agent.model_name if target.agent else None)
        tools, warnings = asyncio.run(_prepare(target, model))
    except PreflightError as error:
        return _Outcome(label, name, (), error.problems)
    return _Outcome(label, name, tools, warnings)


async def _prepare(target: Target, model: str | None) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    if target.agent is None and model is None:
        async with open_toolset(target) as toolset:
            return tuple(toolset.tools), ()
    agent = target.as_agent(model)
    async with open_providers(target) as providers:
        toolset, _ = await prepare(agent, tools=providers, model=model, memory={})
        return tuple(toolset.tools), await _warnings(agent, providers)


async def _warnings(agent: Agent, providers: list[ToolProvider]) -> tuple[Problem, ...]:
    """What is odd about the servers' tools, without being in the way."""
    from handrail.mcp.manager import MCPConnectionManager

    sources = [source for source in agent.tools if isinstance(source, MCPSource)]
    managers = [provider for provider in providers if isinstance(provider, MCPConnectionManager)]
    found = [problem for one in managers for problem in await one.preflight(sources, agent_id=agent.id)]
    return tuple(problem for problem in found if problem.severity != "error")


def _good(outcome: _Outcome) -> Text:
    tools = ", ".join(one_line(name) for name in outcome.tools) or "none"
    text = Text.assemble(("ready ", "bold green"), (one_line(outcome.label), "bold"))
    if outcome.model is not None:
        text.append(f"\n  model  {one_line(outcome.model)}")
    return text.append(f"\n  tools  {tools}")
