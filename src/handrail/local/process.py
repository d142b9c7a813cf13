"""The child process that the embedded model lives in: frames to it and from it, each under a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any, cast

from handrail.errors import LocalModelError

MAX_FRAME_BYTES = 1 << 20
STDERR_TAIL_BYTES = 2_000

Json = dict[str, Any]


class WorkerProcess:
    """The child process and the frames to and from it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.prefix: tuple[str, str] | None = None
        self._owner = os.getpid()
        self._expired = False
        self._killed = False
        # A file and not a pipe: nobody has to read it for the process to go on.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the program; it decides what becomes of the model
            )
        except OSError as error:
            self._stderr.close()
            raise LocalModelError(f"the embedded model's process did not start: {error}") from error

    @property
    def alive(self) -> bool:
        """Whether it can take a request. A killed process cannot, though it may take a moment to be gone."""
        # After a fork the process is still the parent's, and its pipes must not be shared.
        return not self._killed and os.getpid() == self._owner and self.process.poll() is None

    def request(self, message: Json | None, timeout: float) -> Json:
        """Send one message, or none, and wait for one answer.

        An answer that says ``error`` leaves the process running; everything else that goes wrong ends it.
        """
        try:
            answer = self._exchange(message, timeout)
        except BaseException:
            # Also a KeyboardInterrupt: with an answer still to come, the frames would be out of step.
            self.end()
            raise
        if "error" in answer:
            raise LocalModelError(f"the embedded model refused: {answer['error']}")
        return answer

    def _exchange(self, message: Json | None, timeout: float) -> Json:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # Ending the process is what ends a blocked read, and a blocked write as well.
        timer = threading.Timer(timeout, self._expire)
        timer.daemon = True
        timer.start()
        try:
            if message is not None:
                self.process.stdin.write(json.dumps(message).encode() + b"\n")
                self.process.stdin.flush()
            line = self.process.stdout.readline(MAX_FRAME_BYTES)
        except OSError:
            line = b""
        finally:
            timer.cancel()
        return _read_frame(line) if line else self._mourn(timeout)

    def _expire(self) -> None:
        self._expired = True
        self.kill()

    def _mourn(self, timeout: float) -> Json:
        if self._expired:
            raise LocalModelError(
                f"the embedded model did not answer within {timeout:g} seconds",
                hint="it is slow while other programs use the processor: try again, or raise the timeout",
            )
        self.kill()
        code = self.process.wait()
        detail = self._last_words()
        raise LocalModelError(
            f"the embedded model's process ended with code {code}" + (f": {detail[-1]}" if detail else ""),
            hint="the next request starts it again",
            stderr="\n".join(detail),
        )

    def _last_words(self) -> list[str]:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - STDERR_TAIL_BYTES))
        return self._stderr.read().decode("utf-8", "replace").strip().splitlines()

    def kill(self) -> None:
        """End the process at once. Safe while another thread reads from it."""
        if os.getpid() == self._owner:
            self._killed = True
            self.process.kill()

    def end(self) -> None:
        """End the process, wait until it is gone, and close what led to it. Does nothing the second time."""
        self.kill()
        if os.getpid() == self._owner:
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            try:
                if stream:
                    stream.close()
            except OSError:  # a request that was never read is lost with its reader
                pass


def _environment() -> dict[str, str]:
    """What the process inherits: no key of a provider, only what Windows needs to start a program."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "SYSTEMDRIVE") if name in os.environ}


def _read_frame(line: bytes) -> Json:
    try:
        answer: object = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise LocalModelError("the embedded model's process answered with something that is no frame")
    return cast("Json", answer)
