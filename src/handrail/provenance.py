"""Where each value came from: a label on every result, and an append-only ledger that keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from handrail.values import value

Source = Literal["builtin", "custom_tool", "mcp_tool", "tool_node", "agent_response", "derived", "retrieval"]
"""What kind of thing a value came from."""

Integrity = Literal["user", "system", "internal", "untrusted"]
"""How far the text of a value may be trusted, from the user's own words down to anybody's."""

SOURCES: tuple[Source, ...] = get_args(Source)
INTEGRITIES: tuple[Integrity, ...] = get_args(Integrity)

_RANK: Mapping[Integrity, int] = {"user": 3, "system": 2, "internal": 1, "untrusted": 0}


@value
class Label:
    """Where one value came from.

    Attributes:
        source: The kind of origin.
        integrity: How far its text may be trusted. ``"untrusted"`` is what is called tainted.
        tool: The tool that gave it, by its own name.
        server: The MCP server that the tool belongs to.
        call_id: The call that gave it.
        agent: The agent that asked for it, or wrote it.
        node: The graph's node in which it arose.
        derived_from: Keys of the ledger that it was made from.
        bytes: The size of its JSON text in bytes of UTF-8.
        at: When, in seconds since the epoch.
    """

    source: Source
    integrity: Integrity = "system"
    tool: str | None = None
    server: str | None = None
    call_id: str | None = None
    agent: str | None = None
    node: str | None = None
    derived_from: tuple[str, ...] = ()
    bytes: int | None = None
    at: float = 0.0

    @property
    def tainted(self) -> bool:
        """Whether it holds, or may hold, text that somebody outside wrote."""
        return self.integrity == "untrusted"


@value
class Entry:
    """One line of the ledger: a key, and the label of what stands under it."""

    key: str
    label: Label


def call_key(call_id: str) -> str:
    """The ledger's key for the result of a call."""
    return f"call:{call_id}"


def join(labels: Iterable[Label]) -> Integrity:
    """The integrity of something made from all of these: that of the least trusted one."""
    lowest: Integrity = "user"
    known = False
    for label in labels:
        known = True
        if _RANK[label.integrity] < _RANK[lowest]:
            lowest = label.integrity
    return lowest if known else "system"


@dataclass(slots=True)
class Ledger:
    """The labels of one run, in the order in which they arose. Nothing is ever removed or rewritten.

    A key may be written more than once; its label is then the newest one, and it stays tainted once it was tainted by
    something that the newest value was made from.
    """

    _entries: list[tuple[str, Label]] = field(default_factory=list[tuple[str, Label]])
    _newest: dict[str, Label] = field(default_factory=dict[str, Label])

    def record(self, key: str, label: Label) -> None:
        """Add a label under a key."""
        self._entries.append((key, label))
        self._newest[key] = label

    def derive(self, key: str, sources: Iterable[str], label: Label) -> Label:
        """Add a label for something made from other keys. It is no more trusted than the least of them.

        Returns:
            The label as recorded.
        """
        from dataclasses import replace

        made_from = tuple(dict.fromkeys(sources))
        known = [self._newest[source] for source in made_from if source in self._newest]
        joined = replace(label, derived_from=made_from, integrity=join([label, *known]))
        self.record(key, joined)
        return joined

    def get(self, key: str) -> Label | None:
        """The newest label under a key; None where there is none."""
        return self._newest.get(key)

    def tainted(self, key: str) -> bool:
        """Whether the newest value under a key is tainted. An unknown key is not."""
        label = self._newest.get(key)
        return label is not None and label.tainted

    def explain(self, key: str) -> list[Entry]:
        """The chain from a key to the calls that it came from: first the key itself, then what it was made from."""
        chain: list[Entry] = []
        seen: set[str] = set()
        waiting = [key]
        while waiting:
            current = waiting.pop(0)
            if current in seen or (label := self._newest.get(current)) is None:
                continue
            seen.add(current)
            chain.append(Entry(current, label))
            waiting.extend(label.derived_from)
        return chain

    def snapshot(self) -> Ledger:
        """A copy that later entries do not reach."""
        return Ledger(list(self._entries), dict(self._newest))

    def to_json(self) -> list[dict[str, Any]]:
        """The entries as plain data, oldest first."""
        from dataclasses import asdict

        return [
            {
                "key": entry.key,
                **{name: value for name, value in asdict(entry.label).items() if value not in (None, ())},
                "tainted": entry.label.tainted,
            }
            for entry in self
        ]

    def __iter__(self) -> Iterator[Entry]:
        return (Entry(key, label) for key, label in self._entries)

    def __len__(self) -> int:
        return len(self._entries)
