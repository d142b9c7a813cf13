"""Strict JSON in both directions: what a model sent, and what it will read."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
import math
import os
import re
from collections import UserString, deque
from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from decimal import Decimal
from enum import Enum
from types import AsyncGeneratorType, GeneratorType
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

MAX_ARGUMENT_BYTES = 1 << 20
"""The largest argument text that is read, in bytes of UTF-8."""

MAX_DEPTH = 200
"""How deep JSON may nest. Deeper text is refused."""

_OVERFLOW = re.compile(r"\d[eE]\+?\d{3}|\d{309}")
"""A number that may be too large for a float."""

_MAX_DIGITS = 4_300
"""Digits of the longest integer that Python and JSON readers take."""

_TOO_MANY_DIGITS = re.compile(r"\d{4301}")

_KEYS = (str, int, float, Enum, datetime.date, datetime.time, datetime.timedelta, UUID, Decimal)
"""What may be a key of a mapping."""

_LONG_NUMBER = re.compile(r"\d{16}|\d\.\d{15}")
"""A number that may have more digits than a float keeps."""


class WireError(ValueError):
    """JSON that cannot be read, or a value that has no JSON form.

    Attributes:
        path: Where, as ``a.b[0]``; empty for the whole.
        reason: Why, without the value.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


def read_object(raw: object) -> tuple[dict[str, Any], str, str | None]:
    """Read the arguments of a call: JSON text as a provider sends it, or a mapping.

    Args:
        raw: JSON text, a mapping, or None. Nothing, blank text and ``null`` mean no arguments.

    Returns:
        The arguments as plain JSON values, the same as JSON text, and what had to be repaired.

    Raises:
        WireError: If it is not one JSON object, is too deep or too large, repeats a key, or holds a number or a
            character that JSON cannot carry.
    """
    if type(raw) is str and raw.startswith("{"):  # what nearly every call sends
        return read_json(raw), raw, None
    if isinstance(raw, Mapping):
        return _from_mapping(cast("Mapping[Any, Any]", raw))
    if raw is None:
        return {}, "{}", "no arguments: read as {}"
    if isinstance(raw, bytes | bytearray):
        try:
            raw = raw.decode()
        except UnicodeDecodeError:
            raise WireError("the arguments are not UTF-8 text") from None
    if not isinstance(raw, str):
        raise WireError(f"the arguments must be a JSON object, not {_json_type(raw)}")
    if not raw.strip() or raw.strip() == "null":
        return {}, "{}", "no arguments: read as {}"
    value = read_json(raw)
    if isinstance(value, str):
        return _from_quoted(value)
    if not isinstance(value, dict):
        raise WireError(f"the arguments must be a JSON object, not {_json_type(value)}")
    return cast("dict[str, Any]", value), raw, None


def read_json(text: str) -> Any:
    """Read strict JSON.

    Raises:
        WireError: If the text is not strict JSON, too large, too deep, or repeats a key.
    """
    if len(text) > MAX_ARGUMENT_BYTES or (len(text) * 4 > MAX_ARGUMENT_BYTES and _utf8_size(text) > MAX_ARGUMENT_BYTES):
        raise WireError(f"the text is larger than {MAX_ARGUMENT_BYTES} bytes")
    try:
        value: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise WireError(f"not valid JSON: {error}") from None
    if _OVERFLOW.search(text) and (path := _non_finite(value, "")) is not None:
        raise WireError("the number is too large", path)
    colons = text.count(":")
    keys = len(cast("dict[str, Any]", value)) if isinstance(value, dict) else 0
    if colons != keys:  # as many colons as keys: none of them can be repeated
        _refuse_repeated_keys(text, colons, value)
    return cast("Any", value)


def dump(value: object) -> str:
    """Write a value as strict JSON, unescaped, through pydantic's serialiser.

    Pydantic models, dataclasses, enums, dates, UUIDs, decimals, paths, sets and numpy scalars have a JSON form.

    Raises:
        WireError: If some part of the value has none. It names the path.
    """
    if isinstance(value, _STREAMS):
        raise WireError(f"{_kind(cast('object', value))} has no JSON form")
    try:
        data = to_json(value, by_alias=True, inf_nan_mode="constants", fallback=fallback)
        text = data.decode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise explain(value, error) from None
    check_finite(value, text)
    check_keys(value, text)
    return text


