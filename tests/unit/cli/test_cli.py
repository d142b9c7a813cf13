"""The commands as people type them: what goes where, and what they exit with."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from handrail.cli import cli
from handrail.cli.screen import clean

HANDRAIL = Path(sys.executable).with_name("handrail")
APP = Path(__file__).parents[3] / "examples" / "orders" / "app.py"

Write = Callable[..., Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_lists_the_commands() -> None:
    """The help names each command and loads none of them."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    for name in ("demo", "run", "tools", "call", "check", "doctor"):
        assert name in result.stdout


@pytest.mark.parametrize("name", ["demo", "run", "tools", "call", "check", "doctor"])
def test_each_command_has_help_and_json(name: str) -> None:
    """Every command explains itself, and takes ``--json``."""
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_the_version_loads_nothing_heavy(handrail: Run) -> None:
    """``--version`` answers without loading what the commands need."""
    assert handrail("--version").stdout == "handrail 0.1.0\n"
    code = ("import sys, handrail.cli\n"
            "print({'rich', 'pydantic', 'pydantic_ai', 'mcp', 'asyncio'} & set(sys.modules))")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_an_unknown_command_is_wrong_usage(handrail: Run) -> None:
    """A misspelt command exits 2 and shows the nearest one."""
    done = handrail("tols")
    assert done.returncode == 2
    assert "did you mean 'tools'?" in done.stderr


@pytest.mark.parametrize("words", [["run", "shop.py:shop"], ["call", "shop.py:shop", "lookup", "x"], ["call"]])
def test_wrong_usage_exits_2(handrail: Run, shop: Path, words: list[str]) -> None:
    """A missing option, a word that is no pair and a missing argument are wrong usage."""
    done = handrail(*words)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_example_gives_an_order(handrail: Run) -> None:
    """The example's tool prints its order as JSON on stdout, alone and in the envelope of ``--json``."""
    plain = handrail("call", APP, "lookup_order", "order_id=order_1042")
    assert plain.returncode == 0
    assert json.loads(plain.stdout)["status"] == "in transit"
    result = json.loads(handrail("call", APP, "lookup_order", "order_id=order_1042", "--json").stdout)
    assert result["value"]["order_id"] == "order_1042"
    assert (result["is_error"], result["tainted"]) == (False, False)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("order_id=7", "order_id"),
        ("order_idd=order_1042", "did you mean 'order_id'?"),
        ("order_id=order_1", "there is no order order_1"),
    ],
)
def test_a_failed_call_exits_1(handrail: Run, word: str, said: str) -> None:
    """A call that the gate or the tool refuses exits 1, and says which field and what was probably meant."""
    done = handrail("call", APP, "lookup_order", word, "--json")
    assert done.returncode == 1
    assert said in done.stderr
    assert json.loads(done.stdout)["is_error"] is True


def test_an_unknown_tool_exits_1(handrail: Run, shop: Path) -> None:
    """A misspelt tool is a failed call that shows the nearest tool."""
    done = handrail("call", "shop.py:shop", "lokup")
    assert done.returncode == 1
    assert "did you mean 'lookup'?" in done.stderr


def test_stdout_has_the_payload_alone(handrail: Run, shop: Path) -> None:
    """What a tool prints goes to stderr, so that stdout can be read by a program."""
    done = handrail("call", "shop.py:shop", "lookup", "order_id=7", "limit=3")
    assert json.loads(done.stdout) == {"order_id": "7", "limit": 3}
    assert "the tool talks" in done.stderr


@pytest.mark.parametrize("command", ["tools", "check", "call", "run"])
def test_a_missing_target_exits_3(handrail: Run, command: str) -> None:
    """A target that does not load is one line on stderr and exits 3; with ``--json`` stdout says it as well."""
    extra = {"call": ["x"], "run": ["-m", "x"]}.get(command, [])
    done = handrail(command, "nothing.py", *extra, "--json")
    assert done.returncode == 3
    assert done.stderr.startswith("error: there is no file 'nothing.py'")
    assert done.stderr.count("\n") == 1
    payload = json.loads(done.stdout)
    problems = payload["problems"] if command == "check" else payload["error"]["problems"]
    assert problems[0]["code"] == "target"


