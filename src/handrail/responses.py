"""A model's response that is there as a whole, given as a stream, for models that do not stream by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import StreamedResponse

__all__ = ["WholeResponse"]


@dataclass
class WholeResponse(StreamedResponse):
    """A finished response as a stream: one event for each part.

    Attributes:
        whole: The response.
    """

    whole: ModelResponse

    def __post_init__(self) -> None:
        self.provider_details = self.whole.provider_details
        self.finish_reason = self.whole.finish_reason
        self._usage = self.whole.usage

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for index, part in enumerate(self.whole.parts):
            yield self._parts_manager.handle_part(vendor_part_id=index, part=part)

    async def close_stream(self) -> None:
        """Do nothing: everything is there before the stream begins."""

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.whole.model_name or "unknown"

    @property
    def provider_name(self) -> str | None:
        """The provider's name."""
        return self.whole.provider_name

    @property
    def provider_url(self) -> None:
        """None: nothing was reached over a network."""
        return None

    @property
    def timestamp(self) -> datetime:
        """When the response was made."""
        return self.whole.timestamp
