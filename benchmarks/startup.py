"""The child whose start is measured (S5): `python -m benchmarks.startup floor agent`.

The last line on stdout is JSON: CPU seconds since the interpreter began, and the peak of resident memory.
Stages: `nothing` (a bare interpreter), `import`, `agent`, `run`.
"""

import sys
import time

TYPE_CHECKING = False  # not from `typing`: whatever this module imports would be measured
if TYPE_CHECKING:
    from benchmarks.contract import RunAgent


def _peak_mb() -> float:
    """The high-water mark of this program alone; `ru_maxrss` would remember the parent's as well."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource

        scale = 1024 * 1024 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def _imports(names: list[str]) -> None:
    for name in names:
        __import__(name)


def _agent(key: str, *, run: bool) -> None:
    from benchmarks.contenders import ENTRIES
    from benchmarks.workload import ANSWER, PROMPT, TALLY, Script, lookup_order

    agent = ENTRIES[key].load().agent(Script.of(1), lookup_order)
    if run:
        import asyncio

        answer = asyncio.run(_first_run(agent, PROMPT))
        assert (answer, TALLY.calls, TALLY.turns) == (ANSWER, 1, 2), "the first run did not do its work"


async def _first_run(agent: "RunAgent", prompt: str) -> str:
    return await agent(prompt)


def main(key: str, stage: str, *names: str) -> None:
    """Go as far as `stage` says, then print what it took."""
    if stage == "import":
        _imports(list(names))
    elif stage != "nothing":
        _agent(key, run=stage == "run")
    cpu, peak = time.process_time(), _peak_mb()
    print(f'{{"cpu": {cpu}, "peak_mb": {peak}}}')


if __name__ == "__main__":
    main(*sys.argv[1:])
