"""Makes a core schema accept what its JSON Schema accepts, and nothing else.

Pydantic's strict mode comes close, but leaves gaps: ``true`` passes for ``Literal[1]``, an object for a named tuple,
``" 1"`` for an integer key; items of an ``Iterable`` are checked only while the body reads them; and under a user's
"before" validator a date or a tuple is refused. Here every node says for itself what it takes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from typing import Any, LiteralString, cast

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError, from_json, to_json
from pydantic_core import core_schema as cs

Node = dict[str, Any]

INTEGER_TEXT = r"^(0|-?[1-9][0-9]*)$"
"""How an integer is written as the key of an object."""

NUMBER_TEXT = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""How a number is written as the key of an object."""

DECIMAL_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
"""How a decimal number is written as text."""

FORM_ERROR: LiteralString = "form"
"""The type of the errors that are raised here. Their texts hold nothing that was sent."""

_NOT_SCHEMAS = frozenset(
    {"cls", "config", "default", "discriminator", "expected", "function", "members", "metadata", "ref", "schema_ref",
     "serialization"}
)  # fmt: skip
_SCALARS = frozenset({"str", "int", "float", "bool"})
_LENIENT = frozenset(
    {"bytes", "complex", "counter", "dataclass", "date", "datetime", "decimal", "deque", "dict", "frozenset", "list",
     "model", "named-tuple", "ordered-dict", "set", "time", "timedelta", "tuple", "typed-dict", "uuid"}
)  # fmt: skip
_TEXTS: dict[str, tuple[str, str]] = {
    "date": (r"\d{4}-\d{2}-\d{2}", "a date such as 2024-01-31"),
    "datetime": (r"\d{4}-\d{2}-\d{2}[Tt _].+", "a date and time such as 2024-01-31T12:30:00Z"),
    "time": (r"\d{2}:\d{2}.*", "a time such as 12:30:00"),
    "timedelta": (r"[+-]?P(?!.*\.\d{7}).+", "a duration such as PT1H30M"),
    "uuid": (r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a UUID of 8-4-4-4-12 digits"),
    "complex": (r".+", "text such as 1+2j"),
}
_PARSERS = {
    kind: SchemaValidator(cast("CoreSchema", {"type": kind, "strict": True, "microseconds_precision": "error"}))
    for kind in ("datetime", "time", "timedelta")
} | {"date": SchemaValidator(cs.date_schema(strict=True))}
_JSON_TYPES = (str, bool, int, float, list, dict, type(None))


def strict_validator(core: CoreSchema) -> SchemaValidator:
    """Build the validator for JSON arguments."""
    # A model that is complete has a validator of its own, which would be taken in place of the schema given here.
    return SchemaValidator(_Strict(core, arguments=True).schema, None, False)


def result_validator(core: CoreSchema) -> SchemaValidator:
    """Build the validator for Python results: closed objects, exact literals, and items checked at once."""
    return SchemaValidator(_Strict(core, arguments=False).schema, None, False)


def json_forms(values: Iterable[object]) -> list[Any]:
    """The JSON form of each value, without repetitions."""
    return list({_exact(form): form for form in (_json_form(value) for value in values)}.values())


def key_texts(values: Iterable[object]) -> list[str]:
    """How values are written as keys of an object."""
    return [_key_text(form) for form in json_forms(values)]


def flag_mask(kind: type[enum.Flag]) -> int:
    """All bits that a flag knows."""
    mask = 0
    for member in kind.__members__.values():
        mask |= member.value
    return mask


def closes(node: Node) -> bool:
    """Tell whether an object takes only its own fields, as all do that do not say otherwise themselves."""
    config: Node = node.get("config") or {}
    if node["type"] == "model" and node.get("root_model"):
        return False
    said = config.get("extra_fields_behavior")
    if node["type"] == "typed-dict" and said is None and node.get("extra_behavior") != "ignore":
        said = node.get("extra_behavior")
    return said is None or said == "forbid"


class _Strict:
    """One pass over a core schema. The schema that is given is not changed."""

    def __init__(self, core: CoreSchema, *, arguments: bool) -> None:
        self._arguments = arguments
        self._definitions: dict[str, Node] = {}
        self.schema: CoreSchema = self._visit(core)

    def _visit(self, node: Any, *, key: bool = False) -> Any:
        if isinstance(node, list):
            return [self._visit(item, key=key) for item in cast("list[Any]", node)]
        if isinstance(node, tuple):
            return tuple(self._visit(item, key=key) for item in cast("tuple[Any, ...]", node))
        if not isinstance(node, dict):
            return node
        known = cast("Node", node)
        kind: object = known.get("type")
        if kind == "definitions":
            self._definitions |= {one["ref"]: one for one in known["definitions"]}
        if self._arguments and kind == "lax-or-strict":
            return self._visit(known["strict_schema"], key=key)
        if self._arguments and kind == "json-or-python":
            return self._visit(known["json_schema"], key=key)
        if key and kind == "definition-ref" and known["schema_ref"] in self._definitions:
            target = self._definitions[known["schema_ref"]]
            return self._visit({name: value for name, value in target.items() if name != "ref"}, key=True)
        return self._rule(kind, {name: self._part(name, value, key) for name, value in known.items()}, key)

    def _part(self, name: str, value: Any, key: bool) -> Any:
        if name in ("fields", "choices") and isinstance(value, dict):
            return {field: self._visit(item) for field, item in cast("Node", value).items()}
        if name in _NOT_SCHEMAS:
            return value
        return self._visit(value, key=key or (name == "keys_schema" and self._arguments))

    def _rule(self, kind: object, node: Node, key: bool) -> Any:
        if kind in ("model", "dataclass", "typed-dict") and closes(node):
            _close(node)
        if kind == "generator":
            node["type"] = "list"
        if kind in ("literal", "enum"):
            return self._member(node, key)
        if kind == "dataclass" and not self._arguments and "__pydantic_validator__" not in vars(node["cls"]):
            return _instance(node)
        return self._argument(str(kind), node, key) if self._arguments else node

    def _argument(self, kind: str, node: Node, key: bool) -> Any:
        if kind == "float":
            node.setdefault("allow_inf_nan", False)
        if kind in _SCALARS:
            node["strict"] = True
            return _before(_KEYS[kind], node) if key and kind in _KEYS else node
        if kind in _LENIENT:
            node["strict"] = False
        if kind in _TEXTS:
            return _before(_text_check(kind), node)
        if kind == "union" and node.get("mode") != "left_to_right":
            return _text_first(node)
        if kind == "named-tuple":
            return _before(_check_list, node)
        if kind == "decimal":
            return _before(_check_decimal, node)
        return node

    def _member(self, node: Node, key: bool) -> Any:
        """A literal or an enum: one table from JSON forms to values, because Python holds ``True`` and ``1`` equal."""
        values: list[Any] = node.get("expected") or list(node["cls"].__members__.values())
        if _is_text(node, values):
            return {**node, "strict": False} if node["type"] == "enum" and self._arguments else node
        forms = [_json_form(value) for value in values]
        if not self._arguments:
            return _before(_same_kind_check(forms), node)
        check = _flag_check(node["cls"]) if _is_flag(node) else _table_check(values, forms, _missing(node), key)
        return cs.no_info_plain_validator_function(check, ref=node.get("ref"))


def _is_text(node: Node, values: list[Any]) -> bool:
    if node["type"] == "enum":
        return all(isinstance(member.value, str) for member in values)
    return all(isinstance(value, str) and not isinstance(value, enum.Enum) for value in values)


def _close(node: Node) -> None:
    if node["type"] == "typed-dict":
        node["extra_behavior"] = "forbid"
    else:
        node["config"] = {**(node.get("config") or {}), "extra_fields_behavior": "forbid"}


def _instance(node: Node) -> Node:
    """A dataclass of the standard library checks nothing when it is made, so its fields are looked at here."""
    kind: type = node["cls"]
    fields: dict[str, Any] = {
        field["name"]: cs.typed_dict_field(field["schema"], required=False)
        for field in node["schema"].get("fields", ())
        if not field.get("init_only")
    }

    def check(value: Any, fits: Callable[[Any], Any]) -> Any:
        if not isinstance(value, kind):
            raise PydanticCustomError("dataclass_type", "Input should be an object")
        fits({name: getattr(value, name) for name in fields if hasattr(value, name)})
        return value

    inner = cs.typed_dict_schema(fields)
    return cast("Node", cs.no_info_wrap_validator_function(check, inner, ref=node.get("ref")))


def _is_flag(node: Node) -> bool:
    return node["type"] == "enum" and issubclass(node["cls"], enum.Flag)


def _before(check: Callable[[Any], Any], node: Node) -> Node:
    """Let a check run first; the reference to the node then means both."""
    inner = {name: value for name, value in node.items() if name != "ref"}
    return cast("Node", cs.no_info_before_validator_function(check, cast("Any", inner), ref=node.get("ref")))


def _refusal(expected: str) -> PydanticCustomError:
    return PydanticCustomError(FORM_ERROR, cast("Any", "Input should be {expected}"), {"expected": expected})


def _text_first(union: Node) -> Node:
    """Let text stay text in a union that takes any text, whatever else could be made of it."""
    choices: list[Any] = union["choices"]
    texts: list[Any] = [one for one in choices if isinstance(one, dict) and _takes_any_text(cast("Node", one))]
    others = [one for one in choices if one not in texts]
    if not texts or not others:
        return union
    rest = others[0] if len(others) == 1 else {"type": "union", "choices": others}
    return {**union, "choices": [texts[0], rest], "mode": "left_to_right"}


def _takes_any_text(core: Node) -> bool:
    return core.get("type") == "str" and not core.keys() - {"type", "strict", "metadata", "ref"}


def _text_check(kind: str) -> Callable[[Any], Any]:
    pattern, expected = _TEXTS[kind]
    form = re.compile(pattern, re.DOTALL)
    parser = _PARSERS.get(kind)

    def check(value: Any) -> Any:
        if not isinstance(value, _JSON_TYPES):
            return value
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise _refusal(expected)
        try:
            return value if parser is None else parser.validate_strings(cast("Any", value))
        except ValidationError as error:
            raise PydanticCustomError(FORM_ERROR, cast("Any", error.errors()[0]["msg"])) from None

    return check


def _check_list(value: Any) -> Any:
    if isinstance(value, dict):
        raise PydanticCustomError("list_type", "Input should be a valid array")
    return value


def _check_decimal(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, str) and not _written(DECIMAL_TEXT, value)):
        raise _refusal("a decimal number, or one as text such as '10.50'")
    return value


