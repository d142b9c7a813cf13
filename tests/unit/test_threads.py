"""The thread pool: bounded, with context variables, and never starved by a body that hangs."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from handrail.threads import Job, ThreadPool, TooManyStuckError
from support.waiting import eventually

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


class Gate:
    """A body that says that it runs, and stays until it is let go."""

    def __init__(self) -> None:
        self.running = 0
        self.peak = 0
        self.open = threading.Event()
        self._lock = threading.Lock()

    def hang(self) -> str:
        """Stay until the gate opens."""
        with self._lock:
            self.running += 1
            self.peak = max(self.peak, self.running)
        try:
            assert self.open.wait(20)
        finally:
            with self._lock:
                self.running -= 1
        return "went on"


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the latest when the test is over."""
    made = Gate()
    yield made
    made.open.set()


async def test_a_body_runs_in_another_thread() -> None:
    """A synchronous body does not block the event loop."""
    pool = ThreadPool()
    assert await pool.submit(threading.get_ident).future != threading.get_ident()


async def test_an_exception_reaches_the_caller() -> None:
    """What the body raised is what the caller gets."""

    def fail() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await ThreadPool().submit(fail).future


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt])
async def test_what_a_future_cannot_carry_becomes_an_error(kind: type[BaseException]) -> None:
    """A body that raises StopIteration or KeyboardInterrupt does not tear the event loop down."""

    def fail() -> None:
        raise kind

    with pytest.raises(RuntimeError, match=kind.__name__):
        await ThreadPool().submit(fail).future


async def test_context_variables_come_along_and_stay_there() -> None:
    """A body sees the caller's context variables, and what it sets does not leak to anybody."""

    def change() -> str:
        before = VARIABLE.get()
        VARIABLE.set("changed")
        return before

    VARIABLE.set("caller's")
    pool = ThreadPool(max_threads=1)
    assert await pool.submit(change).future == "caller's"
    assert await pool.submit(VARIABLE.get).future == "caller's"
    assert VARIABLE.get() == "caller's"


async def test_no_more_bodies_run_than_threads_are_allowed(gate: Gate) -> None:
    """Further bodies wait for their turn, and all of them come to it."""
    pool = ThreadPool(max_threads=3)
    jobs = [pool.submit(gate.hang) for _ in range(10)]
    await eventually(lambda: gate.running == 3)
    gate.open.set()
    assert await asyncio.gather(*(job.future for job in jobs)) == ["went on"] * 10
    assert gate.peak == 3


async def test_a_waiting_thread_is_not_promised_twice(gate: Gate) -> None:
    """Two bodies that come at once do not share the one idle thread: a hanging one would hold up the other."""
    pool = ThreadPool(max_threads=8)
    assert await pool.submit(lambda: "warm").future == "warm"
    hanging, quick = pool.submit(gate.hang), pool.submit(lambda: "quick")
    assert await asyncio.wait_for(quick.future, 5) == "quick"
    assert not hanging.future.done()


async def test_bodies_that_wait_for_each_other_all_run() -> None:
    """A burst gets as many threads as it has bodies, also when threads were idle before."""
    pool = ThreadPool(max_threads=8)
    for size in (3, 8, 5):
        barrier = threading.Barrier(size)

        def meet(barrier: threading.Barrier = barrier) -> int:
            return barrier.wait(10)

        met = await asyncio.gather(*(pool.submit(meet).future for _ in range(size)))
        assert sorted(met) == list(range(size))


async def test_a_body_that_waits_can_be_dropped(gate: Gate) -> None:
    """Giving up on a body that has not started means that it never runs."""
    pool = ThreadPool(max_threads=1)
    first = pool.submit(gate.hang)
    await eventually(lambda: first.started)
    ran: list[str] = []
    waiting = pool.submit(lambda: ran.append("waiting"))
    last = pool.submit(lambda: ran.append("last"))
    assert pool.abandon(waiting) is False
    gate.open.set()
    await last.future
    assert ran == ["last"]
    assert not waiting.started
    assert pool.abandoned == 0


