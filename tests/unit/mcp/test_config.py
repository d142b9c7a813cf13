"""Server lists of other programs: every flavour in, one flavour out, and nothing that the caller did not allow."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import MCPEntryError
from handrail.mcp.config import Flavor, LoadedConfig, dump_mcp_config, load_mcp_config, strip_jsonc
from handrail.mcp.entry import MCPServerEntry
from handrail.naming import is_name

CANARY = "canary-5c0e"
TIME: dict[str, Any] = {"command": "uvx", "args": ["mcp-server-time"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def write(project: Path, data: object, name: str = ".mcp.json") -> Path:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def load(project: Path, server: object, **options: Any) -> LoadedConfig:
    """Load a project's ``.mcp.json`` that holds one server."""
    return load_mcp_config(write(project, {"mcpServers": {"one": server}}), **options)


def transport(loaded: LoadedConfig, number: int = 0) -> dict[str, Any]:
    """What the loader made of a server, with its secrets."""
    assert loaded.problems == ()
    return loaded.entries[number].reveal()["transport"]


def problem(loaded: LoadedConfig) -> str:
    assert loaded.entries == ()
    (only,) = loaded.problems
    assert (only.where, only.severity) == ("one", "error")
    return str(only)


# ---- flavours

VSCODE = """\ufeff{
  // Servers of this project.
  "inputs": [
    { "type": "promptString", "id": "token", "description": "API token", "password": true },
    { "type": "pickString", "id": "zone", "options": ["UTC", "CET"], "default": "UTC", },
  ],
  "servers": {
    "github": {
      "type": "http",
      "url": "https://api.example.com/mcp", /* not a comment: // */
      "headers": { "Authorization": "Bearer ${input:token}" },
    },
    "time": {
      "command": "uvx",
      "args": ["mcp-server-time", "--local-timezone=${input:zone}", "${workspaceFolder}${/}data"],
      "env": { "HOME_DIR": "${userHome}", "NAME": "${workspaceFolderBasename}" },
      "dev": { "watch": "src/**" },
    },
  },
}
"""


def test_vscode(project: Path) -> None:
    """VS Code: ``servers``, comments, trailing commas, inputs and the places of a workspace."""
    path = write(project, VSCODE, ".vscode/mcp.json")
    loaded = load_mcp_config(path, inputs={"token": CANARY}).check()
    assert [entry.id for entry in loaded.entries] == ["github", "time"]
    remote, local = transport(loaded, 0), transport(loaded, 1)
    assert remote["headers"] == {"Authorization": f"Bearer {CANARY}"}
    assert local["args"] == ["mcp-server-time", "--local-timezone=UTC", f"{project}/data"]
    assert local["env"] == {"HOME_DIR": str(Path.home()), "NAME": "shop"}
    assert [note for note in loaded.notes if "dev was ignored" in note]
    assert CANARY not in repr(loaded)


def test_vscode_settings(project: Path) -> None:
    """VS Code's ``settings.json`` holds the same table under ``mcp``, or as ``mcp.servers``."""
    nested = {"editor.tabSize": 2, "mcp": {"inputs": [{"id": "a", "default": "x"}], "servers": {"one": TIME}}}
    for data in (nested, {"mcp.servers": {"one": TIME}}):
        loaded = load_mcp_config(write(project, data, "settings.json"))
        assert transport(loaded)["command"] == "uvx"