def check_finite(value: object, text: str) -> None:
    """Refuse what a serialiser wrote for NaN and infinity: a bare word, or a ``null`` in their place.

    Raises:
        WireError: If the value holds a number that JSON cannot carry. It names the path.
    """
    bare_word = "NaN" in text or "Infinity" in text
    if not bare_word and "null" not in text:
        return
    if (path := _non_finite(value, "")) is not None:
        raise WireError("the number is not finite (NaN or infinity)", path)
    if bare_word:
        try:
            from_json(text, allow_inf_nan=False)
        except ValueError:
            raise WireError("some number in it is not finite (NaN or infinity)") from None


def check_keys(value: object, text: str) -> None:
    """Refuse mappings whose keys JSON cannot carry, and integers that cannot be read back.

    Text, numbers, enumerations, dates and UUIDs can be keys, as long as no two of one mapping have the same text.

    Raises:
        WireError: If some part of the value is of that kind. It names the path.
    """
    if len(text) > _MAX_DIGITS and _TOO_MANY_DIGITS.search(text):
        raise WireError(f"an integer in it has more than {_MAX_DIGITS} digits")
    if "{" not in text or isinstance(value, str) or _is_flat(value):
        return
    if (problem := _bad_key(value, "", 0)) is not None:
        raise problem


def _is_flat(value: object) -> bool:
    """Whether a value is a mapping of texts to scalars, as most results are: there is nothing to look for in it."""
    if type(value) is not dict:
        return False
    for key, item in cast("dict[object, object]", value).items():
        if type(key) is not str or type(item) not in _FLAT:
            return False
    return True


_FLAT = frozenset({str, int, float, bool, type(None)})


def explain(value: object, error: Exception) -> WireError:
    """Find the first part of ``value`` that has no JSON form, and say where it is."""
    return _first_unserialisable(value, "", set()) or WireError(f"it has no JSON form ({type(error).__name__})")


def exact_numbers(text: str, validated: object) -> str | None:
    """Look for a number that lost digits on its way into the validated value.

    Returns:
        The path of the first such number, or None.
    """
    if _LONG_NUMBER.search(text) is None:
        return None
    return _lossy(json.loads(text, parse_float=Decimal), validated, "")


