"""The demo as a newcomer runs it: the real embedded model, real tools, and a real MCP server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from handrail.cli import cli
from handrail.local import files
from handrail.local.engine import available

HANDRAIL = Path(sys.executable).with_name("handrail")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("mcp_server_time") is None, reason="mcp-server-time is not installed"),
]
with_model = pytest.mark.skipif(available() is not None, reason=str(available()))

Calls = list[tuple[str, dict[str, Any]]]

EXPECTED: list[Calls] = [
    [("lookup_order", {"order_id": "order_1042"})],
    [("get_current_time", {"timezone": "Asia/Tokyo"})],
    [("lookup_order", {"order_id": "order_1043"}), ("get_current_time", {"timezone": "America/New_York"})],
]


@with_model
def test_the_demo_calls_the_tools_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Three questions are answered by the tools that they need; the clock's text is tainted; no process stays."""
    done = _demo(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    payload = json.loads(done.stdout)
    assert (payload["ok"], payload["model"]) == (True, "local")
    assert [_calls(answer) for answer in payload["questions"]] == EXPECTED
    assert [answer["tainted"] for answer in payload["questions"]] == [False, True, True]
    assert "walnut shelf" in payload["questions"][0]["answer"]
    assert "not a chat model" in done.stderr
    assert "✓ get_current_time" in done.stderr
    assert _left_over(tmp_path) == []


@with_model
def test_the_demo_takes_a_question(tmp_path: Path) -> None:
    """``-m`` asks the user's own question, and the answer's provenance is shown."""
    done = _demo(tmp_path, "-m", "What is the refund policy?")
    assert done.returncode == 0, done.stderr
    assert "30 days" in done.stdout
    assert "get_refund_policy" in done.stdout
    assert _left_over(tmp_path) == []


def test_without_the_model_a_script_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the embedded model has no engine the demo says so, and goes on with the same real tools."""
    monkeypatch.setattr(files, "LIBRARIES", {})
    result = CliRunner().invoke(cli, ["demo", "--json"])
    assert result.exit_code == 0, result.stderr
    assert "there is no engine for" in result.stderr
    assert "A script stands in" in result.stderr
    payload = json.loads(result.stdout)
    assert payload["model"] == "scripted"
    assert [_calls(answer) for answer in payload["questions"]] == EXPECTED
    assert payload["questions"][1]["calls"][0]["server"] == "time"


def test_a_script_answers_no_question_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a model, the user's own question is refused with what would answer it."""
    monkeypatch.setattr(files, "LIBRARIES", {})
    result = CliRunner().invoke(cli, ["demo", "-m", "Where is order_1038?"])
    assert result.exit_code == 3
    assert "--model" in result.stderr


def _demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the demo. Its processes inherit a TMPDIR by which they can be found."""
    return subprocess.run(
        [HANDRAIL, "demo", *words], capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)}, timeout=300,
    )  # fmt: skip


def _calls(answer: dict[str, Any]) -> Calls:
    assert not any(call["is_error"] for call in answer["calls"])
    return [(call["tool"], call["arguments"]) for call in answer["calls"]]


def _left_over(folder: Path) -> list[str]:
    """The processes that still run with this TMPDIR, where the system shows them."""
    found: list[str] = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}".encode() in environ.read_bytes().split(b"\0"):
                found.append((environ.parent / "cmdline").read_text("utf-8", "replace"))
        except OSError:
            continue
    return found