async def test_a_body_that_hangs_is_written_off_and_replaced(gate: Gate) -> None:
    """A hanging body keeps its thread, but not its place: others run on. It is counted until it ends."""
    pool = ThreadPool(max_threads=2)
    stuck = [pool.submit(gate.hang) for _ in range(2)]
    await eventually(lambda: all(job.started for job in stuck))
    behind = pool.submit(lambda: "ran")
    assert [pool.abandon(job) for job in stuck] == [True, True]
    assert pool.abandoned == 2
    assert await asyncio.wait_for(behind.future, 5) == "ran"
    gate.open.set()
    await eventually(lambda: pool.abandoned == 0)


async def test_giving_up_twice_counts_once(gate: Gate) -> None:
    """One stuck body is one, however often it is given up."""
    pool = ThreadPool()
    job = pool.submit(gate.hang)
    await eventually(lambda: job.started)
    assert pool.abandon(job) is True
    assert pool.abandon(job) is True
    assert pool.abandoned == 1
    gate.open.set()
    await eventually(lambda: pool.abandoned == 0)


async def test_giving_up_on_what_is_done_changes_nothing() -> None:
    """A body that has ended does not run any more."""
    pool = ThreadPool(max_threads=1)
    job = pool.submit(lambda: 1)
    assert await job.future == 1
    await eventually(lambda: job.finished)
    assert pool.abandon(job) is False
    assert pool.abandoned == 0
    assert await pool.submit(lambda: 2).future == 2


async def test_too_many_stuck_bodies_are_refused(gate: Gate) -> None:
    """Threads cannot be stopped, so their number is bounded: then new bodies are refused, until some have ended."""
    pool = ThreadPool(max_threads=4, max_abandoned=2)
    stuck = [pool.submit(gate.hang) for _ in range(2)]
    await eventually(lambda: all(job.started for job in stuck))
    for job in stuck:
        pool.abandon(job)
    with pytest.raises(TooManyStuckError, match="2 synchronous"):
        pool.submit(lambda: 1)
    gate.open.set()
    await eventually(lambda: pool.abandoned == 0)
    assert await pool.submit(lambda: 1).future == 1


async def test_idle_threads_end() -> None:
    """Threads that nobody needs go away."""
    pool = ThreadPool(idle_seconds=0.01)
    thread = await pool.submit(threading.current_thread).future
    await eventually(lambda: not thread.is_alive())
    assert await pool.submit(lambda: "again").future == "again"


async def test_every_body_of_a_crowd_gets_its_own_outcome() -> None:
    """A thousand bodies on a few threads: each result goes to the caller that asked for it."""
    pool = ThreadPool(max_threads=4)
    jobs: list[Job] = [pool.submit(lambda number=number: number) for number in range(1000)]
    assert await asyncio.gather(*(job.future for job in jobs)) == list(range(1000))


def test_one_pool_serves_one_event_loop_after_another(gate: Gate) -> None:
    """A body that ends after its event loop has closed harms nobody, and the next loop is served."""
    pool = ThreadPool(max_threads=2)

    async def leave_one_behind() -> Job:
        job = pool.submit(gate.hang)
        await eventually(lambda: job.started)
        pool.abandon(job)
        return job

    async def ask() -> Any:
        return await pool.submit(lambda: "served").future

    job = asyncio.run(leave_one_behind())
    gate.open.set()
    assert asyncio.run(ask()) == "served"
    asyncio.run(eventually(lambda: job.finished and pool.abandoned == 0))


def test_a_program_ends_although_a_body_hangs() -> None:
    """A stuck thread does not keep the program from ending."""
    script = """
import asyncio, threading
from handrail.threads import POOL
async def main():
    started = threading.Event()
    job = POOL.submit(lambda: (started.set(), threading.Event().wait(60)))
    await asyncio.get_running_loop().run_in_executor(None, started.wait)
    POOL.abandon(job)
    print("leaving")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "leaving"


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """A server that forks its workers after a first call can still call: the parent's threads are not counted on."""
    script = """
import asyncio, os, time
from handrail.threads import POOL
async def ask():
    return await asyncio.wait_for(POOL.submit(os.getpid).future, 5)
assert asyncio.run(ask()) == os.getpid()
for _ in range(1000):
    if not POOL._idle:
        time.sleep(0.001)  # its thread is on its way back
child = os.fork()
if not child:
    os._exit(0 if asyncio.run(ask()) == os.getpid() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "0"
