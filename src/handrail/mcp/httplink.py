"""The HTTP side of a connection: a client that reaches only what may be reached, and why a request failed.

The SDK keeps neither the status of a failed request nor its reason, and lets one that could not be sent end
the whole session. Both are put right here.
"""

from __future__ import annotations

import email.utils
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2

from handrail.clock import SYSTEM_CLOCK
from handrail.errors import MCPConnectError, MCPError, MCPProtocolError
from handrail.mcp.entry import private_urls_allowed
from handrail.mcp.results import RESULT_CAP
from handrail.netguard import BodyTooLargeError, PinnedTransport, RefusedURLError

__all__ = ["HTTPFailure", "failures", "http_client", "unreachable"]

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_OWN = "handrail"
_SESSION = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class HTTPFailure:
    """Why an HTTP request failed; the SDK keeps neither status nor reason.

    Attributes:
        status: The status of the answer; None where there was none.
        reason: What happened, as the rest of a sentence about the server.
        retry_after: After how many seconds the server wants the request again, where it says so.
        hint: What to do about it.
        in_session: Whether the request named a session.
        lasting: Whether another try would fail in the same way.
        too_long: Whether there was an answer, and it was longer than the cap.
    """

    status: int | None
    reason: str
    retry_after: float | None = None
    hint: str | None = None
    in_session: bool = False
    lasting: bool = False
    too_long: bool = False


failures: ContextVar[list[HTTPFailure] | None] = ContextVar("handrail_http_failures", default=None)
"""Where the requests of the current task note why they failed."""


def _note_failure(failure: HTTPFailure) -> None:
    # The transports run each request in the context of the task that asked for it.
    if (noted := failures.get()) is not None:
        noted.append(failure)


class _CalmTransport(httpx2.AsyncBaseTransport):
    """Turns a request that could not be sent into an answer, so that it fails alone.

    Raised inside the SDK's transport, the error would end the session, with every other call in it.
    """

    def __init__(self, inner: PinnedTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except RefusedURLError as error:
            more = "; HANDRAIL_ALLOW_PRIVATE_MCP_URLS=true allows it for local work" if error.private else ""
            reason = f"is not connected to: its address {error.message}"
            failure = HTTPFailure(None, reason, hint=error.hint + more, lasting=True)
        except httpx2.RequestError as error:
            failure = HTTPFailure(None, f"could not be reached: {type(error).__name__}")
        else:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _CalmStream(response.stream)
            return response
        return httpx2.Response(502, request=request, extensions={_OWN: failure})

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CalmStream(httpx2.AsyncByteStream):
    """Ends in an error that the SDK takes for one of this body alone."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except BodyTooLargeError as error:
            failure = HTTPFailure(None, f"sent an answer of more than {error.cap} bytes", too_long=True)
        except httpx2.RequestError as error:
            failure = HTTPFailure(None, f"broke off its answer: {type(error).__name__}")
        else:
            return
        _note_failure(failure)
        raise httpx2.StreamError(failure.reason)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def http_client(
    headers: dict[str, str],
    seconds: float,
    auth: httpx2.Auth | None = None,
    on_lost: Callable[[HTTPFailure], None] | None = None,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client for one server. Whatever is asked for through it goes to addresses that were checked.

    Args:
        headers: Sent with every request.
        seconds: Deadline for connecting and writing. A stream that is open may stay silent for five minutes.
        auth: What authorises the requests. Those of its own go the same way.
        on_lost: For the older transport, where each message belongs to the session: called when one of them
            failed, because the SDK sends no other after it.
    """

    async def note_status(response: httpx2.Response) -> None:
        own: HTTPFailure | None = response.extensions.get(_OWN)
        if response.status_code < 400:
            return
        posted = response.request.method == "POST"
        failure = own or HTTPFailure(
            response.status_code,
            f"answered HTTP {response.status_code}",
            _retry_after(response.headers.get("retry-after")),
            in_session=_SESSION in response.request.headers or (posted and on_lost is not None),
        )
        _note_failure(failure)
        if posted and on_lost is not None:
            on_lost(failure)

    guarded = PinnedTransport(allow_private=private_urls_allowed, body_cap=RESULT_CAP)
    async with httpx2.AsyncClient(
        headers=headers,
        auth=auth,
        transport=_CalmTransport(guarded),
        trust_env=False,
        timeout=httpx2.Timeout(seconds, read=300.0),
        event_hooks={"response": [note_status]},
    ) as client:
        yield client


def unreachable(server: str, failure: HTTPFailure) -> MCPError:
    """Describe a server that did not take a request, or did not answer it in full."""
    if failure.too_long:
        return MCPProtocolError(f"server {server!r} {failure.reason}", server=server)
    hint = "check the headers of its entry" if failure.status in (401, 403) else failure.hint
    return MCPConnectError(
        f"server {server!r} {failure.reason}",
        hint=hint,
        server=server,
        status=failure.status,
        retry_after=failure.retry_after,
        transient=not failure.lasting and (failure.status is None or failure.status in _PASSING),
    )


def _retry_after(text: str | None) -> float | None:
    """Read ``Retry-After``, which is a number of seconds or a date. None where it is neither."""
    if text is None:
        return None
    if text.strip().isdecimal() and len(text) < 10:
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(date.timestamp() - SYSTEM_CLOCK.time(), 0.0)
