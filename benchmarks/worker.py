"""The child that measures one scenario of one contender: `python -m benchmarks.worker S1 floor`.

The last line on stdout is JSON: samples in microseconds of CPU per unit, or why there are none.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import sys
import time
from typing import Any

from benchmarks.contenders import ENTRIES
from benchmarks.scenarios import SCENARIOS, Work
from benchmarks.workload import TALLY

STUCK = 240.0
"""Seconds after which the stack goes to stderr; the parent gives up a little later."""


async def measure(work: Work, repeats: int, budget: float) -> dict[str, Any]:
    """Run one batch to warm up, then up to `repeats` timed ones within `budget` seconds (two at least).

    The first one pauses in the tool, and so shows how many calls were under way together.
    """
    samples: list[float] = []
    peak = 0
    ends = time.monotonic() + budget
    for index in range(repeats + 1):
        spent, wrong = await _batch(work, pausing=index == 0)
        if wrong:
            return {"status": "void", "note": wrong}
        peak = max(peak, TALLY.peak)
        if index:
            samples.append(spent * 1e6 / work.units)
        if index >= 2 and time.monotonic() > ends:
            break
    return {"status": "ok", "samples": samples, "peak": peak}


async def _batch(work: Work, *, pausing: bool) -> tuple[float, str | None]:
    given = work.prepare()
    TALLY.reset(pausing=pausing)
    gc.collect()
    start = time.process_time()
    result = await work.run(given)
    spent = time.process_time() - start
    return spent, work.check(result)


def main(scenario: str, contender: str, repeats: str, budget: str) -> None:
    """Measure and print."""
    faulthandler.dump_traceback_later(STUCK)
    make = SCENARIOS[scenario].work
    assert make is not None, f"{scenario} is not measured here"
    work = make(ENTRIES[contender].load())
    print(json.dumps(asyncio.run(measure(work, int(repeats), float(budget)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
