"""Where and with what the figures were taken."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.contenders import ENTRIES


def describe() -> dict[str, Any]:
    """Date, interpreter, processor, load, and the versions of everything measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": _versions(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in ENTRIES.values():
        versions = entry.versions()
        found |= {name: versions.get(name, "not installed") for name in entry.distributions}
    return dict(sorted(found.items()))
