"""What ``file.py[:name]`` and ``module[:name]`` stand for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.cli.loading import PREFIX
from handrail.cli.targets import load_target, open_providers, open_toolset
from handrail.errors import PreflightError, TargetError

Write = Callable[..., Path]

AGENT = """
    from handrail import Agent, tool

    @tool
    def look(word: str) -> str:
        '''Look something up.'''
        return word

    desk = Agent("local", tools=[look])
"""

SERVERS = """
    from handrail import Agent, InMemoryMCPServerRegistry, mcp_tools

    desk = Agent("local", tools=[mcp_tools("clock", only=[])])
    entry = {"id": "clock", "transport": {"type": "stdio", "command": "python"}}
"""


def refusal(target: object) -> str:
    """What loading a target is refused with, which has to be one line."""
    with pytest.raises(TargetError) as caught:
        load_target(str(target))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_only_agent_is_inferred(write: Write) -> None:
    """A file with one agent needs no name, and the label says which one was found."""
    path = write(AGENT)
    target = load_target(str(path))
    assert target.agent is not None
    assert target.label == f"{path}:desk"
    assert list(target.implementations) == ["look"]


def test_several_agents_are_listed(write: Write) -> None:
    """Of several agents none is guessed: the error names all of them, ready to be typed."""
    path = write(AGENT + "    clerk = Agent('local')\n    same = desk\n")
    text = refusal(path)
    assert f"{path}:desk, {path}:clerk" in text
    assert "same" not in text
    assert load_target(f"{path}:clerk").agent is not None


def test_a_file_of_tools_is_a_target(write: Write) -> None:
    """Without an agent, all tools of the file are the target, each once."""
    path = write(AGENT.replace("desk = Agent", "_hidden = Agent") + "    alias = look\n")
    target = load_target(str(path))
    assert target.agent is None
    assert list(target.implementations) == ["look"]


@pytest.mark.parametrize("name", ["look", "plain", "both"])
def test_a_name_may_mean_tools(write: Write, name: str) -> None:
    """By its name, a tool, a plain function and a list of them are targets as well."""
    path = write(AGENT + "    def plain(x: int) -> int:\n        '''Give it back.'''\n        return x\n"
                         "    both = [look, plain]\n")  # fmt: skip
    assert name in {*load_target(f"{path}:{name}").implementations, "both"}


def test_a_missing_name_is_refused_with_the_nearest(write: Write) -> None:
    """A name that is not there is refused, and the one that was probably meant is shown."""
    assert "did you mean 'desk'?" in refusal(f"{write(AGENT)}:desc")


def test_a_missing_file_is_refused_with_the_nearest(write: Write, tmp_path: Path) -> None:
    """A file that is not there is refused, and the one that was probably meant is shown."""
    write(AGENT)
    assert "did you mean 'app.py'?" in refusal(tmp_path / "ap.py")
    assert "no folder" in refusal(tmp_path / "nowhere" / "app.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", "app.py, line 1"),
        ("\nimport nothing_like_this", "line 2: No module named 'nothing_like_this'"),
        ("\n\nraise ValueError('no luck')", "line 3: ValueError: no luck"),
        ("import sys\nsys.exit(0)", "line 2: it exits"),
        ("x = 1", "no agent and no tool"),
        ("from handrail import tool\n@tool\ndef f(x):\n    '''F.'''", "the parameter 'x' has no annotation"),
    ],
)
def test_a_file_that_does_not_load_says_where(write: Write, text: str, said: str) -> None:
    """Whatever is wrong in a file becomes one line that names the place."""
    assert said in refusal(write(text))


@pytest.mark.parametrize("text", ["", ":", "app.py:", ":name", "a-b", "a:b:c", "app.py:1x"])
def test_what_has_no_shape_is_refused(text: str) -> None:
    """A text that is neither a file nor a module is refused, whatever it is."""
    assert refusal(text)


def test_another_value_is_refused(write: Write) -> None:
    """A name that means neither an agent nor tools says what it means."""
    assert "type int" in refusal(f"{write('number = 5')}:number")


def test_a_module_is_a_target(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is found in the current folder; one that is not there is told from one that it imports."""
    monkeypatch.chdir(write(AGENT, "some_desk_module.py").parent)
    write("import nothing_like_this", "broken_desk_module.py")
    assert load_target("some_desk_module:desk").agent is not None
    assert "there is no module 'other_desk_module'" in refusal("other_desk_module")
    assert "install nothing_like_this" in refusal("broken_desk_module")
    sys.modules.pop("some_desk_module")


def test_a_file_called_like_a_standard_module_replaces_nothing(write: Write) -> None:
    """A file called ``json.py`` loads under a name of its own, and may import its neighbours."""
    write("WORD = 'near'", "neighbour_of_json.py")
    path = write("import json\nfrom neighbour_of_json import WORD\n" + _dedented(AGENT) + "kept = json.dumps(WORD)\n",
                 "json.py")  # fmt: skip
    target = load_target(str(path))
    assert sys.modules["json"] is json
    assert target.module.__name__.startswith(PREFIX)
    assert target.module.kept == '"near"'


def test_a_file_that_failed_leaves_nothing_behind(write: Write) -> None:
    """A file that does not load is not left half-done among the modules."""
    refusal(write("x = 1 / 0", "half_done.py"))
    assert not [name for name in sys.modules if name.startswith(f"{PREFIX}half_done")]


async def test_tools_of_the_module_stand_in_for_names(write: Write) -> None:
    """An agent may list a tool by its name; the module's tool of that name is then used."""
    target = load_target(str(write(AGENT.replace("tools=[look]", "tools=['look']"))))
    async with open_toolset(target) as toolset:
        assert list(toolset.tools) == ["look"]


@pytest.mark.parametrize(
    "line",
    [
        "registry = InMemoryMCPServerRegistry(entry)",
        "servers = InMemoryMCPServerRegistry(entry)",
        "async def registry():\n        return InMemoryMCPServerRegistry(entry)",
    ],
)
async def test_the_registry_is_found(write: Write, line: str) -> None:
    """A registry beside the agent is used: under its name, as the only one, or made by an async function."""
    target = load_target(str(write(f"{SERVERS}    {line}\n")))
    async with open_toolset(target) as toolset:
        assert len(toolset) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a, b = InMemoryMCPServerRegistry(), InMemoryMCPServerRegistry()", "2 registries: a, b"),
        ("async def registry():\n        raise OSError('no disk')", "OSError: no disk"),
        ("async def registry():\n        return 5", "type int, which is no registry"),
    ],
)
async def test_a_registry_that_cannot_be_had_is_refused(write: Write, line: str, said: str) -> None:
    """Several registries, or a function that gives none, are refused before anything runs."""
    target = load_target(str(write(f"{SERVERS}    {line}\n")))
    with pytest.raises(TargetError, match=said):
        async with open_providers(target):
            pass


async def test_a_missing_registry_says_what_to_write(write: Write) -> None:
    """An agent with a server and no registry is refused with the line that is missing."""
    target = load_target(str(write(SERVERS)))
    with pytest.raises(PreflightError, match=r"registry = InMemoryMCPServerRegistry\(\.\.\.\)"):
        async with open_toolset(target):
            pass


async def test_a_tool_of_the_file_needs_no_server(write: Write) -> None:
    """To call one Python tool, no server is looked for, let alone started."""
    target = load_target(str(write(AGENT.replace("[look]", "[look, {'mcp': 'clock'}]"))))
    async with open_toolset(target, wanted="look") as toolset:
        assert (await toolset.call("look", {"word": "a"})).value == "a"


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines()) + "\n"
