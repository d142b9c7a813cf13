"""Lines out of a stream of bytes, in time proportional to its length and in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["FRAME_CAP", "Frame", "FrameReader", "Oversized"]

FRAME_CAP = 8 * 1024 * 1024
"""The longest frame that is kept, in bytes."""

_EDGE = 512


@dataclass(frozen=True, slots=True)
class Oversized:
    """A frame that was longer than the cap. Only its edges were kept, to tell which request it answered.

    Attributes:
        size: Its length in bytes.
        head: Its first bytes.
        tail: Its last bytes.
    """

    size: int
    head: bytes
    tail: bytes


Frame: TypeAlias = bytes | Oversized
"""One line, without its end."""


class FrameReader:
    """Splits bytes at line ends. The same bytes give the same frames, however they are cut into pieces.

    Args:
        cap: The longest frame to keep, in bytes.
    """

    def __init__(self, cap: int = FRAME_CAP) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes, and return the frames that end in them. Blank lines are no frames."""
        frames: list[Frame] = []
        start = 0
        # Only the new bytes are searched: linear time for a frame that arrives in many pieces.
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end])
            self._finish(frames)
            start = end + 1
        if start < len(data):
            self._take(data[start:])
        return frames

    def end(self) -> list[Frame]:
        """Return what was left without a line end."""
        frames: list[Frame] = []
        self._finish(frames)
        return frames

    def _take(self, piece: bytes) -> None:
        fits = self._size <= self._cap
        self._size += len(piece)
        if self._size <= self._cap:
            self._parts.append(piece)
            return
        if fits:
            kept = b"".join(self._parts)
            self._head, self._tail = kept[:_EDGE], kept[-_EDGE:]
            self._parts.clear()
        self._head += piece[: _EDGE - len(self._head)]
        self._tail = (self._tail + piece[-_EDGE:])[-_EDGE:]

    def _finish(self, frames: list[Frame]) -> None:
        if self._size > self._cap:
            frames.append(Oversized(self._size, self._head, self._tail))
        elif line := b"".join(self._parts).strip():
            frames.append(line)
        self._parts.clear()
        self._size = 0
        self._head = self._tail = b""
