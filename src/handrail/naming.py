"""Names: which are legal, which is nearest to a wrong one, and how colliding ones are told apart."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model provider accepts as a tool's name."""

MAX_NAME = 64
"""The longest tool name, in characters."""

BUILTIN_NAMES = frozenset(
    {"save_to_memory", "architect_draft_workflow", "architect_publish_workflow", "architect_get_workflow"}
)
"""Names that belong to the built-in tools."""

_DIGEST = re.compile(r"_[0-9a-f]{8}\Z")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def is_name(text: object) -> bool:
    """Tell whether ``text`` is a legal name of a tool, an agent or a server."""
    return isinstance(text, str) and NAME_PATTERN.fullmatch(text) is not None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like ``word``, or None when none is like it."""
    names = list(known)
    folded = {_fold(name): name for name in names}
    if (same := folded.get(_fold(word))) is not None:
        return same
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str], *, what: str = "known") -> str:
    """Phrase a hint: the nearest name where one is like ``word``, else all of them."""
    names = sorted(known)
    if (near := nearest(word, names)) is not None:
        return f"did you mean {near!r}?"
    return f"{what}: {', '.join(names)}" if names else f"{what}: none"


def wire_name(*parts: str) -> str:
    """Join parts with ``__`` into a name that every provider accepts, and that no other parts give.

    One part that is legal stays as it is, and so does a join that can be split into the same parts. Any other is
    cleaned, cut, and ended with eight hexadecimal digits of the SHA-256 of the parts, so that cutting never makes two
    names equal.
    """
    joined = "__".join(parts)
    whole = len(parts) == 1 or (joined.split("__") == list(parts) and _DIGEST.search(joined) is None)
    if is_name(joined) and whole:
        return joined
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    clean = _ILLEGAL.sub("_", joined)
    return f"{clean[: MAX_NAME - 9]}_{digest}"


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()
