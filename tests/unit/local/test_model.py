"""The model adapter: what is asked of the engine, what is called, and what is said. The engine is a fake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from handrail.errors import LocalModelError
from handrail.local.engine import MAX_TOOLS, Call, Turn
from handrail.local.model import LocalModel
from handrail.local.prompt import clauses, short_names, shorten, simplify, system_line
from handrail.local.render import MAX_RESULT_CHARS, Result, answer

NOW = datetime(2026, 12, 1, 14, 44, 59, tzinfo=UTC)
Outcome = Literal["success", "failed", "denied", "interrupted", "retried"]


class FakeEngine:
    """Answers each text with the turn given for it, and records what it was asked."""

    def __init__(self, turns: Mapping[str, Turn] | None = None) -> None:
        self.turns = dict(turns or {})
        self.texts: list[str] = []
        self.tools: Any = None
        self.system = ""
        self.timeout: float | None = None

    async def acomplete(self, text: str, tools: str = "[]", *, system: str = "", timeout: float | None = None) -> Turn:
        self.texts.append(text)
        self.tools, self.system, self.timeout = json.loads(tools), system, timeout
        return self.turns.get(text, Turn())


def _calls(*calls: Call, confidence: float = 0.9) -> Turn:
    return Turn(calls=calls, confidence=confidence, reasoning="because")


def _parameters(*names: str, schema: dict[str, Any] | None = None) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=name, description=f"Do {name}.", parameters_json_schema=schema or {"type": "object"})
        for name in names
    ]
    return ModelRequestParameters(function_tools=tools)


def _user(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def _round(*results: tuple[str, Any, Outcome], arguments: Sequence[dict[str, Any]] = ()) -> list[ModelMessage]:
    """A response with calls, and what came back from them."""
    none: dict[str, Any] = {}
    given = arguments or [none] * len(results)
    calls = [
        ToolCallPart(name, args, tool_call_id=f"c{number}")
        for number, ((name, _, _), args) in enumerate(zip(results, given, strict=True))
    ]
    returns = [
        ToolReturnPart(name, value, f"c{number}", outcome=outcome)
        for number, (name, value, outcome) in enumerate(results)
    ]
    return [ModelResponse(parts=calls), ModelRequest(parts=returns)]


async def _ask(engine: FakeEngine, *messages: ModelMessage, tools: Sequence[str] = ("look", "list")) -> ModelResponse:
    return await LocalModel(engine, clock=lambda: NOW).request(list(messages), None, _parameters(*tools))


def _made(response: ModelResponse) -> list[Call]:
    return [(part.tool_name, part.args_as_dict()) for part in response.parts if isinstance(part, ToolCallPart)]


async def test_a_call_of_the_engine_becomes_a_call() -> None:
    """The calls of the engine are the calls of the response, with the confidence beside them."""
    response = await _ask(FakeEngine({"go": _calls(("look", {"id": 1}))}), _user("go"))
    assert _made(response) == [("look", {"id": 1})]
    assert response.finish_reason == "tool_call"
    assert response.provider_details == {"confidence": 0.9, "reasoning": "because", "suppressed": []}


async def test_the_name_that_the_gate_knows() -> None:
    """The model is called ``local`` everywhere: on itself, in responses and in streams."""
    model = LocalModel(FakeEngine())
    assert (model.model_name, model.system) == ("local", "handrail")
    response = await _ask(FakeEngine(), _user("go"))
    assert (response.model_name, response.provider_name) == ("local", "handrail")


async def test_usage_is_not_invented() -> None:
    """The engine counts no tokens, so none are reported."""
    usage = (await _ask(FakeEngine(), _user("go"))).usage
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)


async def test_only_the_last_user_message_is_asked() -> None:
    """Instructions and earlier turns do not reach the engine."""
    engine = FakeEngine()
    first = ModelRequest(parts=[SystemPromptPart("be nice"), UserPromptPart("one")], instructions="be brief")
    await _ask(engine, first, ModelResponse(parts=[TextPart("ok")]), _user("two"))
    assert engine.texts == ["two"]


async def test_pictures_are_skipped() -> None:
    """Of a message with several parts, the words are asked."""
    engine = FakeEngine()
    content = ["what is", ImageUrl("https://example.org/a.png"), "this"]
    await _ask(engine, ModelRequest(parts=[UserPromptPart(content)]))
    assert engine.texts == ["what is this"]


async def test_results_end_the_turn() -> None:
    """Once results have come back the engine is not asked again; the answer is made from them."""
    engine = FakeEngine({"go": _calls(("look", {}))})
    response = await _ask(engine, _user("go"), *_round(("look", {"status": "shipped", "days": 2}, "success")))
    assert response.text == "status: shipped\ndays: 2"
    assert response.finish_reason == "stop"
    assert engine.texts == []


async def test_a_new_message_starts_a_new_turn() -> None:
    """Results of an earlier turn do not count for a new user message, in the same request or a later one."""
    engine = FakeEngine({"again": _calls(("look", {"id": 2}))})
    called, returned = _round(("look", "done", "success"))
    assert isinstance(returned, ModelRequest)
    for tail in ([returned, _user("again")], [ModelRequest(parts=[*returned.parts, UserPromptPart("again")])]):
        assert _made(await _ask(engine, _user("go"), called, *tail)) == [("look", {"id": 2})]


async def test_call_ids_are_counted() -> None:
    """Call ids are the same in every run of the same conversation, and unique in it."""
    engine = FakeEngine({"again": _calls(("look", {"id": 1}), ("list", {}))})
    response = await _ask(engine, _user("go"), *_round(("look", "done", "success")), _user("again"))
    assert [p.tool_call_id for p in response.parts if isinstance(p, ToolCallPart)] == ["local_2", "local_3"]


async def test_a_call_already_made_is_not_made_again() -> None:
    """A call with the same name and arguments as one since the last user message is dropped."""
    engine = FakeEngine({"go": _calls(("look", {"a": 1, "b": 2}))})
    made = ModelResponse(parts=[ToolCallPart("look", '{"b": 2, "a": 1}')])
    response = await _ask(engine, _user("go"), made)
    assert _made(response) == []
    assert response.text


async def test_a_turn_does_not_repeat_itself() -> None:
    """Of equal calls in one turn, one is made."""
    engine = FakeEngine({"go": _calls(("look", {"id": 1}), ("look", {"id": 1}), ("look", {"id": 2}))})
    assert _made(await _ask(engine, _user("go"))) == [("look", {"id": 1}), ("look", {"id": 2})]


async def test_no_call_says_what_it_is() -> None:
    """When no tool fits, the answer says that, what this model is, and which tools it has."""
    text = (await _ask(FakeEngine(), _user("tell me a joke"))).text
    assert text is not None
    assert "no tool for this" in text
    assert "not chat" in text
    assert "look, list" in text


async def test_without_tools_nothing_is_asked() -> None:
    """Without tools there is nothing to pick from: the engine is not even started."""
    engine = FakeEngine()
    text = (await _ask(engine, _user("hello"), tools=())).text
    assert text is not None
    assert "no tools" in text
    assert engine.texts == []


async def test_too_many_tools_are_refused() -> None:
    """More than eight tools are an error that names the count and what to do."""
    engine = FakeEngine()
    assert (await _ask(engine, _user("go"), tools=[f"t{n}" for n in range(MAX_TOOLS)])).text
    with pytest.raises(LocalModelError, match=r"at most 8 tools, and there are 9 .*fewer tools, or use another model"):
        await _ask(engine, _user("go"), tools=[f"t{n}" for n in range(MAX_TOOLS + 1)])


async def test_structured_output_is_refused() -> None:
    """A request for structured output is an error and not a text that looks like one."""
    parameters = ModelRequestParameters(
        output_tools=[ToolDefinition(name="final")], output_mode="tool", allow_text_output=False
    )
    with pytest.raises(LocalModelError, match="structured output"):
        await LocalModel(FakeEngine()).request([_user("go")], None, parameters)


async def test_the_timeout_setting_counts() -> None:
    """``timeout`` of the model settings is the deadline of the engine's turn."""
    engine = FakeEngine()
    model = LocalModel(engine, clock=lambda: NOW)
    await model.request([_user("go")], ModelSettings(timeout=2.5), _parameters("look"))
    assert engine.timeout == 2.5