def test_claude_desktop(project: Path) -> None:
    """Claude Desktop: command, args and env."""
    data = {"globalShortcut": "", "mcpServers": {"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}}}
    loaded = load_mcp_config(write(project, data, "claude_desktop_config.json"))
    assert transport(loaded) == {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "cwd": None}
    assert loaded.notes == ()


def test_claude_code(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claude Code: types, variables with a default in every field, a time limit in milliseconds, no helper commands."""
    monkeypatch.setenv("SHOP_KEY", CANARY)
    server = {
        "type": "http",
        "url": "${SHOP_URL:-https://shop.example.com}/mcp",
        "headers": {"X-Key": "${SHOP_KEY}"},
        "headersHelper": "/opt/get-headers.sh",
        "timeout": 1500,
    }
    loaded = load(project, server, allow=["SHOP_KEY"])
    assert transport(loaded)["url"] == "https://shop.example.com/mcp"
    assert transport(loaded)["headers"] == {"X-Key": "${env:SHOP_KEY}"}
    assert loaded.entries[0].tool_timeout_ms == 1500
    assert [note for note in loaded.notes if "headersHelper was ignored" in note]


def test_claude_code_for_one_project(tmp_path: Path) -> None:
    """The user's own file of Claude Code also holds servers of single projects, which count for that workspace."""
    data = {"mcpServers": {"one": TIME}, "projects": {"/srv/shop": {"mcpServers": {"two": TIME}}}}
    path = write(tmp_path, data, ".claude.json")
    assert [entry.id for entry in load_mcp_config(path).entries] == ["one"]
    assert [entry.id for entry in load_mcp_config(path, workspace="/srv/shop").entries] == ["one", "two"]
    assert load_mcp_config(write(tmp_path, {"projects": {}}, ".claude.json")).entries == ()


def test_cursor(project: Path) -> None:
    """Cursor: the transport is inferred, ``env:`` names a variable, and a file of variables is read."""
    write(
        project, f"# keys\nexport TOKEN='{CANARY}'\nPLAIN=a b # why\nQUOTED=\"x # y\"\n\nnot a line\nA=file\n", ".env"
    )
    servers = {
        "local": TIME | {"envFile": "${workspaceFolder}/.env", "env": {"A": "${env:A}"}},
        "remote": {"url": "https://example.com/sse/", "headers": {"X": "${env:A}"}, "auth": {"CLIENT_ID": "x"}},
    }
    path = write(project, {"mcpServers": servers}, ".cursor/mcp.json")
    loaded = load_mcp_config(path, env={"A": "explicit"})
    assert transport(loaded)["env"] == {"TOKEN": CANARY, "PLAIN": "a b", "QUOTED": "x # y", "A": "explicit"}
    assert transport(loaded, 1) == {"type": "sse", "url": "https://example.com/sse/", "headers": {"X": "explicit"}}
    assert [note for note in loaded.notes if "'auth' was ignored" in note]
    assert CANARY not in repr(loaded)


def test_copilot(project: Path) -> None:
    """Copilot: ``local`` is a child process, and its list of tools becomes a note."""
    servers = {"a": TIME | {"type": "local", "tools": ["x"]}, "b": {"type": "sse", "url": "https://example.com/"}}
    loaded = load_mcp_config(write(project, {"mcpServers": servers}, ".copilot/mcp-config.json"))
    assert [transport(loaded, number)["type"] for number in (0, 1)] == ["stdio", "sse"]
    assert [note for note in loaded.notes if "only=[...]" in note]


def test_gemini(project: Path) -> None:
    """Gemini: ``httpUrl`` is HTTP and ``url`` is SSE, variables need no braces, limits are in milliseconds."""
    servers = {
        "a": TIME | {"cwd": "./data", "env": {"K": "$KEY", "L": "${KEY}!"}, "timeout": 30_000, "trust": True},
        "b": {"httpUrl": "https://example.com/mcp", "includeTools": ["x"], "excludeTools": ["y"]},
        "c": {"url": "https://example.com/mcp"},
    }
    loaded = load_mcp_config(write(project, {"mcpServers": servers}, ".gemini/settings.json"), env={"KEY": "k"})
    assert [entry.reveal()["transport"]["type"] for entry in loaded.entries] == ["stdio", "http", "sse"]
    assert transport(loaded)["env"] == {"K": "k", "L": "k!"}
    assert transport(loaded)["cwd"] == "./data"
    assert loaded.entries[0].tool_timeout_ms == 30_000
    assert [note.split(" was ")[0] for note in loaded.notes] == [
        "server 'a': trust",
        "server 'b': includeTools",
        "server 'b': excludeTools",
    ]


def test_cline_and_roo(project: Path) -> None:
    """Cline and Roo: limits in seconds, approvals ignored with a note, disabled servers left out with a note."""
    servers = {
        "a": {"type": "streamableHttp", "url": "https://example.com/mcp", "timeout": 60, "autoApprove": ["x"]},
        "b": TIME | {"disabled": True, "command": "anything"},
        "c": TIME | {"disabled": False, "alwaysAllow": ["x"], "timeout": 0.5},
        "d": {"type": "streamable-http", "url": "https://example.com/sse"},
    }
    for name in ("cline_mcp_settings.json", ".roo/mcp.json"):
        loaded = load_mcp_config(write(project, {"mcpServers": servers}, name))
        assert [entry.id for entry in loaded.entries] == ["a", "c", "d"]
        assert [entry.tool_timeout_ms for entry in loaded.entries] == [60_000, 500, None]
        assert [transport(loaded, number)["type"] for number in range(3)] == ["http", "stdio", "http"]
        assert len(loaded.notes) == 3
        assert [note for note in loaded.notes if note == "server 'b': is disabled in the file, and was not loaded"]


def test_windsurf(project: Path) -> None:
    """Windsurf: ``serverUrl``, whose end tells SSE from HTTP."""
    servers = {"a": {"serverUrl": "https://example.com/mcp"}, "b": {"serverUrl": "https://example.com/sse?x=/mcp"}}
    loaded = load_mcp_config(write(project, {"mcpServers": servers}, "mcp_config.json"))
    assert [transport(loaded, number)["type"] for number in (0, 1)] == ["http", "sse"]


@pytest.mark.parametrize(("flavor", "limit"), [("gemini", 20), ("cline", 20_000), ("auto", None), ("windsurf", None)])
def test_a_flavor_that_is_given(project: Path, flavor: Flavor, limit: int | None) -> None:
    """The flavour that is given counts; where none is known, a limit without a unit is left out with a note."""
    path = write(project, {"mcpServers": {"one": TIME | {"timeout": 20}}}, "servers.json")
    loaded = load_mcp_config(path, flavor=flavor)
    assert loaded.entries[0].tool_timeout_ms == limit
    assert bool(loaded.notes) is (limit is None)


# ---- variables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${NOT_ALLOWED}", "which this file may not read (pass allow=['NOT_ALLOWED']"),
        ("a ${env:NOT_ALLOWED} b", "which this file may not read"),
        ("${UNSET}", "the variable UNSET, which is not set"),
        ("${env:UNSET}", "the variable UNSET, which is not set"),
        ("${}", "has no meaning here"),
        ("${command:x}", "has no meaning here"),
        ("${workspaceFolder:api}", "has no meaning here"),
        ("${UNSET-default}", "has no meaning here"),
        ("${input:nope}", "refers to the input 'nope'"),
        ("${OPEN", "not closed"),
        ("${A:-${NOT_ALLOWED}}", "inside of another"),
        ("${A:-$}{env:NOT_ALLOWED}", "put together"),
        ("$${A:-{}env:NOT_ALLOWED}", "not closed"),
        ("${ALIAS}", "put together"),
    ],
)
@pytest.mark.parametrize("field", ["env.K", "headers.K"])
def test_a_variable_that_cannot_be_used(
    project: Path, monkeypatch: pytest.MonkeyPatch, field: str, text: str, said: str
) -> None:
    """Anything but an allowed variable that is set is an error with file, server and field; no trick gets round it."""
    monkeypatch.setenv("NOT_ALLOWED", CANARY)
    monkeypatch.delenv("UNSET", raising=False)
    secret = {"K": text}
    server = TIME | {"env": secret} if field == "env.K" else {"url": "https://example.com/", "headers": secret}
    loaded = load(project, server, allow=["UNSET"], env={"ALIAS": "${env:NOT_ALLOWED}"})
    told = problem(loaded)
    assert f"{project}/.mcp.json: server 'one': {field} " in told
    assert said in told
    assert CANARY not in told


@pytest.mark.parametrize("field", ["command", "args.0", "cwd", "url"])
def test_variables_where_nothing_is_secret(project: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """Fields that are not secret take the value of an allowed variable, with a note; an error does not show it."""
    monkeypatch.setenv("PART", CANARY)
    server: dict[str, Any] = {"command": "node", "args": ["x"]}
    if field == "url":
        server = {"url": "https://example.com/${PART}/mcp"}
    else:
        server |= {"args": ["${PART}"]} if field == "args.0" else {field: "${PART}"}
    assert f"{field} refers to the variable PART" in problem(load(project, server))
    loaded = load(project, server, allow=["PART"])
    if field == "command":
        assert CANARY not in problem(loaded)
    else:
        assert CANARY in json.dumps(transport(loaded))
    assert [note for note in loaded.notes if f"the value of PART stands in {field}" in note]
    if field == "url":
        server["url"] = "http://localhost/${PART}/mcp"
        refused = problem(load(project, server, allow=["PART"]))
        assert CANARY not in refused
        assert "/${PART}/mcp" in refused


def test_a_secret_of_this_process_stays_a_reference(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that this process has is not copied into the entry; a value that only the caller has is."""
    monkeypatch.setenv("MINE", CANARY)
    server = TIME | {"env": {"A": "Bearer ${MINE}", "B": "${MINE:-no}", "C": "${env:OTHER}", "D": "${MINE}${MINE}"}}
    for options in ({"allow": ["MINE"], "env": {"OTHER": "o"}}, {"env": {"MINE": CANARY, "OTHER": "o"}}):
        assert transport(load(project, server, **options))["env"] == {
            "A": "Bearer ${env:MINE}",
            "B": "${env:MINE}",
            "C": "o",
            "D": "${env:MINE}${env:MINE}",
        }


def test_a_default_in_place_of_what_may_not_be_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A default is taken where the variable is not set or may not be read; the second is noted. Empty is a value."""
    monkeypatch.setenv("SET", CANARY)
    monkeypatch.setenv("EMPTY", "")
    loaded = load(project, TIME | {"args": ["${SET:-a}", "${NOT_SET:-}", "${EMPTY:-c}"]}, allow=["EMPTY", "NOT_SET"])
    assert transport(loaded)["args"] == ["a", "", ""]
    assert [note for note in loaded.notes if "may not read SET" in note]


def test_a_dollar_is_a_dollar(project: Path) -> None:
    """Outside of Gemini's files, a bare ``$NAME`` is text, as in a password."""
    assert transport(load(project, TIME | {"env": {"P": "pa$WORD$"}}))["env"] == {"P": "pa$WORD$"}


def test_inputs_are_never_run(project: Path) -> None:
    """An input that would run a command is not run, and one without an answer is an error that says what to pass."""
    data = {
        "inputs": [{"id": "c", "type": "command", "command": "x", "default": "d"}, {"id": "p", "password": True}],
        "servers": {"one": TIME | {"args": ["${input:c}", "${input:p}"]}},
    }
    path = write(project, data, ".vscode/mcp.json")
    assert "inputs={'c': ...}" in problem(load_mcp_config(path))
    assert "inputs={'p': ...}" in problem(load_mcp_config(path, inputs={"c": "x"}))
    loaded = load_mcp_config(path, inputs={"c": "x", "p": "y"})
    assert transport(loaded)["args"] == ["x", "y"]
    assert [note for note in loaded.notes if "is a password" in note]


@pytest.mark.parametrize("where", ["../outside.env", "/etc/passwd", "${userHome}/.aws/credentials", "link/outside.env"])
def test_a_file_of_variables_stays_in_the_workspace(project: Path, where: str) -> None:
    """A file of variables outside of the workspace is not read, whether by its path or by a link."""
    write(project.parent, f"K={CANARY}", "outside.env")
    (project / "link").symlink_to(project.parent)
    assert "outside of the workspace" in problem(load(project, TIME | {"envFile": where}))


def test_no_workspace(tmp_path: Path) -> None:
    """Where the file lies in no project, a place of the workspace is an error; one that is given is used."""
    path = write(tmp_path, {"mcpServers": {"one": TIME | {"cwd": "${workspaceFolder}"}}}, "servers.json")
    assert "pass workspace=" in problem(load_mcp_config(path))
    assert transport(load_mcp_config(path, workspace="/srv/shop"))["cwd"] == "/srv/shop"


# ---- what is refused


REFUSED: list[tuple[Any, str]] = [
    (TIME | {"command": "docker"}, "if you trust the program 'docker'"),
    (TIME | {"command": "/usr/bin/python3"}, "write its bare name"),
    (TIME | {"command": "C:\\nodejs\\npx.cmd"}, "'npx.cmd'"),
    (TIME | {"command": "cmd", "args": ["/c", "npx"]}, "there is no shell here"),
    (TIME | {"env": {"LD_PRELOAD": CANARY}}, "changes what code the child loads"),
    ({"url": "http://127.0.0.1:8000/"}, "not a public address"),
    ({"url": "ftp://example.com/"}, "scheme 'ftp'"),
    ({"type": "ws", "url": "wss://example.com"}, "type 'ws' is not supported"),
    ({"type": "stdio", "url": "https://example.com"}, "does not go with url"),
    ({"type": 7, "url": "https://example.com"}, "type is not a text"),
    (TIME | {"url": "https://example.com"}, "has command and url"),
    ({}, "neither command nor url"),
    ({"comand": "node"}, "neither command nor url"),
    ([], "is not an object"),
    (TIME | {"args": "x"}, "args is not a list"),
    (TIME | {"args": [1]}, "args.0 is not a text"),
    (TIME | {"env": ["A=1"]}, "env is not an object"),
    (TIME | {"env": {"PORT": 1}}, "env.PORT is not a text"),
    (TIME | {"timeout": "60"}, "timeout is not a number"),
    (TIME | {"timeout": True}, "timeout is not a number"),
    (TIME | {"timeout": 0}, "timeout 0 is not more than 0"),
    (TIME | {"handrail": {"alowedAgents": []}}, "did you mean 'allowed_agents'?"),
    (TIME | {"handrail": {"transport": {}}}, "handrail.transport cannot be set there"),
    (TIME | {"envFile": ".env"}, "envFile cannot be read"),
]


@pytest.mark.parametrize(("server", "said"), REFUSED)
def test_a_server_that_is_refused(project: Path, server: object, said: str) -> None:
    """A server that cannot be registered is a problem with the file, its name and the fix; the others still load."""
    told = problem(load(project, server))
    assert said in told
    assert "'one'" in told
    assert f"{project}/.mcp.json" in told
    assert CANARY not in told
    both = load_mcp_config(write(project, {"mcpServers": {"one": server, "two": TIME}}))
    assert [entry.id for entry in both.entries] == ["two"]
    with pytest.raises(MCPEntryError, match="'one'"):
        both.check()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON: line 1"),
        ('{"mcpServers": {"a": {"env": {"K": "' + CANARY + '"}}', "is not JSON: line 1"),
        ("{\n/* open", "is not JSON: line 2"),
        ("[]", "holds no JSON object"),
        ("{}", "has no table of servers"),
        ('{"mcp_servers": {}}', "mcpServers, or servers"),
        ('{"mcpServers": []}', "is not an object"),
        ('{"mcpServers": {"a": {"command": "npx", "command": "node"}}}', "has the key 'command' twice"),
        ('{"mcpServers": ' + "[" * 100_000, "is not JSON that can be read"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(project: Path, text: str, said: str) -> None:
    """A file that is broken as a whole is an error with its name and the place, and without what it holds."""
    path = project / ".mcp.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(MCPEntryError, match=said) as caught:
        load_mcp_config(path)
    assert str(path) in str(caught.value)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(vars(caught.value))


def test_a_file_that_is_not_there(project: Path) -> None:
    """A file that does not exist, or is far too large, is an error that says so."""
    with pytest.raises(MCPEntryError, match="No such file"):
        load_mcp_config(project / "none.json")
    with pytest.raises(MCPEntryError, match="4 MiB"):
        load_mcp_config(write(project, " " * (4 * 1024 * 1024 + 1)))


def test_an_unknown_key_is_noted(project: Path) -> None:
    """A key that is not known is left out with a note, which has the nearest known one."""
    loaded = load(project, TIME | {"ENV": 1, "colour": "red"})
    assert loaded.notes == (
        "server 'one': the key 'ENV' was ignored: did you mean 'env'?",
        "server 'one': the key 'colour' was ignored: not known",
    )


# ---- names


def test_names_become_ids(project: Path) -> None:
    """A legal name is the id; another gets a legal id of its own, with a note, and stays the name for people."""
    servers = dict.fromkeys(("time", "my server", "my_server", "my/server", "⚓", "", "x" * 70), TIME)
    loaded = load_mcp_config(write(project, {"mcpServers": servers})).check()
    assert [entry.name for entry in loaded.entries] == list(servers)
    assert loaded.entries[0].id == "time"
    assert loaded.entries[2].id == "my_server"
    assert len({entry.id for entry in loaded.entries}) == len(servers)
    assert all(is_name(entry.id) for entry in loaded.entries)
    assert len(loaded.notes) == 5


def test_a_name_that_takes_anothers_id(project: Path) -> None:
    """Two names with the same id are a problem, and the first one stays."""
    taken = load_mcp_config(write(project, {"mcpServers": {"my server": TIME}})).entries[0].id
    loaded = load_mcp_config(write(project, {"mcpServers": {"my server": TIME, taken: {"command": "node"}}}))
    assert [entry.name for entry in loaded.entries] == ["my server"]
    assert "rename one of them" in str(loaded.problems[0])


# ---- JSONC

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='/*",\\ ]}\n{[:ax', max_size=12) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
fillers = st.lists(
    st.sampled_from([" ", "\n", "\t", '// x, ] } " /* \n', "/* a */", "/**/", '/* " */', "/* // \n ,] */", "/***/"]),
    max_size=3,
).map("".join)


@given(st.data(), json_values)
def test_comments_and_commas_change_nothing(data: st.DataObject, value: object) -> None:
    """JSON means the same with comments between any of its tokens and commas at the ends; strings stay as they are."""

    def render(item: Any) -> str:
        filler = data.draw(fillers)
        if isinstance(item, list):
            parts = [render(part) for part in cast("list[Any]", item)]
            ends = "[]"
        elif isinstance(item, dict):
            parts = [f"{json.dumps(key)}{filler}:{render(part)}" for key, part in cast("dict[str, Any]", item).items()]
            ends = "{}"
        else:
            return filler + json.dumps(item, ensure_ascii=False) + filler
        comma = "," + data.draw(fillers) if parts and data.draw(st.booleans()) else ""
        return filler + ends[0] + filler + ",".join(parts) + comma + ends[1] + filler

    assert json.loads(strip_jsonc(render(value))) == value


@given(json_values, st.sampled_from([None, 2]))
def test_plain_json_stays_as_it_is(value: object, indent: int | None) -> None:
    """Text that is JSON already is not changed at all."""
    text = json.dumps(value, indent=indent)
    assert strip_jsonc(text) == text


@given(st.text(alphabet='/*",\\ \n]}{[:a', max_size=60))
def test_places_stay_the_same(text: str) -> None:
    """What is taken out becomes blanks: the length and the lines of any text stay, so errors name the right place."""
    stripped = strip_jsonc(text)
    assert len(stripped) == len(text)
    assert [place for place, char in enumerate(stripped) if char == "\n"] == [
        place for place, char in enumerate(text) if char == "\n"
    ]


@pytest.mark.parametrize(
    "text", ["/*" * 200_000, '"' * 200_001, '"\\' * 200_000, "," * 200_000, ", " * 200_000, "//" * 200_000]
)
def test_stripping_takes_linear_time(text: str) -> None:
    """No text of this kind makes the stripper slow: each takes well under the limit of the tests."""
    assert len(strip_jsonc(text)) == len(text)


# ---- out


names = st.text(alphabet="abcXYZ019_-", min_size=1, max_size=12)
plain = st.text(st.characters(exclude_characters="$\0\r\n", exclude_categories=["Cs"]), max_size=12)
secrets = st.sampled_from(["${env:TOKEN}", "Bearer ${env:TOKEN}", "${env:TOKEN}${env:OTHER}", ""])
variables = st.text(alphabet="ABC_", min_size=1, max_size=6).filter(lambda name: name != "ENV")
stdio = st.fixed_dictionaries(
    {"type": st.just("stdio"), "command": st.sampled_from(["node", "uvx"]), "args": st.lists(plain, max_size=3)},
    optional={"env": st.dictionaries(variables, secrets, max_size=3), "cwd": plain.filter(bool)},
)
remote = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["http", "sse"]),
        "url": st.sampled_from(["https://example.com/sse", "https://a.example/"]),
    },
    optional={"headers": st.dictionaries(names, secrets, max_size=3)},
)
entries = st.fixed_dictionaries(
    {"id": names, "transport": stdio | remote},
    optional={
        "name": plain,
        "description": st.none() | plain,
        "allowed_agents": st.none() | st.lists(plain, max_size=2),
        "timeout_ms": st.integers(1, 3_600_000),
        "tool_timeout_ms": st.none() | st.integers(1, 3_600_000),
        "max_concurrent_calls": st.none() | st.integers(1, 9),
        "max_retries": st.integers(0, 10),
    },
)


