"""`python -m benchmarks`: measure, print one table, and write it where it was asked for."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import children, machine, report
from benchmarks.contenders import ENTRIES, Entry
from benchmarks.rows import Row
from benchmarks.scenarios import SCENARIOS, Scenario


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks; 1 when a row is void or failed."""
    options = _options(argv)
    facts = machine.describe()
    facts["bare interpreter"] = _bare()
    rows = _measure(options)
    print(report.text(rows, facts))
    if options.json:
        options.json.write_text(json.dumps(report.as_json(rows, facts), indent=2) + "\n")
    if options.markdown:
        options.markdown.write_text(report.markdown(rows, facts))
    return int(any(row.status in ("void", "failed") for row in rows))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", type=_scenarios, default=list(SCENARIOS), help="scenarios: S1,S2")
    parser.add_argument("--contender", action="append", choices=list(ENTRIES), help="may be given more than once")
    parser.add_argument("--rounds", type=int, default=3, help="processes per scenario and contender")
    parser.add_argument("--repeats", type=int, default=5, help="timed batches per process")
    parser.add_argument("--budget", type=float, default=8.0, help="seconds after which no batch is begun")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser.parse_args(argv)


def _scenarios(value: str) -> list[str]:
    known = {key.lower(): key for key in SCENARIOS}
    try:
        return [known[key.strip().lower()] for key in value.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no scenario {error}; there are {', '.join(SCENARIOS)}") from None


def _bare() -> str:
    outcome = children.bare_interpreter()
    return f"{outcome['cpu'] * 1000:.0f} ms of CPU, {outcome['peak_mb']:.0f} MB"


def _measure(options: argparse.Namespace) -> list[Row]:
    """Go round all contenders as often as asked, so that a busy minute does not hit one alone."""
    entries = [ENTRIES[key] for key in options.contender or ENTRIES]
    rows = {(key, entry.key): Row(key, entry.key) for key in options.only for entry in entries}
    for turn in range(options.rounds):
        for (key, contender), row in rows.items():
            if row.status == "ok":
                print(f"round {turn + 1} of {options.rounds}: {key} {contender}", file=sys.stderr)
                row.add(_outcome(SCENARIOS[key], ENTRIES[contender], options))
    return list(rows.values())


def _outcome(scenario: Scenario, entry: Entry, options: argparse.Namespace) -> dict[str, Any]:
    if not entry.installed():
        return {"status": "not installed"}
    if scenario.stage:
        return children.starts(scenario, entry, options.repeats)
    return children.in_process(scenario, entry, options.repeats, options.budget)


if __name__ == "__main__":
    raise SystemExit(main())
