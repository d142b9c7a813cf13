"""MCP servers over HTTP that misbehave in one chosen way. Standard library only, and nothing of the SDK.

The path chooses the way. ``/sse`` speaks the older transport with server-sent events, everything else the newer one.
"""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

TOOL = {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}


class FaultHTTPServer(ThreadingHTTPServer):
    """Runs in a thread of its own while the context is open.

    Attributes:
        seen: Path, method and headers of each message that came.
        restarted: Set it to make the server forget its sessions.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.session = 1
        self.outbox: queue.Queue[bytes | None] = queue.Queue()
        self.failures = 0
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
        if self.path != "/sse":
            self._reply(405, b"")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while (data := self.server.outbox.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
        self.close_connection = True

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
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(method, message)}).encode()
        if self.path == "/messages":
            self._reply(202, b"")
            self.server.outbox.put(body)
        elif self.path == "/stream":
            self._reply(200, b"event: message\ndata: " + body + b"\n\n", "text/event-stream")
        else:
            self._reply(200, body, session=method == "initialize")

    def _misbehave(self, method: str) -> bool:
        """Do what the path says instead of answering."""
        called = method == "tools/call"
        if self.path == "/denied" or (self.path == "/expires" and called):
            self._reply(401, b"no")
        elif self.path == "/busy" and called and self.server.failures < 1:
            self.server.failures += 1
            self._reply(503, b"later")
        elif self.path == "/drop" and called:
            self.close_connection = True
        elif self.path == "/hang" and called:
            self.server.release.wait(20)
            self.close_connection = True
        elif self.path == "/forgets" and method not in ("initialize", "server/discover") and self._forgotten():
            self._reply(404, b"")
        elif self.path == "/page":
            self._reply(200, b"<html>hello</html>", "text/html")
        else:
            return False
        return True

    def _forgotten(self) -> bool:
        return self.headers.get("mcp-session-id") != str(self.server.session)

    def _reply(self, status: int, body: bytes, kind: str = "application/json", *, session: bool = False) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header("mcp-session-id", str(self.server.session))
        self.end_headers()
        self.wfile.write(body)


def _answer(method: str, message: dict[str, Any]) -> dict[str, Any]:
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
