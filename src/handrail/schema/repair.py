"""Arguments that do not match: repaired where only one reading is possible, else explained without their values."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from handrail.naming import did_you_mean
from handrail.schema.strict import FORM_ERROR
from handrail.schema.wire import WireError, join, read_json

_CONTAINERS = frozenset({
    "list_type", "tuple_type", "set_type", "frozen_set_type", "dict_type", "mapping_type", "iterable_type",
    "model_type", "model_attributes_type", "dataclass_type", "named_tuple_type", "arguments_type",
})  # fmt: skip
_INTEGERS = frozenset({"int_type", "int_parsing", "int_from_float"})
_FLOATS = frozenset({"float_type", "float_parsing"})
_BOOLEANS = frozenset({"bool_type", "bool_parsing"})
_READABLE = _CONTAINERS | _INTEGERS | _FLOATS | _BOOLEANS | {"none_required"}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_SPEAKING = frozenset({"value_error", "assertion_error", "uuid_parsing", "zoneinfo_str"})
_MISSING = frozenset({"missing", "missing_argument"})
_STRAY = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_KNOWN: frozenset[str] = frozenset(get_args(ErrorType)) | {FORM_ERROR}


class _Place(NamedTuple):
    """Where a problem is.

    Attributes:
        holder: What holds the value.
        keys: The way to the value.
        union: The way to the outermost union around it.
        member: Which member of that union refused it; empty outside of unions.
    """

    holder: Any
    keys: tuple[int | str, ...]
    union: tuple[int | str, ...] = ()
    member: tuple[object, ...] = ()

    @property
    def path(self) -> str:
        text = ""
        for key in self.keys:
            text = join(text, key)
        return text


def repair(sent: Any, error: ValidationError, required: Sequence[str], repairs: list[str]) -> Any:
    """Repair arguments where the types leave only one reading.

    Args:
        sent: The arguments. They are not changed.
        error: Why they were refused.
        required: The names of required arguments.
        repairs: Receives what was done.

    Returns:
        A repaired copy, or None where there was nothing to repair.
    """
    kinds: dict[tuple[int | str, ...], set[str]] = {}
    for problem in error.errors(include_url=False, include_context=False):
        if (place := _place(sent, problem)).keys:
            kinds.setdefault(place.keys, set()).add(problem["type"])
    fixed = copy.deepcopy(sent)
    before = len(repairs)
    for keys, refused in kinds.items():
        _repair(fixed, keys, refused, required, repairs)
    return fixed if len(repairs) > before else None


def explain(error: ValidationError, sent: Any, known: Sequence[str] | None, *, root: str = "the arguments") -> str:
    """Say what is wrong: each field, and what it takes, without the values that were sent.

    Args:
        error: Why they were refused.
        sent: What was refused, as plain JSON values.
        known: The names of the arguments; None for a result.
        root: How to call the whole.
    """
    found = [(_place(sent, problem), problem) for problem in error.errors(include_url=False)]
    texts: dict[str, list[str]] = {}
    for place, problem in _likeliest(found):
        said = texts.setdefault(place.path or root, [])
        if (text := _say(place, problem, known)) not in said:
            said.append(text)
    return "; ".join(f"{path}: {_either(said)}" for path, said in texts.items())


def _place(sent: Any, problem: ErrorDetails) -> _Place:
    """Follow an error's location through what was sent, past the names of union members that it mentions."""
    location = problem["loc"]
    holder, node = None, sent
    keys: list[int | str] = []
    union: tuple[int | str, ...] = ()
    members: list[object] = []
    for i, key in enumerate(location):
        if _has(node, key):
            holder, node = node, node[key]
            keys.append(key)
        elif i == len(location) - 1 and problem["type"] in _MISSING:
            keys.append(key)
        elif key != "[key]" and (not members or len(keys) == len(union)):
            union = tuple(keys)
            members.append(key)
    return _Place(holder, tuple(keys), union, tuple(members))


def _has(node: Any, key: int | str) -> bool:
    if isinstance(node, dict):
        return key in node
    return isinstance(node, list) and isinstance(key, int) and key < len(cast("list[Any]", node))


def _likeliest(found: list[tuple[_Place, ErrorDetails]]) -> list[tuple[_Place, ErrorDetails]]:
    """Of each union keep the members that came nearest: those that took the value itself, with the fewest problems."""
    costs: dict[tuple[int | str, ...], dict[tuple[object, ...], tuple[bool, int]]] = {}
    for place, _ in found:
        if place.member:
            members = costs.setdefault(place.union, {})
            outright, count = members.get(place.member, (False, 0))
            members[place.member] = (outright or place.keys == place.union, count + 1)
    return [
        (place, problem)
        for place, problem in found
        if not place.member or costs[place.union][place.member] == min(costs[place.union].values())
    ]


