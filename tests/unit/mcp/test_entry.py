"""What an entry accepts, what it refuses, and what it never shows."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from handrail.errors import MCPConnectError, MCPEntryError
from handrail.mcp import entry as entry_module
from handrail.mcp.entry import HTTPTransport, MCPServerEntry, StdioTransport, allow_commands, check_literal_url
from handrail.mcp.launch import child_environment, resolve_command, resolve_secrets

STDIO: dict[str, Any] = {"type": "stdio", "command": "python", "args": ["-m", "server"]}
HTTP: dict[str, Any] = {"type": "http", "url": "https://example.com/mcp"}
CANARY = "canary-7f3a"


def make(**fields: Any) -> MCPServerEntry:
    return MCPServerEntry(**({"id": "time", "transport": STDIO} | fields))


def refused(**fields: Any) -> MCPEntryError:
    with pytest.raises(MCPEntryError) as caught:
        make(**fields)
    return caught.value


def test_defaults() -> None:
    """An entry with nothing but an id and a transport has the documented defaults."""
    entry = make()
    assert entry.name == "time"
    assert (entry.timeout_ms, entry.tool_timeout_ms, entry.max_concurrent_calls) == (30_000, None, None)
    assert (entry.max_retries, entry.allowed_agents, entry.description) == (2, None, None)


def test_both_casings() -> None:
    """Snake case and camel case say the same, at every level."""
    camel = MCPServerEntry.parse(
        {"id": "time", "transport": STDIO, "allowedAgents": ["a"], "toolTimeoutMs": 5, "maxConcurrentCalls": 2}
    )
    assert camel == make(allowed_agents=["a"], tool_timeout_ms=5, max_concurrent_calls=2)


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"alowed_agents": []}, "entry", "did you mean 'allowed_agents'?"),
        ({"timeoutMS": 5}, "entry", "did you mean 'timeout_ms'?"),
        ({"transport": STDIO | {"comand": "node"}}, "transport", "did you mean 'command'?"),
        ({"timeout_ms": 1, "timeoutMs": 2}, "entry", "keep one casing"),
        ({"id": "has space"}, "id", None),
        ({"id": "x" * 65}, "id", None),
        ({"id": "time\n"}, "id", None),
        ({"timeout_ms": 0}, "timeout_ms", None),
        ({"timeout_ms": 3_600_001}, "timeout_ms", None),
        ({"timeout_ms": True}, "timeout_ms", None),
        ({"timeout_ms": "5"}, "timeout_ms", None),
        ({"tool_timeout_ms": 0}, "tool_timeout_ms", None),
        ({"max_concurrent_calls": 0}, "max_concurrent_calls", None),
        ({"max_retries": 11}, "max_retries", None),
        ({"max_retries": -1}, "max_retries", None),
        ({"allowed_agents": "agent"}, "allowed_agents", None),
        ({"transport": {"command": "python"}}, "transport", "stdio, http or sse"),
        ({"transport": {"type": "ftp"}}, "transport", None),
        ({"transport": STDIO | {"command": "/bin/sh"}}, "transport.command", "bare name"),
        ({"transport": STDIO | {"command": "bash"}}, "transport.command", "allowed: node, npx"),
        ({"transport": STDIO | {"command": "pyhton"}}, "transport.command", "did you mean 'python'?"),
        ({"transport": STDIO | {"args": ["a\0b"]}}, "transport.args", None),
        ({"transport": STDIO | {"args": "-m server"}}, "transport.args", None),
        ({"transport": STDIO | {"cwd": ""}}, "transport.cwd", None),
        ({"transport": STDIO | {"env": {"LD_PRELOAD": "x"}}}, "transport.env", "remove"),
        ({"transport": STDIO | {"env": {"dyld_insert_libraries": "x"}}}, "transport.env", "remove"),
        ({"transport": STDIO | {"env": {"A B": "x"}}}, "transport.env", None),
        ({"transport": STDIO | {"env": {"A": "${file:x}"}}}, "transport.env.A", "${env:NAME}"),
        ({"transport": STDIO | {"env": {"A": "**********"}}}, "transport.env.A", None),
        ({"transport": HTTP | {"headers": {"A": "x\ny"}}}, "transport.headers.A", None),
        ({"transport": HTTP | {"headers": {"A:": "x"}}}, "transport.headers", None),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], field: str, hint: str | None) -> None:
    """Each refusal names the field, and where there is something to do about it, what."""
    error = refused(**fields)
    assert error.context["field"] == field
    assert hint is None or (error.hint is not None and hint in error.hint)


def test_all_faults_at_once() -> None:
    """An entry with several faults is refused once, naming all of them and the values that are not secret."""
    error = refused(timeout_ms=0, max_retries=99)
    assert error.context["fields"] == ("timeout_ms", "max_retries")
    assert "timeout_ms 0" in error.message
    assert "max_retries 99" in error.message


def test_empty_list_means_nobody() -> None:
    """None lets everyone in, an empty list nobody, and a list exactly those on it."""
    assert make().allows(None)
    assert make().allows("anyone")
    assert not make(allowed_agents=[]).allows("anyone")
    assert make(allowed_agents=["a"]).allows("a")
    assert not make(allowed_agents=["a"]).allows("A")
    assert not make(allowed_agents=["a"]).allows(None)


def test_entries_are_frozen_values() -> None:
    """An entry cannot be changed, and equal fields make equal entries."""
    with pytest.raises(ValueError, match="frozen"):
        make().name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert make() == make()
    assert make() != make(name="other")


@pytest.mark.parametrize(
    "transport",
    [
        STDIO | {"env": {"TOKEN": CANARY}},
        {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": CANARY}},
        {"type": "sse", "url": "https://example.com/sse", "headers": {"Authorization": CANARY}},
    ],
)
def test_secret_values_are_never_shown(transport: dict[str, Any]) -> None:
    """No representation of an entry holds a secret value, except the one for a registry's own storage."""
    entry = make(transport=transport)
    assert CANARY not in repr(entry) + str(entry) + str(entry.model_dump()) + entry.model_dump_json()
    assert CANARY in json.dumps(entry.reveal())
    assert MCPServerEntry.parse(entry.reveal()) == entry