def _written(pattern: str, text: str) -> bool:
    return re.match(pattern, text) is not None and not text.endswith("\n")


def _integer_key(text: Any) -> Any:
    if not _written(INTEGER_TEXT, text) or len(text) > 4000:
        raise _refusal("an integer as text")
    return int(text)


def _number_key(text: Any) -> Any:
    if not _written(NUMBER_TEXT, text):
        raise _refusal("a number as text")
    return float(text)


def _boolean_key(text: Any) -> Any:
    if text not in ("true", "false"):
        raise _refusal("'true' or 'false'")
    return text == "true"


_KEYS: dict[str, Callable[[Any], Any]] = {"int": _integer_key, "float": _number_key, "bool": _boolean_key}


def _missing(node: Node) -> Callable[[Any], Any]:
    """How an enum finds members by other values than theirs."""
    own: Callable[[Any], Any] = node["cls"]._missing_ if node["type"] == "enum" else lambda _: None

    def find(value: Any) -> Any:
        try:
            return own(value)
        except Exception:
            return None

    return find


def _table_check(values: list[Any], forms: list[Any], missing: Callable[[Any], Any], key: bool) -> Callable[[Any], Any]:
    table = {_exact(form): value for form, value in reversed(list(zip(forms, values, strict=True)))}
    if key:
        table |= {("s", _key_text(form)): table[_exact(form)] for form in forms}
    expected = _one_of(json_forms(values))

    def find(value: Any) -> Any:
        found = table.get(_exact(value), table)
        if found is not table:
            return found
        if any(value is one for one in values):
            return value
        if (made := missing(value)) is not None:
            return made
        raise _refusal(expected)

    return find


