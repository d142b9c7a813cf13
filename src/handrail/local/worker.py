"""The process in which the embedded model lives: ``python -I -S worker.py LIBRARY WEIGHTS``.

The C library keeps one conversation in process-global state, spins its own threads and must not be entered
twice at a time, so it gets a process of its own. This file runs in that process only. It imports the standard
library and nothing else: no site-packages, no sockets, no network.

Frames are one JSON object a line. Before the first request the worker says ``{"ready": true}`` or
``{"error": "..."}``. A request is ``{"op": ..., ...}``, and each is answered by one object in order:

    init      system, tools      -> {"ok": true, "prefix_tokens": int}   replaces tools and conversation
    reset                        -> {"ok": true}                         forgets the conversation
    complete  text, max_tokens   -> {"ok": true, "envelope": {...}}      what the engine answered, as it is
    embed     text               -> {"ok": true, "vector": [float]}

What goes wrong in a request is answered with ``{"error": "..."}``, and the process goes on. It ends when
its input closes or its parent is gone, even in the middle of a turn.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

ENVELOPE_BYTES = 262_144
"""Room for one answer of the engine. Measured answers stay below 2 kB."""

PARENT_CHECK_SECONDS = 2.0
"""How often an orphan looks for its parent, for the case that a forked sibling holds the input open."""


class RequestError(Exception):
    """A request that the engine refused. The worker goes on."""


class Needle:
    """The six functions of the C library, with Python types."""

    def __init__(self, library: str, weights: str) -> None:
        self._lib = _declare(ctypes.CDLL(library))
        self._output = ctypes.create_string_buffer(ENVELOPE_BYTES)
        with open(weights, "rb") as file:
            # The engine reads the weights in place: the bytes must live as long as the process.
            self._weights = file.read()
        self._check("load", self._lib.needle_load(self._weights, len(self._weights)))

    def init(self, system: str, tools: str) -> dict[str, Any]:
        """Set the system line and the tools (a JSON array), and read them once."""
        code = self._lib.needle_init(system.encode(), tools.encode(), None)
        return {"prefix_tokens": self._check("init", code)}

    def reset(self) -> dict[str, Any]:
        """Forget the conversation."""
        self._lib.needle_reset()
        return {}

    def complete(self, text: str, max_tokens: int) -> dict[str, Any]:
        """Let the model answer one user text."""
        code = self._lib.needle_complete(text.encode(), max_tokens, self._output, ENVELOPE_BYTES)
        self._check("complete", code)
        return {"envelope": json.loads(self._output.value.decode("utf-8", "replace"))}

    def embed(self, text: str) -> dict[str, Any]:
        """The model's vector for a text."""
        size = self._check("embed", self._lib.needle_embed(text.encode(), None, 0))
        vector = (ctypes.c_float * size)()
        self._check("embed", self._lib.needle_embed(text.encode(), vector, size))
        return {"vector": list(vector)}

    def _check(self, what: str, code: int) -> int:
        if code < 0:
            detail: bytes = self._lib.needle_last_error() or b"no detail"
            raise RequestError(f"needle_{what} failed with code {code}: {detail.decode('utf-8', 'replace')}")
        return code


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    text, number = ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[list[Any], Any]] = {
        "needle_load": ([text, ctypes.c_uint64], number),
        "needle_init": ([text, text, text], number),
        "needle_complete": ([text, number, text, number], number),
        "needle_embed": ([text, ctypes.POINTER(ctypes.c_float), number], number),
        "needle_reset": ([], None),
        "needle_last_error": ([], text),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, result
    return lib


def _private_stdout() -> BinaryIO:
    """Keep the frames for us: whatever the C library prints to file descriptor 1 goes to stderr."""
    frames = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return frames


def _send(frames: BinaryIO, message: dict[str, Any]) -> None:
    frames.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _read_requests(requests: queue.Queue[bytes]) -> None:
    """Hand requests on, and end the process at the end of input: the main thread may be deep in a turn."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(0)


def _answer(operations: dict[str, Callable[..., dict[str, Any]]], line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
        return {"ok": True, **operations[request.pop("op")](**request)}
    except (RequestError, ValueError, TypeError, KeyError, AttributeError, ctypes.ArgumentError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(library: str, weights: str) -> int:
    """Load the engine, then answer requests until the input closes."""
    frames = _private_stdout()
    requests: queue.Queue[bytes] = queue.Queue()
    for target, argument in ((_read_requests, requests), (_watch_parent, os.getppid())):
        threading.Thread(target=target, args=(argument,), daemon=True).start()
    try:
        needle = Needle(library, weights)
    except (OSError, AttributeError, RequestError) as error:
        _send(frames, {"error": f"{type(error).__name__}: {error}"})
        return 1
    _send(frames, {"ready": True})
    operations: dict[str, Callable[..., dict[str, Any]]] = {
        "init": needle.init,
        "reset": needle.reset,
        "complete": needle.complete,
        "embed": needle.embed,
    }
    while True:
        _send(frames, _answer(operations, requests.get()))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