@pytest.mark.parametrize(
    "fields",
    [
        {"transport": STDIO | {"env": {"TOKEN": f"{CANARY}\0"}}},
        {"transport": STDIO | {"env": [CANARY]}},
        {"transport": STDIO | {"env": {"TOKEN": 7, "B": CANARY}}},
        {"transport": {"command": "python", "env": {"TOKEN": CANARY}}},
        {"transport": STDIO | {"args": [f"--token={CANARY}", 7]}},
        {"transport": {"type": "http", "url": f"https://user:{CANARY}@example.com/"}},
        {"transport": {"type": "http", "url": f"ftp://example.com/?key={CANARY}"}},
    ],
)
def test_secret_values_are_not_in_errors(fields: dict[str, Any]) -> None:
    """A refusal never repeats a secret value, not even in the errors behind it."""
    error = refused(**fields)
    shown = "".join(traceback.format_exception(error, chain=True, limit=0))
    assert CANARY not in shown + repr(error.context) + str(error)
    assert error.__context__ is None


def test_references_survive_json() -> None:
    """A value that is only a reference is not secret, and comes back from JSON as it was."""
    entry = make(transport=STDIO | {"env": {"TOKEN": "${env:TOKEN}"}})
    assert MCPServerEntry.parse(json.loads(entry.model_dump_json())) == entry


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/x", "http://a.localhost", "http://LOCALHOST.", "http://127.0.0.1", "http://127.1",
        "http://2130706433", "http://0x7f.1", "http://0177.0.0.1", "http://0", "http://10.0.0.1",
        "http://172.16.0.1", "http://192.168.0.1", "http://169.254.169.254/latest", "http://100.64.0.1",
        "http://224.0.0.1", "http://[::1]/", "http://[::]/", "http://[fe80::1]/", "http://[fc00::1]/",
        "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/", "http://metadata.google.internal/", "http://[ff02::1]/",
    ],
)  # fmt: skip
def test_private_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A literal address that is not public is refused in every spelling, unless private addresses are allowed."""
    monkeypatch.delenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", raising=False)
    error = refused(transport={"type": "http", "url": url})
    assert error.context["field"] == "transport.url"
    assert "HANDRAIL_ALLOW_PRIVATE_MCP_URLS" in str(error.hint)
    monkeypatch.setenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", "true")
    check_literal_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/mcp", "http://8.8.8.8:8080/", "https://10.example.com", "https://127.0.0.1.example.com",
        "https://localhost.example.com", "https://[2606:4700::1111]/", "https://metadata.example.com",
    ],
)  # fmt: skip
def test_public_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public host is never refused for what its name looks like."""
    monkeypatch.delenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", raising=False)
    check_literal_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com", "file:///etc/passwd", "example.com", "https://", "https://u:p@example.com",
        "https://u@example.com", "https://exa mple.com", "https://example.com\n", "https://example.com:0/",
        "https://example.com:99999/", "https://[::1", "https://a..b\\c/", "javascript:alert(1)", "",
    ],
)  # fmt: skip
def test_malformed_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Malformed addresses are refused even where private ones are allowed."""
    monkeypatch.setenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", "true")
    with pytest.raises(ValueError):
        check_literal_url(url)


def test_stdio_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MCP_STDIO_DISABLED=true no stdio entry passes, and one that passed before cannot start."""
    entry = make()
    monkeypatch.setenv("MCP_STDIO_DISABLED", "true")
    assert "MCP_STDIO_DISABLED" in refused().message
    assert "MCP_STDIO_DISABLED" in refused(transport=entry.transport).message
    with pytest.raises(ValueError, match="MCP_STDIO_DISABLED"):
        StdioTransport(command="python")
    with pytest.raises(MCPEntryError):
        entry.checked_copy()
    with pytest.raises(MCPConnectError, match="MCP_STDIO_DISABLED"):
        resolve_command("python", server="time")
    make(transport={"type": "http", "url": "https://example.com/"})


