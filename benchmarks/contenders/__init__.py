"""The contenders, by key. Their modules are imported only in the child process that measures them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import cast

from benchmarks.contract import Contender


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a contender lives and what must be installed for it."""

    key: str
    label: str
    module: str
    imports: tuple[str, ...]
    distributions: tuple[str, ...]
    peer: bool = False

    def versions(self) -> dict[str, str]:
        """Installed versions of its distributions; what is missing is left out."""
        return {name: found for name in self.distributions if (found := _version(name))}

    def installed(self) -> bool:
        """Whether everything that it needs is there."""
        return len(self.versions()) == len(self.distributions)

    def load(self) -> Contender:
        """Import its module and give its `CONTENDER`."""
        return cast(Contender, importlib.import_module(self.module).CONTENDER)


def _version(distribution: str) -> str | None:
    from importlib import metadata  # here, because the children whose start is measured import this module

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


_HERE = "benchmarks.contenders."

ENTRIES: dict[str, Entry] = {
    entry.key: entry
    for entry in (
        Entry("floor", "floor (by hand)", f"{_HERE}floor", ("asyncio", "json", "pydantic"), ("pydantic",)),
        Entry("handrail", "Handrail", f"{_HERE}handrail_agent", ("handrail",), ("handrail",)),
        Entry(
            "agent-framework",
            "agent-framework",
            f"{_HERE}agent_framework_agent",
            ("agent_framework",),
            ("agent-framework-core",),
            peer=True,
        ),
        Entry(
            "langgraph",
            "LangGraph",
            f"{_HERE}langgraph_agent",
            ("langgraph.graph", "langgraph.prebuilt", "langchain_core.tools"),
            ("langgraph", "langgraph-prebuilt", "langchain-core"),
            peer=True,
        ),
        Entry(
            "pydantic-ai",
            "pydantic-ai",
            f"{_HERE}pydantic_ai_agent",
            ("pydantic_ai",),
            ("pydantic-ai-slim",),
            peer=True,
        ),
    )
}
