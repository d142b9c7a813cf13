"""The command line: parse, call the library, print.

    loading    the file or module that a target names
    targets    what is in it: an agent or tools, and the servers beside them
    screen     the payload on stdout, everything else on stderr, and what an error exits with
    values     ``key=value`` arguments, read by a tool's schema
    approval   asking a person about a call
    live       a run as it happens, and where its answer came from

The other modules are one command each, and are loaded when that command is asked for. Exit codes: 0 all is well,
1 something failed, 2 wrong usage, 3 something is missing and nothing was started, 4 a call was denied or waits for
approval, 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import click

from handrail import __version__
from handrail.naming import did_you_mean

__all__ = ["cli", "main"]

ABORTED = 130
"""The exit code after Ctrl-C, as shells have it."""

_COMMANDS = {
    "demo": "See an agent call real tools. Needs no key.",
    "run": "Ask an agent, and watch its calls.",
    "tools": "List the tools of an agent or a file.",
    "call": "Call one tool. Needs no model.",
    "check": "Find everything that stands in the way of a run.",
    "doctor": "Tell what works on this machine.",
}
"""Each command and its short help, so that listing them loads none."""


class _LazyGroup(click.Group):
    """Loads a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return getattr(import_module(f"handrail.cli.{cmd_name}"), "command")  # noqa: B009 - the type is unknown

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}; {did_you_mean(args[0], _COMMANDS, what='commands')}")
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="handrail", message="%(prog)s %(version)s")
def cli() -> None:
    """Tools that LLM agents can be trusted with.

    A TARGET is file.py[:name] or module[:name]. The one agent in it, or its tools, need no name.
    """


def main() -> NoReturn:
    """Run the command line, and exit with its code."""
    try:
        code = cli.main(prog_name="handrail", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        click.echo("aborted", err=True)
        code = ABORTED
    sys.exit(code if isinstance(code, int) else 0)