@given(st.lists(entries, max_size=3, unique_by=lambda fields: fields["id"]))
def test_what_is_written_reads_the_same(tmp_path_factory: pytest.TempPathFactory, fields: list[dict[str, Any]]) -> None:
    """Entries whose secrets are references come back equal from the file that was written for them."""
    given_entries = [MCPServerEntry.parse(item) for item in fields]
    path = tmp_path_factory.getbasetemp() / ".mcp.json"
    path.write_text(dump_mcp_config(given_entries), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", "a")
        patch.setenv("OTHER", "b")
        loaded = load_mcp_config(path, allow=["TOKEN", "OTHER"]).check()
    assert [entry.reveal() for entry in loaded.entries] == [entry.reveal() for entry in given_entries]
    assert loaded.notes == ()


def test_no_secret_is_written(project: Path) -> None:
    """In place of a literal secret stands a variable with a name of its own, which has to be set to read it again."""
    headers = {"X-Key": CANARY, "x_key": CANARY + "2", "Authorization": f"Bearer {CANARY}", "Mixed": "a${env:T}"}
    entry = MCPServerEntry(id="my-shop", transport={"type": "http", "url": "https://example.com/", "headers": headers})
    text = dump_mcp_config([entry, MCPServerEntry(id="9", transport=TIME | {"type": "stdio", "env": {"K": CANARY}})])
    assert CANARY not in text
    servers = json.loads(text)["mcpServers"]
    assert servers["my-shop"]["headers"] == {
        "X-Key": "${MY_SHOP_X_KEY}",
        "x_key": "${MY_SHOP_X_KEY_2}",
        "Authorization": "${MY_SHOP_AUTHORIZATION}",
        "Mixed": "${MY_SHOP_MIXED}",
    }
    assert servers["9"]["env"] == {"K": "${_9_K}"}
    assert "which this file may not read" in str(load_mcp_config(write(project, text)).problems[0])
