"""Asking a person whether a call may run."""

from __future__ import annotations

import json
import signal
import sys

from rich.text import Text

from handrail.cli.screen import Screen, clean, one_line
from handrail.policy import ApprovalRequest, Approver

__all__ = ["approver"]


def approver(screen: Screen, *, yes: bool) -> Approver | None:
    """What answers approval requests: ``--yes``, the person at the terminal, or nobody.

    Where it is nobody, a call that needs approval does not run.
    """
    if yes:
        return lambda request: _approve(screen, request)
    return (lambda request: _ask(screen, request)) if screen.interactive else None


def _approve(screen: Screen, request: ApprovalRequest) -> bool:
    screen.note(f"  approved by --yes: {one_line(request.tool)}", "yellow")
    return True


def _ask(screen: Screen, request: ApprovalRequest) -> bool:
    """Show the exact call, and read yes or no. The end of the input is a no."""
    server = f" of the server {one_line(request.server)}" if request.server else ""
    screen.note(Text.assemble(("approve? ", "bold yellow"), (one_line(request.tool), "bold"), server))
    for name, value in request.arguments.items():
        shown = clean(json.dumps(value, ensure_ascii=False, default=str))
        screen.note(f"    {one_line(name)} = {shown}")
    screen.note(f"    because {one_line(request.reason or request.rule)}", "dim")
    return _read_line(screen, "  run it? [y/N] ").strip().lower() in ("y", "yes")


def _read_line(screen: Screen, prompt: str) -> str:
    # asyncio turns the first Ctrl-C into a cancellation, which this blocking read would not notice. So the handler
    # is in place before the prompt invites anybody to press it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        screen.err.file.write(prompt)
        screen.err.file.flush()
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
