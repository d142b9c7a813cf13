"""A PostgreSQL server of our own: from Debian's package, on a Unix socket, gone when the tests are."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import psycopg
import pytest

PASSWORD = "hunter2-pg-canary"
USER = "handrail"
_START_SECONDS = 60.0


class PostgresServer:
    """A running server.

    Attributes:
        socket: The directory of its socket.
    """

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._numbers = itertools.count(1)
        self._root = Path(tempfile.mkdtemp(prefix="hr-pg-", dir="/tmp"))
        self._account = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = self._root

    def start(self) -> None:
        """Create a cluster and start it, with nothing that makes it survive a power cut."""
        password = self._root / "password"
        password.write_text(PASSWORD)
        if self._account is not None:
            for path in (self._root, password):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        data = self._root / "data"
        made = subprocess.run(
            self._as_user(
                "initdb", f"--pgdata={data}", f"--username={USER}", f"--pwfile={password}",
                "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C",
            ),
            capture_output=True, text=True, timeout=120, check=False, cwd=self._root,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket),
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": "50",
            "shared_buffers": "16MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._root / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._as_user("postgres", "-D", str(data), *options), stdout=log, stderr=log, cwd=self._root
            )
        self._wait()

    def _as_user(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._binaries / program), *arguments]
        setpriv = shutil.which("setpriv")
        # The server ends with the tests, also when nothing of them is left to stop it.
        leash = [setpriv, "--pdeathsig=INT"] if setpriv else []
        if self._account is not None:
            leash += [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return [*leash, *command]

    def _wait(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                if self._process is None or self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"postgres did not start: {(self._root / 'log').read_text()}") from None
                time.sleep(0.05)

    def url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        """Return the URL of a database."""
        return f"postgresql://{USER}:{password}@/{database}?host={self.socket}"

    @contextlib.contextmanager
    def database(self) -> Generator[str]:
        """Create an empty database, and drop it at the end. Gives its URL."""
        name = f"test_{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield self.url(name)
        finally:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with contextlib.closing(psycopg.connect(self.url(), autocommit=True)) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop the server, and remove all that it wrote."""
        if self._process is not None:
            self._process.send_signal(2)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
        shutil.rmtree(self._root, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    """The account to run as. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def _missing() -> tuple[Path | None, str]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        return None, "PostgreSQL is not installed: apt-get install postgresql"
    if os.geteuid() == 0 and (_unprivileged() is None or shutil.which("setpriv") is None):
        return None, "PostgreSQL does not run as root, and there is no other account to run it as"
    return found[-1].parent, ""


_running: PostgresServer | None = None
_users = 0


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a session, in whichever modules this fixture is imported."""
    global _running, _users
    binaries, reason = _missing()
    if binaries is None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    if _running is None:
        server = PostgresServer(binaries)
        try:
            server.start()
        except BaseException:
            server.stop()
            raise
        _running = server
    _users += 1
    yield _running
    _users -= 1
    if not _users:
        _running.stop()
        _running = None
