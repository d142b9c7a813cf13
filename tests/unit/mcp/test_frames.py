"""Lines come out of bytes whole, whatever the pieces, and in bounded memory and linear time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handrail.mcp.frames import Frame, FrameReader, Oversized


def read(pieces: list[bytes], cap: int = 8) -> list[Frame]:
    reader = FrameReader(cap)
    return [frame for piece in pieces for frame in reader.feed(piece)] + reader.end()


@given(st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(0, 200)))
def test_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    """However the bytes are cut, the frames are the same."""
    points = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(points)]
    assert read(pieces) == read([data])


def test_blank_lines_and_the_last_line() -> None:
    """Blank lines are no frames, line ends of both kinds are stripped, and a last line needs none."""
    assert read([b"a\r\n\n  \nb\nc"]) == [b"a", b"b", b"c"]


def test_a_long_frame_keeps_only_its_edges() -> None:
    """A frame beyond the cap is reported with its length and its edges, and the next one is intact."""
    reader = FrameReader(1000)
    frames = [frame for _ in range(50) for frame in reader.feed(b"h" * 100)]
    frames += reader.feed(b"tail\nnext\n")
    first, second = frames
    assert isinstance(first, Oversized)
    assert first.size == 5004
    assert first.head.startswith(b"hhh")
    assert first.tail.endswith(b"htail")
    assert len(first.head) <= 512
    assert len(first.tail) <= 512
    assert second == b"next"


def test_the_cap_itself_fits() -> None:
    """A frame of exactly the cap is kept."""
    assert read([b"12345678\n"]) == [b"12345678"]
    assert isinstance(read([b"123456789\n"])[0], Oversized)