def test_debug_shows_the_traceback(handrail: Run, write: Write) -> None:
    """``--debug`` shows where a file failed; without it there is no traceback."""
    write("x = 1 / 0")
    assert "Traceback" not in handrail("tools", "app.py").stderr
    assert "x = 1 / 0" in handrail("tools", "app.py", "--debug").stderr


def test_tools_lists_what_can_be_called(handrail: Run, shop: Path) -> None:
    """The list has each tool as a signature; ``--json`` adds its schema and what is known of it."""
    text = handrail("tools", "shop.py:clerk").stdout
    assert text.startswith("refund(order_id: string)\n    Pay an order back.\n    needs approval")
    lookup, review = json.loads(handrail("tools", "shop.py:shop", "--json").stdout)
    assert lookup["parameters"]["required"] == ["order_id"]
    assert (lookup["taints"], lookup["effects"], review["taints"]) == (False, ["read"], True)


def test_check_says_that_all_is_well(handrail: Run, shop: Path) -> None:
    """A target that can run exits 0."""
    done = handrail("check", "shop.py:shop", "--json")
    assert done.returncode == 0
    outcome = json.loads(done.stdout)
    assert (outcome["ok"], outcome["tools"], outcome["problems"]) == (True, ["lookup", "review"], [])


def test_check_lists_every_problem(handrail: Run, write: Write) -> None:
    """Every problem is reported at once: a tool, a server and a model that are missing."""
    write("from handrail import Agent\na = Agent('no-such:model', tools=['lost', {'mcp': 'nowhere'}])")
    done = handrail("check", "app.py")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("error: ") == 3
    assert all(word in done.stderr for word in ("'lost'", "'nowhere'", "no-such"))


def test_run_answers_on_stdout_and_shows_calls_on_stderr(handrail: Run, shop: Path) -> None:
    """The answer is the payload; calls, durations and provenance are beside it."""
    done = handrail("run", "shop.py:shop", "-m", "Where is it?")
    assert done.returncode == 0
    assert done.stdout == "All done\\x1b[31m.\n"
    assert '→ lookup(order_id="7")' in done.stderr
    assert "✓ lookup" in done.stderr
    assert "tainted" in done.stderr


def test_text_from_outside_cannot_steer_the_terminal(handrail: Run, shop: Path) -> None:
    """Control characters of a result are shown as escapes, and its markup is not read, in each form of output."""
    for words in (["run", "shop.py:shop", "-m", "x"], ["call", "shop.py:shop", "review", "order_id=7"]):
        for extra in ([], ["--json"]):
            done = handrail(*words, *extra)
            assert not {"\x1b", "\x9b"} & {*done.stdout, *done.stderr}
            assert "[bold]shelf[/bold]" in done.stdout + done.stderr


def test_run_as_json_is_the_whole_result(handrail: Run, shop: Path) -> None:
    """``--json`` gives the result of the run, with its calls, its labels and its events."""
    result = json.loads(handrail("run", "shop.py:shop", "-m", "x", "--json").stdout)
    assert result["status"] == "completed"
    assert [call["tool"] for call in result["calls"]] == ["lookup", "review"]
    assert result["tainted"] is True
    assert result["events"][0]["type"] == "run_started"


def test_a_failed_run_exits_1_and_keeps_what_there_was(handrail: Run, write: Write) -> None:
    """A run that fails exits 1; its payload has the calls that were made, and the error."""
    write("""
        from handrail import Agent, tool
        from handrail.testing import ScriptedModel

        @tool
        def look() -> str:
            '''Look.'''
            return "seen"

        desk = Agent(ScriptedModel(lambda turn: [("look", {})]), tools=[look], max_steps=2)
    """)
    done = handrail("run", "app.py", "-m", "x", "--json")
    assert done.returncode == 1
    payload = json.loads(done.stdout)
    assert (payload["status"], payload["error"]["code"], len(payload["calls"])) == ("failed", "step_limit", 2)


def test_a_file_of_tools_runs_with_a_model(handrail: Run, write: Write) -> None:
    """Tools without an agent need a model, and say so before anything runs."""
    write("from handrail import tool\n@tool\ndef look() -> str:\n    '''Look.'''\n    return 'seen'")
    done = handrail("run", "app.py", "-m", "x")
    assert done.returncode == 3
    assert "--model" in done.stderr