def _flag_check(kind: type[enum.Flag]) -> Callable[[Any], Any]:
    mask = flag_mask(kind)
    parts = ", ".join(f"{member.value} ({member.name})" for member in kind)

    def find(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value & ~mask or value < 0:
            raise _refusal(f"a sum of {parts}")
        return kind(value)

    return find


def _same_kind_check(forms: list[Any]) -> Callable[[Any], Any]:
    """Keep ``True`` from passing for ``1`` in a result, and the other way round."""
    exact = {_exact(form) for form in forms}

    def check(value: Any) -> Any:
        if type(value) in (bool, int, float) and _exact(value) not in exact:
            raise _refusal(_one_of(forms))
        return value

    return check


def _one_of(forms: list[Any]) -> str:
    texts = [to_json(form).decode() for form in forms]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _json_form(value: object) -> Any:
    return from_json(to_json(value, fallback=str))


def _key_text(form: Any) -> str:
    return form if isinstance(form, str) else to_json(form).decode()


def _exact(value: Any) -> tuple[str, Any]:
    """A key under which JSON values are equal when JSON Schema holds them equal: 1 is 1.0, and true is neither."""
    if isinstance(value, str):
        return "s", str(value)
    if isinstance(value, bool) or value is None:
        return "b", value
    if isinstance(value, int | float):
        return "n", value
    try:
        return "j", to_json(value)
    except ValueError:
        return "j", None
