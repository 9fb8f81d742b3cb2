"""The PostgreSQL server of the tests is private, as durable as a real one, and leaves nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
START_AND_WAIT = """
from tests.support.postgres import postgres_server
with postgres_server() as server:
    print(server.pid, flush=True)
    input()
"""


@pytest.mark.postgresql
def test_databases_are_flushed_and_in_utf8(postgres_url: str) -> None:
    """What is proved about durability is proved with production's settings."""
    url = postgres_url.replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        for name, value in (
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("server_encoding", "UTF8"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone() == (value,)


@pytest.mark.postgresql
@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_server_ends_with_a_test_run_that_is_killed(postgres_server: PostgresServer) -> None:
    """Nobody is left to stop it, so the kernel does."""
    del postgres_server  # There is one to be had.
    run = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        os.kill(run.pid, signal.SIGKILL)
    assert eventually(lambda: not _is_running(server))


def _is_running(pid: int) -> bool:
    try:
        # Where nobody reaps orphans, one that ended stays as a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