def test_commands_are_extended_by_code_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trusted code may allow another bare command; a path never."""
    monkeypatch.setattr(entry_module, "_extra_commands", set[str]())
    allow_commands("docker")
    transport = make(transport=STDIO | {"command": "docker"}).transport
    assert isinstance(transport, StdioTransport)
    for bad in ("/bin/sh", "", " docker", "a\\b"):
        with pytest.raises(ValueError):
            allow_commands(bad)


def test_python_means_the_running_environment(tmp_path: Path) -> None:
    """``python`` is found beside the running interpreter, whatever the PATH says; other commands on the PATH."""
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "node").write_text("#!/bin/sh\n")
    (tmp_path / "node").chmod(0o755)
    found = resolve_command("python", server="s", path=str(tmp_path))
    assert Path(found) == Path(sys.executable).parent / "python"
    assert resolve_command("node", server="s", path=str(tmp_path)) == str(tmp_path / "node")
    with pytest.raises(MCPConnectError, match="uvx"):
        resolve_command("uvx", server="s", path=str(tmp_path))


def test_references_are_resolved_late() -> None:
    """A reference takes the variable's value of the moment; one that is not set names the field, not a value."""
    values = {"A": SecretStr("Bearer ${env:TOKEN}"), "B": SecretStr("plain")}
    resolved = resolve_secrets(values, server="s", field="headers", environ={"TOKEN": "t"})
    assert resolved == {"A": "Bearer t", "B": "plain"}
    with pytest.raises(MCPConnectError, match=r"headers\.A refers to the variable TOKEN"):
        resolve_secrets(values, server="s", field="headers", environ={})
    with pytest.raises(MCPConnectError, match="line break"):
        resolve_secrets(values, server="s", field="headers", environ={"TOKEN": "a\nb"})


def test_child_environment_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child inherits what it needs to run and to reach the network, and nothing else."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca.pem")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("UV_INDEX_URL", "https://example.com")
    monkeypatch.setenv("TERM", "() { :; }")
    transport = StdioTransport.model_validate(STDIO | {"env": {"OWN": "${env:OPENAI_API_KEY}", "PLAIN": "x"}})
    env, secrets = child_environment(transport, server="s")
    assert env["OWN"] == CANARY
    assert "OPENAI_API_KEY" not in env
    assert "TERM" not in env
    assert {"SSL_CERT_FILE", "LC_ALL", "UV_INDEX_URL", "PATH"} <= env.keys()
    assert CANARY in secrets


def test_parse_takes_entries_and_mappings_only() -> None:
    """What is no mapping is refused as an entry, with its kind."""
    with pytest.raises(MCPEntryError, match="not list"):
        MCPServerEntry.parse([])  # pyright: ignore[reportArgumentType]
    with pytest.raises(MCPEntryError):
        MCPServerEntry.parse({7: 8})  # pyright: ignore[reportArgumentType]


def test_http_transport_on_its_own() -> None:
    """A transport can be built as a value and put into an entry."""
    transport = HTTPTransport(url="https://example.com/mcp")
    assert make(transport=transport).transport == transport


def test_the_sdk_is_not_loaded() -> None:
    """Entries, registries and managers can be imported without loading the SDK or an HTTP client."""
    code = (
        "import sys, handrail.mcp.entry, handrail.mcp.registry, handrail.mcp.manager, handrail.mcp\n"
        "handrail.mcp.MCPConnectionManager\n"
        "print([m for m in ('mcp', 'mcp_types', 'httpx2', 'starlette') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
