"""The rows as a table for the terminal, as Markdown for the documentation, and as JSON."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders import ENTRIES
from benchmarks.rows import Row, ratios
from benchmarks.scenarios import SCENARIOS

_HEADER = ("", "contender", "min", "median", "x floor", "x fastest peer", "peak", "note")

_HOW = """\
Every scenario runs each contender in a process of its own, several times, in turn with the others. The
figure is process CPU time per unit, in microseconds (S5: in milliseconds); the ratios compare the best
samples. The model answers at once, inside the process, so what is left is what the library itself costs. A
turn is one request to the model, the one that gives the answer included. Tool calls, their arguments, turns
and answers are counted in the tool's body and in the model; a row whose count is off is void and says so.
Every contender has the same tool. Agents are built before the clock starts, except in S5. S2b and S4b use
each library's own layer below the agent: `Toolset.call`, `FunctionTool.invoke`, `BaseTool.ainvoke`,
pydantic-ai's `ToolManager`. In S4 every schema must have its name, its description and all parameters; all
but agent-framework's also describe each parameter from the docstring. S4b shows what a schema built lazily
puts off until the first call. S5a imports only what its row names; a package that loads its parts on demand
pays in S5 and S5b."""


def text(rows: list[Row], machine: dict[str, Any]) -> str:
    """The table as it is printed."""
    blocks = [_facts(machine)]
    for key, beside in _by_scenario(rows):
        table = [_HEADER, *(_cells(row, rows) for row in beside)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(_pad(cell, width, i) for i, (cell, width) in enumerate(zip(line, widths, strict=True)))
            for line in table
        ]
        blocks.append("\n".join([_title(key), *(line.rstrip() for line in lines)]))
    return "\n\n".join(blocks)


def markdown(rows: list[Row], machine: dict[str, Any]) -> str:
    """The page `docs/reference/benchmarks.md`."""
    parts = ["# Benchmarks", "Written by `make bench`; run it to get the figures of your own machine.", _HOW]
    for key, beside in _by_scenario(rows):
        lines = [_HEADER[1:], tuple("---" if i in (0, 6) else "---:" for i in range(len(_HEADER) - 1))]
        lines += [_cells(row, rows)[1:] for row in beside]
        parts.append(f"## {_title(key)}\n\n" + "\n".join(map(_line, lines)))
    return "\n\n".join([*parts, "## Machine and versions\n\n" + _bullets(machine)]) + "\n"


def as_json(rows: list[Row], machine: dict[str, Any]) -> dict[str, Any]:
    """Everything, samples included."""
    return {"machine": machine, "rows": [_record(row, rows) for row in rows]}


def _record(row: Row, rows: list[Row]) -> dict[str, Any]:
    beside = ratios(row, rows)
    return {
        "scenario": row.scenario,
        "unit": SCENARIOS[row.scenario].unit,
        "contender": row.contender,
        "status": row.status,
        "note": row.note,
        "min_us": row.minimum if row.counts else None,
        "median_us": row.middle if row.counts else None,
        "x_floor": beside.floor,
        "x_fastest_peer": beside.peer,
        "peak_mb": row.memory,
        "samples_us": row.samples,
    }


def _by_scenario(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    keys = dict.fromkeys(row.scenario for row in rows)
    return [(key, [row for row in rows if row.scenario == key]) for key in keys]


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _title(key: str) -> str:
    scenario = SCENARIOS[key]
    unit = "ms of CPU" if scenario.stage else f"µs of CPU per {scenario.unit}"
    return f"{key}: {scenario.title} ({unit})"


def _cells(row: Row, rows: list[Row]) -> tuple[str, ...]:
    label = ENTRIES[row.contender].label
    if not row.counts:
        blank = ("-",) * 5
        return ("", label, *blank, f"{row.status}: {row.note}" if row.note else row.status)
    scale = 1000 if SCENARIOS[row.scenario].stage else 1
    beside = ratios(row, rows)
    memory = f"{row.memory:.0f} MB" if row.memory is not None else ""
    figures = (
        _figure(row.minimum / scale),
        _figure(row.middle / scale),
        _ratio(beside.floor),
        _ratio(beside.peer),
    )
    return ("", label, *figures, memory, row.note)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _pad(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if 2 <= column <= 6 else cell.ljust(width)


def _facts(machine: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in _flat(machine))


def _bullets(machine: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in _flat(machine))


def _flat(machine: dict[str, Any]) -> list[tuple[str, Any]]:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    facts = [(name, value) for name, value in machine.items() if name not in ("versions", "load", "cores")]
    return [
        *facts,
        ("cores", f"{machine['cores']} (load {machine['load']} at the start)"),
        ("versions", versions),
    ]