def _say(place: _Place, problem: ErrorDetails, known: Sequence[str] | None) -> str:
    kind = problem["type"]
    if kind in _MISSING:
        return "required, and missing"
    if kind in _STRAY and known is None:
        return "not in the schema"
    if kind in _STRAY and known is not None:
        if len(place.keys) != 1:
            return "unknown argument"
        hint = did_you_mean(str(place.keys[-1]), known, what="accepted")
        accepted = f" (accepted: {', '.join(known)})" if hint.startswith("did you mean") else ""
        return f"unknown argument; {hint}{accepted}"
    if kind == "union_tag_invalid":
        context = problem.get("ctx", {})
        return f"{context.get('discriminator')} should be one of {context.get('expected_tags')}"
    text = problem["msg"]
    if kind in _SPEAKING or kind not in _KNOWN:
        text = _without_values(text, problem["input"])
    return f"as a key: {text}" if problem["loc"][-1:] == ("[key]",) else text


def _either(texts: list[str]) -> str:
    """Join what the members of a union say of one value."""
    prefix = "Input should be "
    if len(texts) > 1 and all(text.startswith(prefix) for text in texts):
        return prefix + " or ".join(text.removeprefix(prefix) for text in texts)
    return ", or ".join(texts)


def _without_values(text: str, value: Any) -> str:
    """Take what was sent out of the words of a validator, which are somebody else's."""
    if isinstance(value, dict):
        for item in cast("dict[object, Any]", value).values():
            text = _without_values(text, item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in cast("Sequence[Any]", value):
            text = _without_values(text, item)
    elif isinstance(value, str) and value:
        text = text.replace(repr(value), "the value")
        text = text.replace(value, "...") if len(value) > 3 else text
    elif isinstance(value, int | float) and len(str(value)) > 3:
        text = text.replace(str(value), "...")
    return text


def _repair(
    fixed: Any, keys: tuple[int | str, ...], refused: set[str], required: Sequence[str], repairs: list[str]
) -> None:
    holder = fixed
    for key in keys[:-1]:
        if not _has(holder, key):
            return
        holder = holder[key]
    if not _has(holder, keys[-1]):
        return
    sent = holder[keys[-1]]
    path = _Place(holder, keys).path
    if sent is None and len(keys) == 1 and keys[0] not in required:
        del holder[keys[0]]
        repairs.append(f"{path}: null for an optional argument: left out")
        return
    readings: dict[tuple[str, str], Any] = {
        (name_of(one), repr(one)): one for kind in refused if (one := _reading(kind, sent)) is not _NONE
    }
    if len(readings) != 1 or (isinstance(sent, str) and not refused <= _READABLE):
        return
    (holder[keys[-1]],) = readings.values()
    repairs.append(f"{path}: {name_of(sent)} read as {name_of(holder[keys[-1]])}")


_NONE: Any = object()


def _reading(kind: str, sent: Any) -> Any:
    if isinstance(sent, float) and kind in _INTEGERS:
        return int(sent) if sent.is_integer() and abs(sent) < 2**53 else _NONE
    if not isinstance(sent, str):
        return _NONE
    if kind in _CONTAINERS:
        return _container(sent)
    if kind in _BOOLEANS and sent in ("true", "false"):
        return sent == "true"
    if _NUMBER.fullmatch(sent) is None:
        return _NONE
    whole = "." not in sent
    if kind in _INTEGERS:
        return int(sent) if whole and len(sent) < 4000 else _NONE
    if kind in _FLOATS:
        number = float(sent)
        return number if math.isfinite(number) and (not whole or int(number) == int(sent)) else _NONE
    return _NONE


def reading(kind: str, sent: Any) -> Any:
    """What text means where JSON Schema's ``type`` asks for something else; the value itself where that is not clear.

    Args:
        kind: One of JSON Schema's types.
        sent: The value.
    """
    refused = {"array": "list_type", "object": "dict_type", "integer": "int_type", "number": "float_type",
               "boolean": "bool_type"}.get(kind)  # fmt: skip
    if refused is None or not isinstance(sent, str) or (found := _reading(refused, sent)) is _NONE:
        return sent
    if kind in ("array", "object") and isinstance(found, list) != (kind == "array"):
        return sent
    return found


def _container(text: str) -> Any:
    try:
        value: Any = read_json(text)
    except WireError:
        return _NONE
    return cast("Any", value) if isinstance(value, dict | list) else _NONE


def name_of(value: object) -> str:
    """How repairs call a value."""
    kinds = {"str": "text", "bool": "a boolean", "int": "an integer", "float": "a number", "list": "a list"}
    return kinds.get(type(value).__name__, "an object")
