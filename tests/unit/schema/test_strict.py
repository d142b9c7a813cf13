"""A core schema takes what its JSON Schema takes; what a schema says of itself is left alone."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from handrail.schema.strict import flag_mask, json_forms, key_texts, result_validator, strict_validator


class Level(enum.Enum):
    """A member that is a number."""

    ONE = 1
    WORD = "w"


class Leaf(BaseModel):
    """A complete model, which has a validator of its own."""

    model_config = ConfigDict(strict=True)

    on: Literal[1] = 1
    day: dt.date | None = None


class Pair(NamedTuple):
    """A named tuple."""

    a: int


class Tree(BaseModel):
    """A recursive model."""

    leaf: Leaf = Leaf()
    keys: dict[Literal[1, "a"], int] = {}
    kids: list[Tree] = []


def take(annotation: Any, text: str) -> Any:
    """What arguments of a type become."""
    return strict_validator(TypeAdapter[Any](annotation).core_schema).validate_json(text)


def test_the_given_schema_is_not_changed() -> None:
    """Pydantic's own schema of a class stays as it was, so that the class goes on working as its author knows it."""
    core: Any = TypeAdapter(Tree).core_schema
    before = copy.deepcopy(core)
    strict_validator(core)
    result_validator(core)
    assert repr(core) == repr(before)
    assert Leaf.model_validate_json('{"on": 1, "extra": 2}') == Leaf()


def test_inside_of_complete_models() -> None:
    """The rules hold inside of models that have validators of their own, at every depth."""
    tree = take(Tree, '{"kids": [{"leaf": {"on": 1, "day": "2024-01-02"}, "keys": {"1": 2, "a": 3}}]}')
    assert tree == Tree(kids=[Tree(leaf=Leaf(day=dt.date(2024, 1, 2)), keys={1: 2, "a": 3})])
    for text in (
        '{"kids": [{"leaf": {"on": true}}]}',
        '{"leaf": {"x": 1}}',
        '{"leaf": {"day": 5}}',
        '{"keys": {"2": 1}}',
    ):
        with pytest.raises(ValidationError):
            take(Tree, text)


def test_shared_definitions() -> None:
    """A type that stands as a key and as a value is written as text only where it is a key."""

    class Both(TypedDict):
        keys: dict[Level, int]
        value: Level

    assert take(Both, '{"keys": {"1": 2}, "value": 1}') == {"keys": {Level.ONE: 2}, "value": Level.ONE}
    with pytest.raises(ValidationError):
        take(Both, '{"keys": {}, "value": "1"}')


def test_names_that_look_like_rules() -> None:
    """Defaults and members that look like schemas are data."""

    class Holder(BaseModel):
        value: Annotated[dict[str, Any], Field(default={"type": "int", "strict": False})]
        kind: Literal["literal", "enum"] = "enum"

    assert take(Holder, "{}") == Holder(value={"type": "int", "strict": False}, kind="enum")


def test_forms() -> None:
    """Members are told apart by their JSON forms, in which 1 is 1.0 and true is neither."""
    assert json_forms([1, 1.0, True, "1", None, (1,), dt.date(2024, 1, 2)]) == [1.0, True, "1", None, [1], "2024-01-02"]
    assert key_texts([1, "a", True]) == ["1", "a", "true"]


def test_flag_mask() -> None:
    """All bits of a flag count, those of its aliases too."""

    class Bits(enum.Flag):
        A = 1
        C = 4
        BOTH = 5

    assert flag_mask(Bits) == 5


@dataclasses.dataclass
class Node:
    """A recursive dataclass, of which nothing checks what it is made of."""

    v: int
    kids: list[Node]


def test_results() -> None:
    """A result keeps its identity, and a dataclass is looked into at every depth."""
    validator = result_validator(TypeAdapter(Node).core_schema)
    good = Node(1, [Node(2, [])])
    assert validator.validate_python(good, strict=True) is good
    with pytest.raises(ValidationError, match="integer"):
        validator.validate_python(Node(1, [Node("x", [])]), strict=True)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValidationError, match="1"):
        result_validator(TypeAdapter(Literal[1]).core_schema).validate_python(True, strict=True)
    assert result_validator(TypeAdapter(Pair).core_schema).validate_python(Pair(1), strict=True) == Pair(1)
