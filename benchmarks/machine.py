"""The machine: what it is, whether it is quiet, and the lock that gives it to one run at a time."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LOCK = Path("/tmp/greenroom-benchmarks.lock")
QUIET = 0.15
"""Share of the machine that others may use before a run starts."""

_PACKAGES = (
    "pykka",
    "pydantic",
    "SQLAlchemy",
    "psycopg",
    "uvicorn",
    "uvloop",
    "httptools",
    "fastapi",
    "eventsourcing",
    "dbos",
    "fastmcp",
    "mcp",
)


def described() -> Iterator[str]:
    """The machine and every version that matters, in lines."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    yield (
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.release()}, "
        f"{os.cpu_count()} cores ({_cpu()}), {memory:.0f} GiB"
    )
    yield ", ".join(f"{name} {found}" for name in _PACKAGES if (found := _version(name)))


@contextmanager
def alone(patience: float) -> Iterator[None]:
    """Hold the machine's lock, once it is quiet or patience (in seconds) has run out."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and _busy(0.3) > QUIET:
            pass
        yield


class Others:
    """How much of the machine was used by processes that are not part of the run.

    What the run uses is what this process and the children it has waited for used, so servers
    that outlive a run count among the others.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def share(self) -> float:
        """Of all cores, since this was made."""
        elapsed = time.monotonic() - self._began
        used = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        return max(0.0, used / elapsed / (os.cpu_count() or 1))


def _busy(seconds: float) -> float:
    others = Others()
    time.sleep(seconds)
    return others.share()


def _busy_seconds() -> float:
    fields = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _wait, interrupts, soft = fields[:7]
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
