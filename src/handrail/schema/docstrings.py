"""What a docstring says of a function: its summary, its parameters and its result.

Google, NumPy and Sphinx style are read with griffe; the style is told from the docstring itself.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast

Style: TypeAlias = Literal["google", "numpy", "sphinx"]

_GOOGLE = re.compile(
    r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Returns|Yields|Raises|"
    r"Examples?|Notes?|Attributes|Warns|Warnings?):[ \t]*$",
    re.M,
)
_NUMPY = re.compile(r"^(Parameters|Other Parameters|Returns|Raises|Yields|Notes|Examples)\n-{3,}[ \t]*$", re.M)
_SPHINX = re.compile(r"^:(param|parameter|arg|argument|key|keyword|returns?|raises?|type|rtype)\b[^:\n]*:", re.M)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(^[ \t]*\1|\Z)", re.M | re.S)
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
    clean = _clean(doc)
    styles: tuple[tuple[Style, re.Pattern[str]], ...] = (("google", _GOOGLE), ("numpy", _NUMPY), ("sphinx", _SPHINX))
    starts = [(style, start) for style, marker in styles if (start := _start(marker, clean)) is not None]
    if not starts:
        return Docstring(clean)
    text = clean[: min(start for _, start in starts)].rstrip()
    try:
        return Docstring(text, *_read_sections(clean, cast("Style", starts[0][0])))
    except Exception:  # griffe reads what people write; where it cannot, the text alone has to do
        return Docstring(text)


def _clean(doc: str) -> str:
    clean = inspect.cleandoc(doc.replace("\r\n", "\n"))
    first, _, rest = clean.partition("\n")
    if _GOOGLE.fullmatch(first) and rest[:1].strip() and not _GOOGLE.search(rest):
        return f"{first}\n{textwrap.indent(rest, '    ')}"  # beside a title alone, its lines lost their indentation
    return clean


def _start(marker: re.Pattern[str], clean: str) -> int | None:
    """Where the first section starts, passing over blocks of code."""
    masked = _FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), clean)
    found = marker.search(masked)
    return found.start() if found is not None else None


def _read_sections(clean: str, style: Style) -> tuple[dict[str, str], str | None]:
    import griffe

    if style == "google":
        clean = _separate(_use_known_titles(clean))
    parameters: dict[str, str] = {}
    returns: str | None = None
    # A first line of its own: a docstring may begin with a section, which griffe would take for its summary.
    for section in griffe.Docstring(f"-\n\n{clean}").parse(style, warnings=False):
        kind = section.kind.value
        if kind in _PARAMETER_SECTIONS:
            for item in section.value:
                parameters[item.name.strip(" *`")] = _one_paragraph(item.description)
        elif kind == "returns" and section.value:
            returns = _one_paragraph(section.value[0].description) or None
    return {name: said for name, said in parameters.items() if said}, returns


def _use_known_titles(clean: str) -> str:
    """Griffe knows fewer titles of the parameter sections than people write."""
    clean = re.sub(r"^(Arguments|Parameters|Params):[ \t]*$", "Args:", clean, flags=re.M)
    return re.sub(r"^Keyword Arguments:[ \t]*$", "Keyword Args:", clean, flags=re.M)


def _separate(clean: str) -> str:
    """Put the blank line before each section that griffe needs and people forget."""
    return re.sub(r"(?<!\n)\n(?=(?:" + _GOOGLE.pattern[2:].split(")", 1)[0] + r"):[ \t]*$)", "\n\n", clean, flags=re.M)


def _one_paragraph(text: str | None) -> str:
    return " ".join((text or "").split())
