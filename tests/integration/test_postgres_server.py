"""What servers of killed and of running tests leave behind, and what they don't."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import postgres
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.postgresql
ROOT = Path(__file__).parents[2]
STARTS_A_SERVER = """
import time
from tests.support.postgres import postgres_server

with postgres_server() as server:
    print(server.pid, server.home, flush=True)
    time.sleep(60)
"""


@pytest.mark.usefixtures("postgres_server")
def test_a_killed_test_run_leaves_no_server_behind() -> None:
    """The server ends with its parent, and the next one to start removes its folder."""
    run = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout is not None
        pid, home = run.stdout.readline().split()
        run.kill()

    assert eventually(lambda: not _is_alive(int(pid)))
    with postgres.postgres_server():
        assert not Path(home).exists()


def test_a_running_server_keeps_its_folder(postgres_server: PostgresServer) -> None:
    """Whoever starts a second one removes nothing of the first."""
    with postgres.postgres_server() as second:
        assert second.port != postgres_server.port
        assert postgres_server.home.exists()
    assert not second.home.exists()


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
