"""``handrail demo``: the example agent, with real tools and a real MCP server, without a key."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from handrail.agent import Agent
from handrail.cli.live import Live, calls_of, origin, provenance_lines, seconds, trust
from handrail.cli.screen import Exit, Screen, clean, screened, short
from handrail.cli.targets import Target, load_target, open_providers
from handrail.errors import ModelUnavailableError, RunError, TargetError
from handrail.runner import run
from handrail.runs import RunResult
from handrail.toolset import ToolProvider

__all__ = ["QUESTIONS", "Question", "command", "example"]

WHAT_IT_IS = (
    "The embedded model is a tiny tool-calling model for trying things, not a chat model: it picks tools,\n"
    "and its answers are what they returned. It needs no key, no account and no network."
)


@dataclass(frozen=True)
class Question:
    """What the demo asks.

    Attributes:
        text: The question.
        calls: The calls that answer it, as pairs of a tool and its arguments; none where nobody knows.
    """

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def tools(self) -> set[str]:
        """The tools that have to be called for an answer."""
        return {name for name, _ in self.calls}


QUESTIONS = (
    Question("Where is order_1042?", (("lookup_order", {"order_id": "order_1042"}),)),
    Question("What time is it in Tokyo?", (("get_current_time", {"timezone": "Asia/Tokyo"}),)),
    Question(
        "Where is order_1043, and what time is it in New York?",
        (
            ("lookup_order", {"order_id": "order_1043"}),
            ("get_current_time", {"timezone": "America/New_York"}),
        ),
    ),
)


@dataclass(frozen=True)
class _Answer:
    question: Question
    result: RunResult
    duration: float
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it was answered, with the expected tools really called."""
        called = {call.name for call in self.result.calls if not call.is_error}
        return self.error is None and bool(called) and self.question.tools <= called

    def to_json(self) -> dict[str, Any]:
        """The answer as plain JSON data."""
        return {
            "question": self.question.text,
            "ok": self.ok,
            "answer": self.result.output,
            "tainted": self.result.tainted,
            "expected_tools": sorted(self.question.tools),
            "calls": [call.as_dict() for call in self.result.calls],
            "provenance": self.result.provenance.to_json(),
            "duration": self.duration,
            "error": self.error,
        }


@click.command("demo")
@click.option("-m", "--message", help="Ask this instead of the three questions.")
@click.option("--model", help="Use this model instead of the embedded one, such as openai:gpt-5.")
@screened
def command(screen: Screen, message: str | None, model: str | None) -> Exit:
    """Let a support agent answer three questions, with three Python tools and a real MCP server."""
    target = load_target(str(example() / "app.py"))
    _require_clock()
    stand_in = model is None and _explain(screen, can_ask=message is None)
    questions = QUESTIONS if message is None else (Question(message),)
    answers = asyncio.run(_ask(screen, target, questions, model, stand_in))
    ok = all(answer.ok for answer in answers)
    if screen.as_json:
        name = "scripted" if stand_in else model or "local"
        screen.payload({"ok": ok, "model": name, "questions": [answer.to_json() for answer in answers]})
    else:
        screen.render(_summary(answers))
    for answer in answers:
        _complain(screen, answer)
    return Exit.OK if ok else Exit.FAILED


def example() -> Path:
    """The folder of the example: in an installed package, else in a checkout.

    Raises:
        TargetError: If it is in neither.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_demo" / "orders", package.parents[1] / "examples" / "orders"):
        if (folder / "app.py").is_file():
            return folder
    raise TargetError("the demo's example is not installed", hint="reinstall handrail")


def _require_clock() -> None:
    if importlib.util.find_spec("mcp_server_time") is None:
        raise TargetError("the demo needs mcp-server-time", hint="install it with: pip install 'handrail[demo]'")


def _explain(screen: Screen, *, can_ask: bool) -> bool:
    """Say what will answer. True where that is a script, since the embedded model cannot be used here."""
    from handrail.local.engine import available

    reason = available()
    if reason is None:
        screen.note(WHAT_IT_IS, "dim")
        return False
    if not can_ask:
        raise ModelUnavailableError(reason, hint="to ask your own question, name a model with --model")
    screen.error(reason, "warning")
    screen.note("A script stands in for the model. The tools, the gate and the MCP server are the real ones.")
    return True


async def _ask(
    screen: Screen, target: Target, questions: Sequence[Question], model: str | None, stand_in: bool
) -> list[_Answer]:
    agent = target.as_agent(model)
    answers: list[_Answer] = []
    async with open_providers(target) as providers:
        for number, question in enumerate(questions, 1):
            place = f"{number} of {len(questions)}  " if len(questions) > 1 else ""
            screen.note(Text.assemble("\n", (place, "dim"), (clean(question.text), "bold")))
            chosen = _StandIn(question) if stand_in else model
            answers.append(await _answer(screen, agent, question, providers, chosen))
    return answers


async def _answer(
    screen: Screen, agent: Agent, question: Question, providers: Sequence[ToolProvider], model: Any
) -> _Answer:
    began, error = time.monotonic(), None
    with Live(screen) as live:
        try:
            result = await run(agent, question.text, tools=providers, model=model, on_event=live)
        except RunError as failure:
            if not isinstance(failure.result, RunResult):
                raise
            result, error = failure.result, str(failure)
    duration = time.monotonic() - began
    if not screen.as_json and result.output:
        screen.text("\n".join(f"  {line}" for line in clean(result.output).splitlines()))
    screen.note(f"  {seconds(duration)} in all", "dim")
    return _Answer(question, result, duration, error)


def _summary(answers: Sequence[_Answer]) -> Table | Text:
    if len(answers) == 1:
        table = provenance_lines(answers[0].result)
        table.title = "\nWhere the answer came from"
        table.title_justify = "left"
        return table
    table = Table(box=SIMPLE_HEAD, title="\nWhere each answer came from", title_justify="left", pad_edge=False)
    for heading in ("question", "tool", "run by", "text is"):
        table.add_column(heading)
    for answer in answers:
        _add_rows(table, answer)
    return table


def _add_rows(table: Table, answer: _Answer) -> None:
    question = short(answer.question.text, 60)
    labels = calls_of(answer.result)
    for label in labels:
        table.add_row(question, short(label.tool or "?", 64), origin(label), trust(label))
        question = ""
    if not labels:
        table.add_row(question, Text("none", "red"), "", "")


def _complain(screen: Screen, answer: _Answer) -> None:
    if answer.ok:
        return
    missing = sorted(answer.question.tools - {call.name for call in answer.result.calls if not call.is_error})
    why = answer.error or (f"{', '.join(missing)} was not called" if missing else "no tool was called")
    screen.error(f"{answer.question.text!r} was not answered as expected: {why}")


class _StandIn:
    """Plays the model where the embedded one cannot be used: it makes a question's calls, then repeats their results.

    Attributes:
        name: What events call it.
    """

    name = "scripted"

    def __init__(self, question: Question) -> None:
        self._calls = list(question.calls)

    def answer(self, messages: Sequence[Any], tools: Sequence[str]) -> Any:
        """Give the next turn."""
        from handrail.local.render import Result, answer

        returned = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        if not returned:
            return self._calls
        return answer([Result(part.tool_name, part.content, part.outcome) for part in returned])
