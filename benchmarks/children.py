"""Start the measuring children, each for one scenario of one contender, and read what they report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.contenders import Entry
from benchmarks.scenarios import Scenario

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 300.0
_PATH = re.compile(r"""\s?[("']*(?<!\w)/[\w.+-]+/[\w.+/-]*[)"']*""")


def in_process(scenario: Scenario, entry: Entry, repeats: int, budget: float) -> dict[str, Any]:
    """Let one worker measure several batches."""
    outcome = _child("benchmarks.worker", scenario.key, entry.key, str(repeats), str(budget))
    return outcome | {"note": _alone(scenario, outcome)} if outcome["status"] == "ok" else outcome


def _alone(scenario: Scenario, outcome: dict[str, Any]) -> str:
    """Say so when calls that were asked for together did not run together, or runs hardly overlapped."""
    together = {"S2": 200, "S3": 100}.get(scenario.key, 0)
    return f"at most {outcome['peak']} at a time" if outcome["peak"] < together else ""


def starts(scenario: Scenario, entry: Entry, repeats: int) -> dict[str, Any]:
    """Start `repeats` fresh processes, after one that fills the bytecode cache."""
    command = ("benchmarks.startup", entry.key, scenario.stage, *entry.imports)
    outcomes = [_child(*command) for _ in range(repeats + 1)][1:]
    if failed := [outcome for outcome in outcomes if outcome["status"] != "ok"]:
        return failed[0]
    return {
        "status": "ok",
        "samples": [outcome["cpu"] * 1e6 for outcome in outcomes],
        "peak_mb": [outcome["peak_mb"] for outcome in outcomes],
    }


def bare_interpreter() -> dict[str, Any]:
    """What the interpreter itself takes before anything is imported."""
    return _child("benchmarks.startup", "-", "nothing")


def _child(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        sys.stderr.write(_text(late.stderr))
        return {"status": "failed", "note": f"no result within {DEADLINE:.0f} s"}
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return {"status": "failed", "note": _PATH.sub("", _last_line(done.stderr))}
    return {"status": "ok"} | json.loads(_last_line(done.stdout))


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["it said nothing"])[-1]


def _environment() -> dict[str, str]:
    """Bytecode may be cached, and nothing is traced anywhere."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "PYTHONHASHSEED": "0"}
