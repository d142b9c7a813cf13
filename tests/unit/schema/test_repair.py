"""What is wrong is said so that a model can put it right; what has one meaning is put right at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from handrail.schema.repair import explain, reading, repair


class Cat(BaseModel):
    """A member of a union."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """Another member."""

    kind: Literal["dog"]
    name: str


def failure(annotation: Any, sent: Any) -> ValidationError:
    """Why pydantic refuses a value."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter[Any](annotation).validate_python(sent, strict=True)
    return caught.value


CASES: list[Any] = [
    (dict[str, int], {"a": "x", "b": "y"}, "a: Input should be a valid integer; b: Input should be a valid integer"),
    (int | bool, "x", "the arguments: Input should be a valid integer or a valid boolean"),
    (list[int | str], [1, None], "[1]: Input should be a valid integer or a valid string"),
    (Cat | Dog, {"kind": "cat"}, "lives: required, and missing"),
    (Cat | Dog, {"kind": "dog", "name": 1}, "name: Input should be a valid string"),
    (list[Cat | int], [{"kind": "cat", "lives": "x"}], "[0].lives: Input should be a valid integer"),
    (dict[int, int], {"x": 1}, "x: as a key: Input should be a valid integer"),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cow"},
        "the arguments: 'kind' should be one of 'cat', 'dog'",
    ),
]


@pytest.mark.parametrize(("annotation", "sent", "text"), CASES)
def test_explanations(annotation: Any, sent: Any, text: str) -> None:
    """Paths lead through what was sent; of a union only the members that came near speak."""
    assert explain(failure(annotation, sent), sent, ()) == text


def test_known_names() -> None:
    """A stray key is answered with the names that exist; for a result there are none to choose from."""

    class Closed(BaseModel, extra="forbid"):
        seat: int = 1

    error = failure(Closed, {"seta": 1})
    assert explain(error, {"seta": 1}, ["seat"]) == "seta: unknown argument; did you mean 'seat'? (accepted: seat)"
    assert explain(error, {"seta": 1}, None) == "seta: not in the schema"


@pytest.mark.parametrize(
    ("kind", "sent", "meant"),
    [
        ("integer", "5", 5),
        ("integer", "-0", 0),
        ("integer", "05", "05"),
        ("integer", " 5", " 5"),
        ("integer", "5.0", "5.0"),
        ("integer", "1" * 4000, "1" * 4000),
        ("integer", 5.5, 5.5),
        ("number", "1.5", 1.5),
        ("number", "9007199254740993", "9007199254740993"),
        ("number", "1e5", "1e5"),
        ("number", "NaN", "NaN"),
        ("boolean", "true", True),
        ("boolean", "True", "True"),
        ("array", "[1]", [1]),
        ("array", '{"a": 1}', '{"a": 1}'),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("object", "{", "{"),
        ("string", "[1]", "[1]"),
        ("null", "null", "null"),
    ],
)
def test_readings(kind: str, sent: Any, meant: Any) -> None:
    """Text is read as another type only where it is written exactly as JSON writes that type, without loss."""
    read = reading(kind, sent)
    assert (read, type(read)) == (meant, type(meant))


def test_nothing_to_repair() -> None:
    """Where nothing can be repaired there is no repaired copy, and what was sent is never changed."""
    sent = {"a": ["x"], "b": None}
    said: list[str] = []
    error = failure(dict[str, list[int]], sent)
    assert repair(sent, error, ["a", "b"], said) is None
    assert said == []
    assert repair(sent, error, ["a"], said) == {"a": ["x"]}
    assert said == ["b: null for an optional argument: left out"]
    assert sent == {"a": ["x"], "b": None}
