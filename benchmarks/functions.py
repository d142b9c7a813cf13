"""Fresh annotated functions by the hundred, for the schema scenarios: realistic mixes, none like another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Optional

from benchmarks.workload import ToolFunction

_VERBS = ("find", "list", "create", "update", "cancel", "summarise", "export", "check")
_NOUNS = ("order", "invoice", "customer", "ticket", "shipment", "refund", "report", "article")
_WORDS = ("region", "owner", "query", "title", "channel", "reason", "limit", "note", "status", "code")


class Kind(NamedTuple):
    """One kind of parameter: its annotation, its default (or none), and a value that fits."""

    annotation: str
    default: str
    value: Any


_KINDS = (
    Kind("str", "", "blue"),
    Kind("str", "", "a longer piece of text"),
    Kind("int", "", 7),
    Kind("float", "", 0.5),
    Kind("bool", "", True),
    Kind("list[str]", "", ["a", "b"]),
    Kind("Literal['{word}', 'open', 'closed']", "", "open"),
    Kind("Optional[str]", "None", None),
    Kind("Optional[int]", "None", 3),
    Kind("str", "'{word}'", "green"),
    Kind("int", "10", 20),
    Kind("bool", "False", True),
    Kind("float", "1.5", 2.5),
)
_RETURNS = (("str", "'done'"), ("dict[str, str]", "{'state': 'done'}"), ("list[str]", "['done']"))


@dataclass(frozen=True, slots=True)
class Fresh:
    """One generated function with arguments that fit it and the names of its parameters."""

    function: ToolFunction
    args: dict[str, Any]
    parameters: frozenset[str]


def fresh_functions(count: int, batch: int) -> list[Fresh]:
    """Make `count` functions; another `batch` gives other names, so nothing can have been cached."""
    rng = random.Random(batch)
    return [_fresh(rng, f"{batch}_{index}") for index in range(count)]


def _fresh(rng: random.Random, mark: str) -> Fresh:
    name = f"{rng.choice(_VERBS)}_{rng.choice(_NOUNS)}_{mark}"
    kinds = sorted(rng.sample(_KINDS, rng.randint(2, 6)), key=lambda kind: kind.default != "")
    words = rng.sample(_WORDS, len(kinds))
    source = _source(rng, name, dict(zip(words, kinds, strict=True)))
    scope: dict[str, Any] = {"Literal": Literal, "Optional": Optional, "__name__": "benchmarks.generated"}
    exec(compile(source, "<generated>", "exec", dont_inherit=True), scope)
    args = {word: kind.value for word, kind in zip(words, kinds, strict=True)}
    return Fresh(scope[name], args, frozenset(words))


def _source(rng: random.Random, name: str, parameters: dict[str, Kind]) -> str:
    returns, value = rng.choice(_RETURNS)
    signature = ", ".join(_parameter(word, kind) for word, kind in parameters.items())
    described = "\n".join(f"        {word}: The {word} to {name} with." for word in parameters)
    return (
        f"async def {name}({signature}) -> {returns}:\n"
        f'    """Do what {name} says, for one account.\n\n'
        f"    Args:\n{described}\n\n"
        f'    Returns:\n        What became of it.\n    """\n'
        f"    return {value}\n"
    )


def _parameter(word: str, kind: Kind) -> str:
    declared = f"{word}: {kind.annotation.format(word=word)}"
    return f"{declared} = {kind.default.format(word=word)}" if kind.default else declared
