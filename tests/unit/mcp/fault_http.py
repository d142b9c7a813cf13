"""MCP servers over HTTP that misbehave in one chosen way. Standard library only, and nothing of the SDK.

The path chooses the way. ``/sse`` speaks the older transport with server-sent events, everything else the newer one.
"""

from __future__ import annotations

import gzip
import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

FORGETS = {
    "/forgets": (404, b""),
    "/forgets-404": (404, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}'),
    "/forgets-400": (400, b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "No valid session ID provided"}}'),
    "/forgets-id": (400, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Unknown session"}}'),
}
"""How servers say that they do not know a session, by path."""

TOOL = {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}


class FaultHTTPServer(ThreadingHTTPServer):
    """Runs in a thread of its own while the context is open.

    Attributes:
        seen: Path, method and headers of each message that came.
        retry_after: What a server that is busy says.
        session: Give it another number to make the server forget its sessions.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.session = 1
        self.outbox: queue.Queue[bytes | None] = queue.Queue()
        self.failures = 0
        self.retry_after = "0"
        self.release = threading.Event()

    def url(self, path: str) -> str:
        """The address of one way of misbehaving."""
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def count(self, method: str) -> int:
        """How many messages of a method came."""
        return sum(1 for _, name, _ in self.seen if name == method)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.outbox.put(None)
        self.shutdown()
        self._thread.join(5)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultHTTPServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/sse"):
            # What the last stream was told is not for this one.
            last, self.server.outbox = self.server.outbox, queue.Queue()
            last.put(None)
            endpoint = f"event: endpoint\ndata: /messages{self.path.removeprefix('/sse')}\n\n"
            self._send_outbox(endpoint.encode())
        elif self.path == "/changes":
            self._send_outbox(b"")
        else:
            self._reply(405, b"")

    def _send_outbox(self, first: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        outbox = self.server.outbox
        self.wfile.write(first)
        while (data := outbox.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
        self.close_connection = True

    def _listen(self, request: dict[str, Any]) -> None:
        """Open the stream of changes of the newer protocol: what comes from the outbox is told on it."""
        meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
        params = {"_meta": meta, "notifications": request["params"]["notifications"]}
        ack = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        self._send_outbox(b"event: message\ndata: " + json.dumps(ack).encode() + b"\n\n")

    def do_DELETE(self) -> None:
        self._reply(200, b"")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method: str = message["method"]
        self.server.seen.append((self.path, method, {k.lower(): v for k, v in self.headers.items()}))
        if "id" not in message:
            self._reply(202, b"")
            return
        if self._misbehave(method):
            return
        if self.path == "/changes-modern" and method == "subscriptions/listen":
            self._listen(message)
            return
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(self.path, method, message)}).encode()
        if self.path.startswith("/huge") and method == "tools/call":
            body = body[:-1] + b" " * (11 * 1024 * 1024) + b"}"
        if self.path == "/messages-bad" and method == "tools/call":
            self._reply(500, b"")
        elif self.path == "/messages-lost" and method == "tools/call" and self._once():
            self._reply(404, b"")
        elif self.path.startswith("/messages"):
            self._reply(202, b"")
            self.server.outbox.put(body)
        elif self.path in ("/stream", "/huge-event"):
            self._reply(200, b"event: message\ndata: " + body + b"\n\n", "text/event-stream")
        elif self.path == "/gzip-stream":
            event = gzip.compress(b"event: message\ndata: " + body + b"\n\n")
            self._reply(200, event, "text/event-stream", coding="gzip")
        elif self.path in ("/gzip", "/huge-gzip"):
            self._reply(200, gzip.compress(body), session=method == "initialize", coding="gzip")
        else:
            self._reply(200, body, session=method == "initialize" and self.path not in ("/gone", "/bad-request"))

    def _misbehave(self, method: str) -> bool:
        """Do what the path says instead of answering."""
        called = method == "tools/call"
        if self.path == "/denied" or (self.path == "/expires" and called):
            self._reply(401, b"no")
        elif self.path == "/busy" and called and self._once():
            self._reply(503, b"later")
        elif self.path == "/wait" and called and self._once():
            self._reply(429, b"later", retry_after=self.server.retry_after)
        elif (self.path == "/always-waits" and called) or (self.path == "/waits-at-first" and self._once()):
            self._reply(503, b"later", retry_after="0")
        elif self.path == "/fails" and called:
            self._reply(500, b"no")
        elif self.path == "/limited" and called:
            self._reply(429, b"no")
        elif self.path == "/drop" and called:
            self.close_connection = True
        elif self.path == "/hang" and called:
            self.server.release.wait(20)
            self.close_connection = True
        elif self.path in FORGETS and method not in ("initialize", "server/discover") and self._forgotten():
            status, body = FORGETS[self.path]
            self._reply(status, body)
        elif self.path in ("/forgets-always", "/gone") and called:
            self._reply(404, b"")
        elif self.path == "/bad-request" and called:
            error = {"code": -32602, "message": "no such argument"}
            self._reply(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
        elif self.path == "/page" or (self.path == "/page-later" and called):
            self._reply(200, b"<html>hello</html>", "text/html")
        elif self.path == "/accepted" and called:
            self._reply(202, b"")
        elif self.path == "/half" and called:
            self._reply(200, b'{"jsonrpc": "2.0", ', length=100)
            self.close_connection = True
        elif self.path == "/half-event" and called:
            self._reply(200, b"event: message\ndata: {", "text/event-stream", length=100)
            self.close_connection = True
        elif self.path == "/odd-coding" and called:
            self._reply(200, b"\x0b\x02\x80", coding="br")
        else:
            return False
        return True

    def _once(self) -> bool:
        self.server.failures += 1
        return self.server.failures == 1

    def _forgotten(self) -> bool:
        return self.headers.get("mcp-session-id") != str(self.server.session)

    def _reply(
        self,
        status: int,
        body: bytes,
        kind: str = "application/json",
        *,
        session: bool = False,
        coding: str | None = None,
        length: int | None = None,
        retry_after: str | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) if length is None else length))
        if coding is not None:
            self.send_header("content-encoding", coding)
        if retry_after is not None:
            self.send_header("retry-after", retry_after)
        if session:
            self.send_header("mcp-session-id", str(self.server.session))
        self.end_headers()
        self.wfile.write(body)


def _answer(path: str, method: str, message: dict[str, Any]) -> dict[str, Any]:
    answer = _plain_answer(path, method, message)
    if path.endswith("-modern") and "result" in answer:
        answer["result"] |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return answer


def _plain_answer(path: str, method: str, message: dict[str, Any]) -> dict[str, Any]:
    if method == "server/discover" and path.endswith("-modern"):
        return {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}}
    if method == "initialize":
        info = {"name": "fault", "version": "1"}
        era = "2025-11-25"
        return {"result": {"protocolVersion": era, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": [TOOL]}}
    if method == "tools/call":
        text = message["params"]["arguments"].get("text", "")
        return {"result": {"content": [{"type": "text", "text": text}]}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": "Method not found"}}