def join(path: str, key: object) -> str:
    """Extend a path by a key or an index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)


def _from_mapping(raw: Mapping[Any, Any]) -> tuple[dict[str, Any], str, str | None]:
    for key in raw:
        if not isinstance(key, str):
            raise WireError(f"argument names must be strings, not {type(key).__name__}")
    text = dump(dict(raw))
    return read_json(text), text, None


def _from_quoted(text: str) -> tuple[dict[str, Any], str, str | None]:
    """Arguments that arrive as a JSON string which itself holds an object were encoded twice."""
    try:
        value = read_json(text)
    except WireError:
        value = None
    if not isinstance(value, dict):
        raise WireError("the arguments must be a JSON object, not a string")
    return cast("dict[str, Any]", value), text, "arguments sent as a string: decoded"


def _json_type(value: object) -> str:
    kind = type(value).__name__
    names = {"list": "a list", "str": "a string", "bool": "a boolean", "int": "a number", "float": "a number"}
    return "null" if value is None else names.get(kind, kind)


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return len(mapping) + sum(_count_keys(item) for item in mapping.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return sum(_count_keys(item) for item in items if isinstance(item, dict | list))
    return 0


def _refuse_repeated_keys(text: str, colons: int, value: Any) -> None:
    if colons == _count_keys(value):
        return

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise WireError(f"the key {key!r} is given twice")
            seen[key] = value
        return seen

    json.loads(text, object_pairs_hook=check)


def _non_finite(value: Any, path: str, depth: int = 0) -> str | None:
    if isinstance(value, float):
        return path if not math.isfinite(value) else None
    if depth > MAX_DEPTH:
        return None
    for key, item in _children(value):
        if (found := _non_finite(item, join(path, key), depth + 1)) is not None:
            return found
    return None


def _children(value: Any) -> list[tuple[object, Any]]:
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, Any]", value).items())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(enumerate(cast("list[Any]", value)))
    if isinstance(value, BaseModel):
        return [*value, *(value.model_extra or {}).items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, str | bytes | bytearray):
        return []
    try:
        plain = fallback(value)
    except Exception:
        return []
    return _children(plain) if type(plain) in (dict, list) else []


def _repeated_key(mapping: Mapping[Any, Any]) -> str | None:
    seen: set[str] = set()
    for key in mapping:
        if (text := _key_text(key)) in seen:
            return text
        seen.add(text)
    return None


def _bad_key(value: Any, path: str, depth: int) -> WireError | None:
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        for key in mapping:
            if type(key) is not str and not isinstance(key, _KEYS):
                return WireError(f"{_kind(key)} cannot be a key in JSON", path)
        if any(type(key) is not str for key in mapping) and (text := _repeated_key(mapping)) is not None:
            return WireError("two keys have the same text", join(path, text))
        children: Iterable[tuple[Any, Any]] = mapping.items()
    elif isinstance(value, list | tuple):
        children = enumerate(cast("list[Any]", value))
    else:
        return None
    for key, item in children:
        if (found := _bad_key(item, join(path, key), depth + 1)) is not None:
            return found
    return None


def _key_text(key: object) -> str:
    return next(iter(from_json(to_json({key: None}))))


def _first_unserialisable(value: Any, path: str, above: set[int]) -> WireError | None:
    if isinstance(value, _STREAMS):
        return WireError(f"{_kind(cast('object', value))} has no JSON form", path)
    children = _children(value)
    if not children:
        return _unserialisable_leaf(value, path)
    if id(value) in above or len(above) > MAX_DEPTH:
        return WireError("it refers to itself, or nests too deep", path)
    for key, item in children:
        if isinstance(key, str) and not _is_text(key):
            return WireError("a key with a lone surrogate has no JSON form", path)
        if (found := _first_unserialisable(item, join(path, key), above | {id(value)})) is not None:
            return found
    return _unserialisable_leaf(value, path)


def _unserialisable_leaf(value: Any, path: str) -> WireError | None:
    try:
        to_json(value, by_alias=True, fallback=fallback).decode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return WireError(f"{_kind(value)} has no JSON form", path)
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: object) -> str:
    if isinstance(value, GeneratorType | AsyncGeneratorType):
        return "a generator"
    if isinstance(value, bytes | bytearray):
        return "a value of bytes that are not UTF-8"
    if isinstance(value, str):
        return "text with a lone surrogate"
    return f"a value of type {type(value).__name__}"


_STREAMS = (GeneratorType, AsyncGeneratorType, io.IOBase)


def fallback(value: Any) -> Any:
    """Give the plain form of what pydantic's serialiser does not know.

    Numpy scalars and arrays say by ``dtype`` and ``tolist`` that they are plain data.

    Raises:
        TypeError: If the value has no plain form.
    """
    if callable(plain := getattr(value, "tolist", None)) and (hasattr(value, "dtype") or hasattr(value, "typecode")):
        return plain()
    if isinstance(value, memoryview):
        return bytes(cast("Any", value))
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if isinstance(value, UserString | datetime.tzinfo):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, Set | Sequence | MappingView):
        return list(cast("Any", value))
    raise TypeError(type(value).__name__)


def _lossy(sent: Any, got: Any, path: str) -> str | None:
    if isinstance(sent, int) and not isinstance(sent, bool):
        return path if isinstance(got, float) and (not math.isfinite(got) or int(got) != sent) else None
    if isinstance(got, Decimal) and isinstance(sent, Decimal):
        return path if sent != got else None
    if isinstance(got, set | frozenset):  # in an order of its own
        wanted = cast("list[Any]", sent) if isinstance(sent, list) else []
        return next((join(path, i) for i, item in enumerate(wanted) if _lost(item, cast("set[Any]", got))), None)
    pairs = {str(key): item for key, item in _children(got)}
    if isinstance(got, BaseModel):
        for name, field in type(got).model_fields.items():
            alias = field.validation_alias or field.alias
            if isinstance(alias, str):
                pairs[alias] = getattr(got, name, None)
    for key, item in _children(sent):
        if str(key) in pairs and (found := _lossy(item, pairs[str(key)], join(path, key))) is not None:
            return found
    return None


def _lost(item: Any, kept: set[Any]) -> bool:
    """Whether a number is in a set only as what it was rounded to."""
    if isinstance(item, bool) or not isinstance(item, int | Decimal) or item in kept:
        return False
    rounded = float(item)
    return (isinstance(item, int) and rounded in kept) or Decimal(repr(rounded)) in {
        one for one in kept if isinstance(one, Decimal)
    }