TWO = "Which orders does Ada have, and what time is it in Tokyo?"
PARTS = ("Which orders does Ada have", "what time is it in Tokyo?")


async def test_a_request_with_no_call_is_asked_by_clauses() -> None:
    """If the whole gave no call, its clauses are asked, and their calls come in order."""
    engine = FakeEngine({PARTS[0]: _calls(("list", {"of": "Ada"})), PARTS[1]: _calls(("look", {}), confidence=0.5)})
    response = await _ask(engine, _user(TWO))
    assert engine.texts == [TWO, *PARTS]
    assert _made(response) == [("list", {"of": "Ada"}), ("look", {})]
    assert response.provider_details is not None
    assert response.provider_details["confidence"] == 0.5


async def test_an_unsure_clause_makes_no_call() -> None:
    """A clause alone is easily misread, so its call needs more confidence than the whole."""
    engine = FakeEngine(
        {PARTS[0]: _calls(("list", {}), confidence=0.5), PARTS[1]: _calls(("look", {}), confidence=0.3)}
    )
    assert _made(await _ask(engine, _user(TWO))) == [("list", {})]


async def test_a_request_with_a_call_is_not_split() -> None:
    """What the engine made of the whole stands."""
    engine = FakeEngine({TWO: _calls(("list", {}), confidence=0.1)})
    await _ask(engine, _user(TWO))
    assert engine.texts == [TWO]


