"""From a model's name to a model: what is missing is said before the first token."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from handrail import Agent, PreflightError, run
from handrail.errors import LocalModelError, ModelUnavailableError
from handrail.local import engine, model
from handrail.models import PROVIDER_KEYS, PlayedModel, messages_from_json, resolve_model
from handrail.testing import ScriptedModel


def test_a_model_of_pydantic_ai_is_taken_as_it_is() -> None:
    """Every model that pydantic-ai has is a model here."""
    given = TestModel()
    assert resolve_model(given) is given


async def test_any_object_that_answers_can_play_a_model() -> None:
    """A program with a name and an ``answer`` is a model."""

    class Parrot:
        name = "parrot"

        def answer(self, messages: Any, tools: Any) -> str:
            return messages[-1].parts[-1].content

    assert isinstance(Parrot(), PlayedModel)
    assert resolve_model(Parrot()).model_name == "parrot"
    assert (await run(Agent(Parrot()), "Polly?")).output == "Polly?"


@pytest.mark.parametrize("wrong", [5, object(), ScriptedModel, FunctionModel, ["local"]])
def test_what_is_no_model_is_refused(wrong: Any) -> None:
    """The error says what a model can be."""
    with pytest.raises(ModelUnavailableError, match="is not a model"):
        resolve_model(wrong)


@pytest.mark.parametrize("name", ["nonsense", "nonsense:x", "open-ai:gpt-5", ":", "x:", "local:x", "LOCAL"])
def test_an_unknown_model_is_one_clear_line(name: str) -> None:
    """A name that nobody knows is refused with how names look, and without a traceback of somebody else's."""
    with pytest.raises(ModelUnavailableError) as raised:
        resolve_model(name)
    assert "\n" not in str(raised.value)
    assert raised.value.hint
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("provider", sorted(PROVIDER_KEYS))
def test_a_missing_key_or_package_names_what_to_do(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key or the provider's package, the error names the variable to set or the extra to install."""
    for keys in PROVIDER_KEYS.values():
        for key in keys:
            monkeypatch.delenv(key, raising=False)
    with pytest.raises(ModelUnavailableError) as raised:
        resolve_model(f"{provider}:some-model")
    hint = raised.value.hint or ""
    assert f"handrail[{provider}]" in hint or any(key in hint for key in PROVIDER_KEYS[provider])
    assert raised.value.context["model"] == f"{provider}:some-model"


def test_a_package_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is that of the provider whose client it is."""
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "pydantic_ai.models.openai", raising=False)
    with pytest.raises(ModelUnavailableError, match=r"handrail\[openai\]"):
        resolve_model("openai:gpt-5")


def test_the_embedded_model_says_why_it_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without it, the reason comes before the run, as a problem that can be solved."""
    monkeypatch.setattr(engine, "available", lambda: "there is no wheel for this platform")
    with pytest.raises(ModelUnavailableError, match="no wheel"):
        resolve_model("local")

    def fail(*_: object, **__: object) -> None:
        raise LocalModelError("the file is damaged", hint="install it again")

    def nothing() -> None:
        return None

    monkeypatch.setattr(engine, "available", nothing)
    monkeypatch.setattr(model, "LocalModel", fail)
    with pytest.raises(ModelUnavailableError, match="damaged") as raised:
        resolve_model("local")
    assert raised.value.hint == "install it again"


async def test_a_model_that_cannot_be_used_is_reported_with_everything_else() -> None:
    """One error has the missing model and the missing tool, and names the agent."""
    with pytest.raises(PreflightError) as raised:
        await run(Agent("nonsense:x", id="clerk", tools=["nothing"]), "Go")
    assert {problem.code for problem in raised.value.problems} == {"model_unavailable", "tool_not_registered"}
    assert {problem.where for problem in raised.value.problems} == {"agent 'clerk'"}


def test_a_conversation_that_is_none_is_refused() -> None:
    """Stored messages are checked when they are read."""
    for text in ("", "{}", "null", '[{"kind": "nothing"}]', "[1]"):
        with pytest.raises(ValueError):
            messages_from_json(text)
