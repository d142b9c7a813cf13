"""The HTTP side of a connection: a client that heeds no proxy of the environment, and why a request failed.

The SDK keeps neither the status of a failed request nor its reason, and lets one that could not be sent end
the whole session. Both are put right here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2

from handrail.errors import MCPConnectError

__all__ = ["HTTPFailure", "failures", "http_client", "unreachable"]

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_OWN = "handrail"


@dataclass(frozen=True, slots=True)
class HTTPFailure:
    """Why an HTTP request failed; the SDK keeps neither status nor reason."""

    status: int | None
    reason: str
    retry_after: str | None = None


failures: ContextVar[list[HTTPFailure] | None] = ContextVar("handrail_http_failures", default=None)
"""Where the requests of the current task note why they failed."""


def _note_failure(failure: HTTPFailure) -> None:
    # The transports run each request in the context of the task that asked for it.
    if (noted := failures.get()) is not None:
        noted.append(failure)


async def _note_status(response: httpx2.Response) -> None:
    if response.status_code >= 400 and _OWN not in response.extensions:
        reason = f"answered HTTP {response.status_code}"
        _note_failure(HTTPFailure(response.status_code, reason, response.headers.get("retry-after")))


class _CalmTransport(httpx2.AsyncHTTPTransport):
    """Turns a request that could not be sent into an answer, so that it fails alone.

    Raised inside the SDK's transport, the error would end the session, with every other call in it.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            _note_failure(HTTPFailure(None, f"could not be reached: {type(error).__name__}"))
            return httpx2.Response(502, request=request, extensions={_OWN: True})


@asynccontextmanager
async def http_client(headers: dict[str, str], seconds: float) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client for one server.

    Args:
        headers: Sent with every request.
        seconds: Deadline for connecting and writing. A stream that is open may stay silent for five minutes.
    """
    async with httpx2.AsyncClient(
        headers=headers,
        transport=_CalmTransport(trust_env=False),
        trust_env=False,
        timeout=httpx2.Timeout(seconds, read=300.0),
        event_hooks={"response": [_note_status]},
    ) as client:
        yield client


def unreachable(server: str, failure: HTTPFailure) -> MCPConnectError:
    """Describe a server that did not take a request."""
    hint = "check the headers of its entry" if failure.status in (401, 403) else None
    return MCPConnectError(
        f"server {server!r} {failure.reason}",
        hint=hint,
        server=server,
        status=failure.status,
        retry_after=failure.retry_after,
        transient=failure.status is None or failure.status in _PASSING,
    )
