"""What a docstring says of a function: its summary, its parameters and its result.

Google, NumPy and Sphinx style are read with griffe; the style is told from the docstring itself.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from functools import lru_cache

_GOOGLE = re.compile(
    r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Returns|Yields|Raises|"
    r"Examples?|Notes?|Attributes|Warns|Warnings?):[ \t]*$",
    re.M,
)
_NUMPY = re.compile(r"^(Parameters|Other Parameters|Returns|Raises|Yields|Notes|Examples)\n-{3,}[ \t]*$", re.M)
_SPHINX = re.compile(r"^:(param|parameter|arg|argument|key|keyword|returns?|raises?|type|rtype)\b[^:\n]*:", re.M)
_PARAMETER_SECTIONS = {"parameters", "other parameters"}


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring that a tool needs.

    Attributes:
        text: What comes before the sections: the tool's description.
        parameters: The text for each parameter, by its name.
        returns: The text for the result; None where the docstring has none.
    """

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    returns: str | None = None


@lru_cache(maxsize=4096)
def read_docstring(doc: str | None) -> Docstring:
    """Read a docstring. Never fails: what is not understood stays part of the text."""
    if not doc or not doc.strip():
        return Docstring()
    clean = inspect.cleandoc(doc)
    for style, marker in (("google", _GOOGLE), ("numpy", _NUMPY), ("sphinx", _SPHINX)):
        if marker.search(clean):
            return _read_sections(clean, style, marker)
    return Docstring(clean)


def _read_sections(clean: str, style: str, marker: re.Pattern[str]) -> Docstring:
    import griffe

    if style == "google":
        clean = _separate(_use_known_titles(clean))
    text = clean[: match.start()].rstrip() if (match := marker.search(clean)) else clean
    parameters: dict[str, str] = {}
    returns: str | None = None
    source = griffe.Docstring(clean)
    for section in source.parse(style, warnings=False):  # pyright: ignore[reportArgumentType] - one of griffe's styles
        kind = section.kind.value
        if kind in _PARAMETER_SECTIONS:
            for item in section.value:
                parameters[item.name.lstrip("*")] = _one_paragraph(item.description)
        elif kind == "returns" and section.value:
            returns = _one_paragraph(section.value[0].description) or None
    return Docstring(text, {name: said for name, said in parameters.items() if said}, returns)


def _use_known_titles(clean: str) -> str:
    """Griffe knows fewer titles of the parameter sections than people write."""
    clean = re.sub(r"^(Arguments|Parameters|Params):[ \t]*$", "Args:", clean, flags=re.M)
    return re.sub(r"^Keyword Arguments:[ \t]*$", "Keyword Args:", clean, flags=re.M)


def _separate(clean: str) -> str:
    """Put the blank line before each section that griffe needs and people forget."""
    return re.sub(r"(?<!\n)\n(?=(?:" + _GOOGLE.pattern[2:].split(")", 1)[0] + r"):[ \t]*$)", "\n\n", clean, flags=re.M)


def _one_paragraph(text: str | None) -> str:
    return " ".join((text or "").split())
