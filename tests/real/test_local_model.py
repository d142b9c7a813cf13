"""The real embedded engine in its real process. Needs the extra ``local``; slow on a busy machine."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from handrail.local.engine import LocalEngine, available
from handrail.local.model import LocalModel

pytestmark = [pytest.mark.real, pytest.mark.skipif(available() is not None, reason=str(available()))]

NOW = datetime(2026, 12, 1, 0, 30, tzinfo=UTC)


def _tool(name: str, description: str, **parameters: str) -> ToolDefinition:
    properties = {
        key: {"type": "string", "title": key.title(), "description": text} for key, text in parameters.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return ToolDefinition(name=name, description=description, parameters_json_schema=schema)


ZONE = "IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local timezone if none is given."
TOOLS = [
    _tool("lookup_order", "Look up the fulfilment status of one order.", order_id="Order ID in the form order_1234."),
    _tool("list_orders", "List the orders of one customer.", customer="The customer's first name."),
    _tool("get_refund_policy", "Get the shop's refund policy."),
    _tool("time__get_current_time", "Get current time in a specific timezone", timezone=ZONE),
    _tool(
        "time__convert_time",
        "Convert time between timezones",
        source_timezone=ZONE,
        time="Time to convert in 24-hour format (HH:MM)",
        target_timezone=ZONE,
    ),
]

QUESTIONS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "Where is order_1042?": [("lookup_order", {"order_id": "order_1042"})],
    "What time is it in Tokyo?": [("time__get_current_time", {"timezone": "Asia/Tokyo"})],
    "Where is order_1043, and what time is it in New York?": [
        ("lookup_order", {"order_id": "order_1043"}),
        ("time__get_current_time", {"timezone": "America/New_York"}),
    ],
}


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalEngine]:
    """One engine for all tests that do not end it: reading the tools is what takes long."""
    engine = LocalEngine()
    yield engine
    engine.close()


@pytest.fixture
def model(shared: LocalEngine) -> LocalModel:
    """A model at a fixed time."""
    return LocalModel(shared, clock=lambda: NOW)


async def _ask(model: LocalModel, *messages: ModelMessage) -> ModelResponse:
    return await model.request(list(messages), None, ModelRequestParameters(function_tools=TOOLS))


def _user(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


@pytest.mark.parametrize("question", QUESTIONS)
async def test_the_right_tools_twice(model: LocalModel, question: str) -> None:
    """The questions of the demonstration get the right calls, the same with the same confidence each time."""
    first, second = await _ask(model, _user(question)), await _ask(model, _user(question))
    calls = [(part.tool_name, part.args_as_dict()) for part in first.parts if isinstance(part, ToolCallPart)]
    assert calls == QUESTIONS[question]
    assert first == second


async def test_a_turn_with_its_results(model: LocalModel) -> None:
    """After the results the answer is made of them, and names what it is about."""
    question = _user("Where is order_1043, and what time is it in New York?")
    called = await _ask(model, question)
    values = {"lookup_order": {"status": "shipped"}, "time__get_current_time": '{"datetime": "2026-11-30T19:30"}'}
    returns = [
        ToolReturnPart(part.tool_name, values[part.tool_name], part.tool_call_id)
        for part in called.parts
        if isinstance(part, ToolCallPart)
    ]
    answered = await _ask(model, question, called, ModelRequest(parts=returns))
    assert answered.text == "lookup_order: status: shipped\ntime__get_current_time: datetime: 2026-11-30T19:30"


async def test_it_is_no_chat_model(model: LocalModel) -> None:
    """A greeting gets no call, and is told what this is."""
    assert "tiny tool-calling model" in str((await _ask(model, _user("Hello"))).text)


def test_a_refused_request_does_not_end_it(shared: LocalEngine) -> None:
    """Tools that are no JSON do not bring the process down."""
    assert shared.complete("Where is order_1042?", "nonsense").calls == ()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_sockets_and_nothing_of_the_package(shared: LocalEngine) -> None:
    """The process holds no socket, has no environment, and maps nothing of the package but the engine."""
    shared.complete("Where is order_1042?")
    process = Path(f"/proc/{shared.pid}")
    links = [os.readlink(link) for link in (process / "fd").iterdir()]
    assert links
    assert not [link for link in links if link.startswith("socket:")]
    assert (process / "environ").read_bytes() == b""
    mapped = {line.split()[-1] for line in (process / "maps").read_text().splitlines() if "site-packages" in line}
    assert {Path(path).name for path in mapped} == {"libneedle3.so"}


def test_reaped_after_close() -> None:
    """After ``close`` the process is gone, and was waited for."""
    engine = LocalEngine()
    engine.complete("Where is order_1042?")
    pid = engine.pid
    assert pid is not None
    engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PROGRAM = """
import os, sys
from handrail.local.engine import LocalEngine
engine = LocalEngine()
engine.complete("hello")
print(engine.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd_open")
def test_dies_with_its_parent() -> None:
    """If the program is killed and cannot clean up, the process ends by itself."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(json.loads(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    try:
        assert select.select([worker], [], [], 10)[0]
    finally:
        os.close(worker)
