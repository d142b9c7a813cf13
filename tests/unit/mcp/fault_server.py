"""A stdio MCP server that misbehaves in one chosen way. Standard library only, and nothing of the SDK.

Run it as ``python fault_server.py MODE [NOTEBOOK]``. What it does is appended to the notebook, one JSON object a
line: its pid, its environment, each message that it reads, and the pid of a child that it starts.

It speaks the older protocol (2025-11-25), except in the modes whose name ends in ``modern``.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

MODE = sys.argv[1] if len(sys.argv) > 1 else "ok"
NOTEBOOK = sys.argv[2] if len(sys.argv) > 2 else None
MODERN_MODE = MODE.endswith("modern")
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
INFO = {"name": "fault", "version": "1"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}


def note(**facts: Any) -> None:
    if NOTEBOOK:
        with open(NOTEBOOK, "a", encoding="utf-8") as book:
            book.write(json.dumps(facts) + "\n")


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    if MODE == "text_ids":
        send({"id": str(request["id"]), "result": result})
    else:
        send({"id": request["id"], "result": result})


def refuse(request: dict[str, Any], code: int, text: str) -> None:
    send({"id": request["id"], "error": {"code": code, "message": text}})


def hang() -> NoReturn:
    while True:
        time.sleep(60)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": SCHEMA, **more}


greeted = False
added: list[str] = []
listening: list[Any] = []


def tell_that_tools_changed() -> None:
    for stream in listening or [None]:
        params = {"_meta": {SUBSCRIPTION: stream}} if stream is not None else {}
        send({"method": "notifications/tools/list_changed", "params": params})


def listen(request: dict[str, Any]) -> None:
    if MODE == "no_listen_modern":
        refuse(request, -32601, "Method not found")
        return
    stream = request["id"]
    meta = {SUBSCRIPTION: stream}
    acknowledged = {"_meta": meta, "notifications": request["params"]["notifications"]}
    send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    if MODE == "ends_listen_modern" and not listening:
        listening.append(stream)
        answer(request, {"resultType": "complete", "_meta": meta})
        return
    listening[:] = [stream]


def tools(cursor: str | None) -> dict[str, Any]:
    if MODE == "endless_pages":
        number = int(cursor or 0)
        return {"tools": [tool(f"page_{number}")], "nextCursor": str(number + 1)}
    if MODE == "endless_tools":
        number = int(cursor or 0)
        return {"tools": [tool(f"t_{number}_{i}") for i in range(600)], "nextCursor": str(number + 1)}
    if MODE == "repeat_cursor":
        return {"tools": [tool("echo" if cursor is None else "second")], "nextCursor": "again"}
    if MODE == "pages" and cursor is None:
        return {"tools": [tool("echo")], "nextCursor": "2"}
    if MODE == "pages":
        return {"tools": [tool("second")]}
    if MODE == "bad_schema":
        return {
            "tools": [
                tool("echo"),
                {"name": "no_schema"},
                {"name": "odd_schema", "description": "Odd.", "inputSchema": {"properties": {}}},
                tool("wrong_schema", inputSchema={"type": 7}),
                tool("echo", description="The same name again."),
                {"description": "no name"},
                "no tool at all",
                tool("task", execution={"taskSupport": "required"}),
            ]
        }
    if MODE == "no_list":
        return {"tools": "none"}
    return {"tools": [tool(name) for name in ("echo", "count", "slow", *added)]}


def call(request: dict[str, Any]) -> None:
    name = request["params"]["name"]
    arguments: dict[str, Any] = request["params"].get("arguments") or {}
    text: dict[str, Any] = {"content": [{"type": "text", "text": str(arguments.get("text", ""))}]}
    if name == "slow" or MODE == "hang_call":
        return  # never answered
    if MODE == "half_modern" and not greeted:
        refuse(request, -32600, "initialize is required before this request")
        return
    if name == "count" and MODE.startswith(("changes", "ends_listen")):
        # Adds a tool, and says so as often as the text says.
        added.append(f"added_{len(added)}")
        for _ in range(int(arguments["text"])):
            tell_that_tools_changed()
    if name == "count" and MODE == "answers_late":
        threading.Timer(0.3, answer, (request, text)).start()
        tell_that_tools_changed()
        return
    if MODE == "die_call":
        sys.stderr.write("the disk is on fire, and the token is s3cr3t-value\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "garbage":
        raw(b"this is no message\n{also not}\n[1, 2]\n\n")
    if MODE == "garbage_bin":
        raw(b"\xff\xfe\x00\x80 noise\n")
        raw(b'{"jsonrpc":"2.0","id":%d,' % request["id"])
        raw(b'"result":{"content":[{"type":"text","text":"caf\xe9"}]}}\n')
        return
    if MODE == "noise_storm":
        raw(b"x\n" * 60_000)
    if MODE == "notice_storm":
        line = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
        raw(line * 10_000)
    if MODE == "flood":
        line = b"x" * 1000 + b"\n"
        while True:
            raw(line)
    if MODE == "huge":
        answer(request, {"content": [{"type": "text", "text": "x" * (9 * 1024 * 1024)}]})
        return
    if MODE == "huge_tail":
        body = json.dumps({"content": [{"type": "text", "text": "x" * (9 * 1024 * 1024), "id": 1}]})
        raw(f'{{"result":{body},"jsonrpc":"2.0","id":{request["id"]}}}\n'.encode())
        return
    if MODE == "big":
        answer(request, {"content": [{"type": "text", "text": "x" * (2 * 1024 * 1024)}]})
        return
    if MODE == "unknown_block":
        answer(request, {"content": [{"type": "hologram", "shape": "cube"}, {"type": "text", "text": "ok"}]})
        return
    if MODE == "no_content":
        answer(request, {"isError": None, "structuredContent": {"n": 1}})
        return
    if MODE == "bad_result":
        send({"id": request["id"], "result": 7})
        return
    if MODE == "wrong_id":
        send({"id": 424242, "result": text})
        return
    if MODE == "rpc_error":
        refuse(request, -32602, "Unknown tool: echo")
        return
    if MODE == "is_error":
        answer(request, {**text, "isError": True})
        return
    if MODE == "wants_input":
        answer(request, {"resultType": "input_required", "inputRequests": {}, "requestState": "x"})
        return
    if MODE == "close_stdout":
        os.close(1)
        hang()
    answer(request, text)


def serve(request: dict[str, Any]) -> None:
    global greeted
    method = request.get("method")
    if "id" not in request:
        return
    if MODE == "hang_start":
        return
    if MODE == "hang_discover" and method == "server/discover":
        return
    if MODE == "die_unknown" and method == "server/discover":
        os._exit(1)
    if MODE == "refuse_all":
        refuse(request, -32000, "no license")
    elif method == "server/discover" and MODERN_MODE:
        answer(
            request,
            {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {"listChanged": True}},
                "ttlMs": 0,
                "cacheScope": "private",
            },
        )
    elif method == "initialize" and MODE == "bad_version":
        answer(request, {"protocolVersion": "1900-01-01", "capabilities": {}, "serverInfo": INFO})
    elif method == "subscriptions/listen" and MODERN_MODE:
        listen(request)
    elif method == "initialize":
        greeted = True
        answer(request, {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": INFO})
    elif method == "ping" and (greeted or not MODERN_MODE):
        answer(request, {})
    elif method == "tools/list" and MODE == "hang_list":
        return
    elif method == "tools/list" and MODE == "no_tools":
        refuse(request, -32601, "Method not found")
    elif method == "tools/list":
        params: dict[str, Any] = request.get("params") or {}
        listed = tools(params.get("cursor"))
        extra = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if MODERN_MODE else {}
        answer(request, {**listed, **extra})
        if MODE == "no_read":
            note(stopped_reading=True)
            hang()
    elif method == "tools/call":
        call(request)
    else:
        refuse(request, -32601, "Method not found")


def main() -> None:
    note(pid=os.getpid(), env=dict(os.environ), cwd=os.getcwd())
    if MODE == "die_start":
        sys.stderr.write("cannot find the flux capacitor\n")
        sys.exit(7)
    if MODE == "die_once" and not os.path.exists(f"{NOTEBOOK}.once"):
        with open(f"{NOTEBOOK}.once", "w", encoding="utf-8"):
            pass
        sys.exit(1)
    if MODE == "banner":
        print("*** Welcome to the server! ***", flush=True)
    if MODE == "slow_start":
        time.sleep(0.5)
    if MODE == "flood_start":
        line = b"x" * 1000 + b"\n"
        while True:
            raw(line)
    if MODE in ("ignore_term", "ignore_eof_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE in ("fork", "fork_die"):
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(120)"])
        note(child=child.pid)
    if MODE == "fork_quiet":
        # This one keeps none of our pipes, so that only its process group gives it away.
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import time; time.sleep(120)"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        note(child=child.pid)
    if MODE == "chatty_stderr":
        text = "".join(f"line {number}\n" for number in range(20_000))
        threading.Thread(target=sys.stderr.write, args=(text,)).start()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        note(read=request)
        serve(request)
    if MODE in ("ignore_eof", "ignore_eof_term"):
        hang()


main()
