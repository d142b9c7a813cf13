"""What a child process starts with: the program's path, its environment, and secrets put in their place."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from handrail.errors import MCPConnectError
from handrail.mcp.entry import REFERENCE, StdioTransport, stdio_disabled

__all__ = ["child_environment", "resolve_command", "resolve_secrets"]

_INHERITED = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR",
     "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
     "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
)  # fmt: skip
_INHERITED_PREFIXES = ("LC_", "UV_", "NPM_CONFIG_", "npm_config_")


def resolve_command(command: str, *, server: str, path: str | None = None) -> str:
    """Find the absolute path of an allowed program.

    ``python`` and ``python3`` are looked for beside the running interpreter first, so that a server installed
    in the same environment is found; everything else on the ``PATH``.

    Args:
        command: The bare name.
        server: The id of the server, for the error.
        path: The ``PATH`` to search. None takes the one of this process.

    Raises:
        MCPConnectError: If there is no such program, or ``MCP_STDIO_DISABLED=true``.
    """
    if stdio_disabled():
        raise MCPConnectError(
            f"server {server!r} would start a process, and MCP_STDIO_DISABLED=true forbids that",
            server=server,
        )
    if command in ("python", "python3") and sys.executable:
        beside = Path(sys.executable).parent / command
        if beside.is_file() and os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which(command, path=path)
    if found is None:
        raise MCPConnectError(
            f"server {server!r} needs the command {command!r}, which is not installed",
            hint=f"install {command}, or put it on the PATH",
            server=server,
            command=command,
        )
    return os.path.abspath(found)


def resolve_secrets(
    values: Mapping[str, SecretStr],
    *,
    server: str,
    field: str,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Put the values of environment variables in place of their ``${env:NAME}`` references.

    Args:
        values: Secret values by name.
        server: The id of the server, for the error.
        field: The field that they come from, for the error.
        environ: Where the variables are read. None takes the environment of this process.

    Raises:
        MCPConnectError: If a variable is not set, or its value cannot be used there.
    """
    source = os.environ if environ is None else environ
    resolved: dict[str, str] = {}
    for name, value in values.items():
        text = value.get_secret_value()
        for variable in REFERENCE.findall(text):
            if variable not in source:
                raise MCPConnectError(
                    f"server {server!r}: {field}.{name} refers to the variable {variable}, which is not set",
                    hint=f"set {variable} in the environment of this process",
                    server=server,
                )
        resolved[name] = REFERENCE.sub(lambda match: source[match[1]], text)
        if any(char in resolved[name] for char in "\0\r\n"):
            raise MCPConnectError(
                f"server {server!r}: the value for {field}.{name} holds a line break or a NUL",
                hint="correct the variable that it refers to",
                server=server,
            )
    return resolved


def child_environment(transport: StdioTransport, *, server: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Build the environment of a child: the few variables that every child inherits, then the entry's own.

    Returns:
        The environment, and the secret values in it that must not be shown.
    """
    own = resolve_secrets(transport.env, server=server, field="env")
    inherited = {
        name: value
        for name, value in os.environ.items()
        # A value like this is an exported shell function, which some shells would run.
        if (name in _INHERITED or name.startswith(_INHERITED_PREFIXES)) and not value.startswith("()")
    }
    return inherited | own, tuple(own.values())