async def test_a_negated_request_is_not_split() -> None:
    """A request such as "Do not ..., and ..." stays whole: its second half would lose the "not"."""
    engine = FakeEngine({TWO: Turn(negated=True)})
    await _ask(engine, _user(TWO))
    assert engine.texts == [TWO]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO, list(PARTS)),
        ("List Ada's orders, then tell me the time.", ["List Ada's orders", "tell me the time."]),
        ("Where is it? What time is it?", ["Where is it?", "What time is it?"]),
        ("Look up a1 and tell me the policy", ["Look up a1", "tell me the policy"]),
        ("Show the orders of Ada and Grace", []),
        ("It costs 3.50 in order_1.2", []),
        ("Where is it?", []),
        ("", []),
        ("A. B. C. D. E.", []),
    ],
)
def test_clauses(text: str, expected: list[str]) -> None:
    """Sentences and clauses are split, names joined by "and" are not, and more than four parts are left alone."""
    assert clauses(text) == expected


async def test_the_engine_is_told_the_date() -> None:
    """The date comes from the injected clock, and changes every quarter of an hour at most."""
    engine = FakeEngine()
    await _ask(engine, _user("go"))
    assert engine.system == "date: 2026-12-01 Tue 14:30"
    assert system_line(NOW.replace(minute=45)) == "date: 2026-12-01 Tue 14:45"


async def test_server_prefixes_are_taken_off_and_put_back() -> None:
    """The engine reads short names; calls come back under the tool's own."""
    engine = FakeEngine({"go": _calls(("now", {}))})
    response = await _ask(engine, _user("go"), tools=("time__now", "look"))
    assert [tool["name"] for tool in engine.tools] == ["now", "look"]
    assert _made(response) == [("time__now", {})]


def test_ambiguous_names_stay_whole() -> None:
    """A name is shortened only if no other tool could be meant."""
    names = ["a__now", "b__now", "c__look", "look", "d__"]
    assert short_names(names) == {name: name for name in names}


