"""From a model's name to a model: the embedded one, one of a provider, or one that a program plays.

With ``loop``, ``responses`` and ``local.model``, this is where pydantic_ai is imported: when a run needs a model.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast, runtime_checkable

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from handrail.errors import LocalModelError, ModelUnavailableError
from handrail.responses import WholeResponse

__all__ = ["Model", "PlayedModel", "Turn", "messages_from_json", "messages_to_json", "resolve_model"]

Turn = "str | Sequence[tuple[str, Any]]"
"""What a played model answers: text, or tool calls as pairs of a name and arguments."""


@runtime_checkable
class PlayedModel(Protocol):
    """A model that a program plays, such as ``handrail.testing.ScriptedModel``."""

    name: str

    def answer(self, messages: Sequence[Any], tools: Sequence[str]) -> Any:
        """Give the next turn: text, calls as ``(name, arguments)`` pairs, or text followed by calls."""
        ...


def resolve_model(model: Any) -> Model[Any]:
    """Find the model that a name or an object stands for.

    Args:
        model: ``"local"``, ``"provider:name"``, a played model, or one of pydantic-ai's.

    Raises:
        ModelUnavailableError: If the name is unknown, its key is missing, or its extra is not installed.
    """
    if isinstance(model, Model):
        return cast("Model[Any]", model)
    if isinstance(model, PlayedModel):
        return _Played(model)
    if not isinstance(model, str):
        raise ModelUnavailableError(
            f"{model!r} is not a model", hint='give "local", "provider:name", or a model object'
        )
    return _local() if model == "local" else _of_provider(model)


def _local() -> Model:
    from handrail.local.engine import available
    from handrail.local.model import LocalModel

    if (reason := available()) is not None:
        raise ModelUnavailableError(f"the embedded model cannot be used: {reason}")
    try:
        return LocalModel()
    except LocalModelError as error:
        raise ModelUnavailableError(error.message, hint=error.hint) from None


def _of_provider(name: str) -> Model:
    try:
        return infer_model(name)
    except UserError as error:
        raise ModelUnavailableError(_first_line(error), hint=_key_hint(name), model=name) from None
    except ImportError:
        provider = name.partition(":")[0]
        raise ModelUnavailableError(
            f"the model {name!r} needs a package that is not installed",
            hint=f"install it with: pip install 'handrail[{_EXTRAS.get(provider, provider)}]'",
            model=name,
        ) from None
    except Exception as error:
        # A provider's own client raises what it likes when its key is missing.
        raise ModelUnavailableError(
            f"the model {name!r} cannot be used: {_first_line(error)}", hint=_key_hint(name), model=name
        ) from None


_EXTRAS: Mapping[str, str] = {
    "openai-chat": "openai", "openai-responses": "openai", "azure": "openai", "deepseek": "openai", "ollama": "openai",
    "google-gla": "google", "google-vertex": "google", "google-cloud": "google",
}  # fmt: skip

PROVIDER_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"),
    "cohere": ("CO_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""The environment variables that hold each provider's key; one of them is enough."""


def _key_hint(name: str) -> str:
    provider, colon, _ = name.partition(":")
    keys = PROVIDER_KEYS.get(_EXTRAS.get(provider, provider))
    if not colon or keys is None:
        return 'write Agent("local"), or "provider:name" such as "openai:gpt-5"'
    if not any(os.environ.get(key) for key in keys):
        return f"set {keys[0]}, or use the embedded model with --model local"
    return "check the model's name"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


class _Played(Model):
    """Lets a program answer in a model's place."""

    def __init__(self, player: PlayedModel) -> None:
        super().__init__()
        self._player = player
        self._number = itertools.count(1)

    @property
    def model_name(self) -> str:
        return self._player.name

    @property
    def system(self) -> str:
        return "handrail"

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """Leave the history as it is: there is no provider whose dialect it would have to be put into."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        tools = [tool.name for tool in model_request_parameters.function_tools]
        parts = _parts(self._player.answer(messages, tools), self._number)
        return ModelResponse(parts, usage=RequestUsage(), model_name=self._player.name, provider_name="handrail")

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        response = await self.request(messages, model_settings, model_request_parameters)
        yield WholeResponse(model_request_parameters, response)


def _parts(turn: Any, number: Iterator[int]) -> list[TextPart | ToolCallPart]:
    if isinstance(turn, str):
        return [TextPart(turn)]
    parts: list[TextPart | ToolCallPart] = []
    for item in turn:
        if isinstance(item, str):
            parts.append(TextPart(item))
        else:
            name, arguments, *call_id = item
            parts.append(ToolCallPart(name, arguments, call_id[0] if call_id else f"call_{next(number)}"))
    return parts


def messages_to_json(messages: Sequence[Any]) -> str:
    """Write a conversation as JSON text."""
    return ModelMessagesTypeAdapter.dump_json(list(messages)).decode()


def messages_from_json(text: str) -> list[ModelMessage]:
    """Read a conversation back.

    Raises:
        pydantic.ValidationError: If the text is not a conversation.
    """
    return ModelMessagesTypeAdapter.validate_json(text)