@pytest.mark.parametrize(
    "words", [["call", "shop.py:clerk", "refund", "order_id=7"], ["run", "shop.py:clerk", "-m", "x"]]
)
def test_approval_without_a_terminal(handrail: Run, shop: Path, words: list[str]) -> None:
    """A call that needs approval does not run where nobody can be asked, and exits 4; ``--yes`` approves it."""
    refused = handrail(*words)
    assert refused.returncode == 4
    assert "--yes" in refused.stderr
    assert "refunded" not in refused.stdout + refused.stderr
    approved = handrail(*words, "--yes")
    assert approved.returncode == 0
    assert "refunded 7" in approved.stdout + approved.stderr


@pytest.mark.parametrize(("key", "code"), [("y\n", 0), ("n\n", 4), ("\n", 4), ("\x04", 4), ("\x03", 130)])
def test_approval_at_a_terminal(shop: Path, key: str, code: int) -> None:
    """At a terminal the person sees the exact arguments and decides; all but a yes refuses, and Ctrl-C ends it."""
    asked, returned = _at_terminal(["call", f"{shop}:clerk", "refund", "order_id=7"], key)
    assert 'order_id = "7"' in asked
    assert returned == code


def test_ctrl_c_exits_130(write: Write) -> None:
    """Ctrl-C in the middle of a call ends it at once, without a traceback."""
    path = write("""
        import asyncio, sys
        from handrail import tool

        @tool
        async def wait() -> None:
            '''Wait for ever.'''
            print("waiting", flush=True)
            await asyncio.Event().wait()
    """)
    child = subprocess.Popen(
        [HANDRAIL, "call", path, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    assert child.stderr.readline() == "waiting\n"
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in rest


def test_a_reader_that_leaves_early_is_no_error(shop: Path) -> None:
    """A pipe that is closed before the payload was written ends the command without a word."""
    read, write_end = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [HANDRAIL, "tools", f"{shop}:shop", "--json"], stdout=write_end, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(write_end)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize(("words", "variables"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_colours_can_be_switched_off(shop: Path, words: list[str], variables: dict[str, str]) -> None:
    """At a terminal there are colours, unless ``--no-color`` or NO_COLOR says otherwise."""
    command = ["call", f"{shop}:shop", "lookup", "order_id=7"]
    assert "\x1b[32m" in _at_terminal(command, "")[0]
    assert "\x1b[32m" not in _at_terminal([*command, *words], "", variables)[0]


def test_doctor_shows_no_secrets(tmp_path: Path) -> None:
    """The doctor names the variables that hold keys, and never shows a value."""
    environment = {**os.environ, "OPENAI_API_KEY": "very-secret"}
    for words in ([], ["--json"]):
        done = subprocess.run([HANDRAIL, "doctor", *words], capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == 0
        assert "OPENAI_API_KEY" in done.stdout
        assert "very-secret" not in done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["stdio"]["python_child"]["ok"] is True
    assert report["providers"]["openai"]["set"] == ["OPENAI_API_KEY"]


def test_clean_keeps_what_is_harmless() -> None:
    """Letters of any script, tabs and line ends stay; what steers a terminal becomes visible."""
    assert clean("naïve 東京 🚚\tx\n") == "naïve 東京 🚚\tx\n"
    assert clean("\x1b[2J\r\x07\x9b\u202e\udc80") == "\\x1b[2J\\x0d\\x07\\x9b\\u202e\\udc80"


def _at_terminal(words: list[str], key: str, variables: dict[str, str] | None = None) -> tuple[str, int]:
    """Run a command at a terminal of its own, and press a key once it asks."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment = {**inherited, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(variables or {})}
    main, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, HANDRAIL, *words], stdin=terminal, stdout=terminal, stderr=terminal,
        env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    seen = b""
    pressed = not key
    try:
        while data := _read(main):
            seen += data
            if not pressed and b"[y/N]" in seen:
                os.write(main, key.encode())
                pressed = True
        return seen.decode(), child.wait(timeout=30)
    finally:
        os.close(main)


_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal the one that Ctrl-C comes from."""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