def test_schemas_are_simplified() -> None:
    """References are filled in, nulls and titles dropped, descriptions cut; what limits a value stays."""
    schema = {
        "title": "Args",
        "type": "object",
        "$defs": {"Room": {"title": "Room", "enum": ["hall", "garden"], "type": "string"}},
        "properties": {
            "room": {"$ref": "#/$defs/Room", "description": "Which room. " + "Long. " * 50},
            "guests": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
            "tags": {"type": ["array", "null"], "items": {"type": "string", "title": "Tag"}},
            "any": True,
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["room"],
    }
    assert simplify(schema) == {
        "type": "object",
        "properties": {
            "room": {"type": "string", "enum": ["hall", "garden"], "description": "Which room." + " Long." * 14},
            "guests": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["room"],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere/at~1all"},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"anyOf": [{"$ref": "#"}]},
        {"properties": [], "items": 3, "anyOf": "x", "description": 5},
    ],
)
def test_strange_schemas_end(schema: dict[str, Any]) -> None:
    """A schema that contains itself, points nowhere or is nonsense is cut off, and nothing is fetched."""
    assert json.dumps(simplify(schema))


def test_shortened_texts_end_at_a_sentence() -> None:
    """A description keeps whole sentences of its first paragraph, or whole words if one sentence is too long."""
    assert shorten("One is here. Two is here. Three.", 26) == "One is here. Two is here."
    assert shorten("First.\n\nSecond.", 100) == "First."
    assert shorten("Zones, e.g. Europe/London. More.", 27) == "Zones, e.g. Europe/London."
    assert shorten("one long sentence without an end", 12) == "one long"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"status": "shipped", "eta": None}, "status: shipped\neta: nothing"),
        ({"a": {"b": 1}, "c": [1, 2]}, 'a: {"b": 1}\nc: 1, 2'),
        ('{"status": "shipped"}', "status: shipped"),
        ("{not json", "{not json"),
        ("line one\nline two ", "line one\nline two"),
        (["order_1", "order_2"], "order_1, order_2"),
        ([{"id": 1, "tags": ["x", "y"]}, {"id": 2}], 'id: 1, tags: ["x", "y"]\nid: 2'),
        ([], "nothing"),
        ({}, "nothing"),
        (None, "nothing"),
        ("", "nothing"),
        (0, "0"),
        (False, "no"),
    ],
)
def test_one_result_is_the_answer(value: Any, text: str) -> None:
    """A lone result is shown as it is, on readable lines; nothing is hidden because it is falsy."""
    assert answer([Result("look", value)]) == text


def test_several_results_have_a_line_each() -> None:
    """Several results are told apart by the name of the tool, and by arguments where that is the same."""
    results = [
        Result("look", {"status": "shipped", "days": 2}, arguments={"id": "a1"}),
        Result("time", "10:00\nTokyo", arguments={"zone": "Asia/Tokyo"}),
        Result("time", "02:00", arguments={"zone": "Europe/London"}),
    ]
    assert answer(results).splitlines() == [
        "look: status: shipped, days: 2",
        "time(zone: Asia/Tokyo): 10:00 Tokyo",
        "time(zone: Europe/London): 02:00",
    ]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("failed", "look failed: no such order"),
        ("retried", "look failed: no such order"),
        ("denied", "look was not allowed: no such order"),
        ("interrupted", "look was interrupted: no such order"),
    ],
)
async def test_failures_are_said(outcome: Outcome, text: str) -> None:
    """A call that failed or was denied is said in the answer, and not tried again."""
    engine = FakeEngine({"go": _calls(("look", {}))})
    response = await _ask(engine, _user("go"), *_round(("look", "no such order", outcome)))
    assert response.text == text
    assert engine.texts == []


def test_a_failure_that_names_its_tool_is_not_named_twice() -> None:
    """The gate's own texts are said as they are."""
    refused = "the call of look was refused: it writes"
    assert answer([Result("look", refused, "denied")]) == refused


async def test_arguments_tell_equal_tools_apart() -> None:
    """The arguments of a result are found by its call id."""
    results = _round(("look", "a", "success"), ("look", "b", "failed"), arguments=[{"id": 1}, {"id": 2}])
    response = await _ask(FakeEngine(), _user("go"), *results)
    assert response.text == "look(id: 1): a\nlook(id: 2) failed: b"


def test_long_results_are_cut() -> None:
    """A result of any size gives an answer of bounded size, and what is missing is said."""
    text = answer([Result("look", "x" * (MAX_RESULT_CHARS + 5))])
    assert text.endswith("... (5 more characters)")


@pytest.mark.parametrize("text", ["go", "nothing fits", "done"])
async def test_a_stream_ends_in_the_same_response(text: str) -> None:
    """Streaming gives what asking without gives, whether it calls, answers or finds nothing."""
    engine = FakeEngine({"go": _calls(("look", {"id": 1}), ("list", {}))})
    model = LocalModel(engine, clock=lambda: NOW)
    messages: list[ModelMessage] = [_user(text), *(_round(("look", "x", "success")) if text == "done" else [])]
    whole = await model.request(messages, None, _parameters("look", "list"))
    async with model.request_stream(messages, None, _parameters("look", "list")) as stream:
        events = [event async for event in stream]
        streamed = stream.get()
    assert streamed == whole
    assert len([event for event in events if event.event_kind == "part_start"]) == len(whole.parts)
