"""What the owner of a connection and the session inside it know in common, free of the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from handrail.errors import MCPConnectError, MCPError, MCPServerDiedError
from handrail.mcp.pipe import StdioPipe

__all__ = ["ConnectionEnded", "Link", "NotRun", "RemoteFailure"]

_EXIT_WAIT = 0.5


class ConnectionEnded(Exception):
    """The connection ended before the answer came. The owner knows why."""


class RemoteFailure(Exception):
    """The server answered a request with a JSON-RPC error.

    Attributes:
        rpc_code: The code of the error.
        text: Its message. It comes from the server, and is as little trusted as a result.
    """

    def __init__(self, rpc_code: int, text: str) -> None:
        super().__init__(rpc_code, text)
        self.rpc_code = rpc_code
        self.text = text


class NotRun(Exception):
    """The server refused a request before it ran anything, so the request may be sent again.

    Attributes:
        error: What the request ends in where it is not sent again.
        wait: The seconds after which the server wants it again.
        renew: Why the connection has to be replaced first, as the rest of a sentence about the server; None
            where it can stay.
        legacy: Whether the next connection has to be greeted in the older way.
    """

    def __init__(
        self,
        error: MCPError | RemoteFailure,
        *,
        wait: float = 0.0,
        renew: str | None = None,
        legacy: bool = False,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait
        self.renew = renew
        self.legacy = legacy


class Link:
    """One attempt to connect, and the connection that it becomes.

    Attributes:
        server: The id of the server.
        pipe: The child process; None for a server at an address.
        over: Set when the connection has ended, or should end.
        cause: Why it ended, where that is known.
        deliberate: Whether it ended because we wanted it to.
        heard: Whether the server has answered anything yet.
        tools_changed: Called when the server says that its tools are others now.
        noise: How many lines of its output were no messages.
    """

    def __init__(self, server: str, on_tools_changed: Callable[[], None] = lambda: None) -> None:
        self.server = server
        self.tools_changed = on_tools_changed
        self.pipe: StdioPipe | None = None
        self.over = asyncio.Event()
        self.cause: str | None = None
        self.deliberate = False
        self.heard = False
        self.noise = 0

    def end(self, cause: str | None = None, *, deliberate: bool = False) -> None:
        """Note that the connection has ended, or ask for its end. The first cause is kept."""
        if self.cause is None:
            self.cause = cause
            self.deliberate = deliberate
        self.over.set()

    async def died(self) -> MCPServerDiedError:
        """Describe the end of the connection. Waits a moment for the exit code of a child process."""
        if self.pipe is not None and self.cause is None:
            await self.pipe.wait_exited(_EXIT_WAIT)
        return MCPServerDiedError(f"server {self.server!r} {self.last_words}", hint=self.last_output, **self.facts)

    async def died_at_start(self) -> MCPConnectError:
        """Describe the end of a server that never became ready. Trying again may help."""
        if self.pipe is not None and self.cause is None:
            await self.pipe.wait_exited(_EXIT_WAIT)
        return MCPConnectError(
            f"server {self.server!r} did not start: it {self.last_words}",
            hint=self.last_output,
            transient=self.cause is None,
            **self.facts,
        )

    @property
    def last_words(self) -> str:
        """How it ended, as the rest of a sentence about the server."""
        if self.cause is not None:
            return self.cause
        if self.pipe is None:
            return "closed the connection"
        if self.pipe.forced:
            return "closed its output"
        if self.pipe.signal is not None:
            return f"was ended by {self.pipe.signal}"
        if self.pipe.exit_code is not None:
            return f"ended with exit code {self.pipe.exit_code}"
        return "closed its output"

    @property
    def last_output(self) -> str | None:
        """The end of what a child process wrote to its error output, and how much of its output was noise."""
        if self.pipe is None:
            return None
        tail = self.pipe.stderr_tail()
        pieces = [f"its last output: {tail}"] if tail else []
        if self.noise:
            pieces.append(f"{self.noise} lines on its standard output were no messages")
        return "; ".join(pieces) or None

    @property
    def facts(self) -> dict[str, Any]:
        """What an error about this connection carries as its context."""
        facts: dict[str, Any] = {"server": self.server}
        if self.deliberate:
            facts["deliberate"] = True
        if self.pipe is not None:
            facts |= {
                "pid": self.pipe.pid,
                "exit_code": self.pipe.exit_code,
                "signal": self.pipe.signal,
                "stderr": self.pipe.stderr_tail(),
            }
        return facts
