"""`greenroom run`: a server in a process of its own, and what keeps it from starting."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from greenroom import Acl, Service, Settings, mcp_endpoint, migrations
from greenroom.cli._run import _announce
from tests.support.components import Counter
from tests.support.eventually import eventually
from tests.support.server import free_port

ROOT = Path(__file__).parents[3]


@contextmanager
def command(*arguments: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """`greenroom ARGUMENTS` in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        **{f"GREENROOM_{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "greenroom", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_service_runs_until_it_is_told_to_stop(target: str, stop: signal.Signals) -> None:
    port = free_port()
    with command("run", target, "--port", str(port), log_format="json") as process:
        assert eventually(lambda: ready(port) or process.poll() is not None, seconds=30)
        url = f"http://127.0.0.1:{port}"
        with command("call", "counter/c", "increase", "by=2", "--url", url) as call:
            out, err = call.communicate(timeout=30)
            assert (call.returncode, out, err) == (0, "2\n", "")
        process.send_signal(stop)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    latest = migrations.history(Settings())[-1].revision
    assert [line["message"] for line in lines] == [
        f"The database was set up, at revision {latest}",
        f"counters on http://127.0.0.1:{port}",
        f"MCP at http://127.0.0.1:{port}/mcp",
        "Stopping; what was accepted is finished first",
        "counters has stopped",
    ], "in this order, and nothing of the libraries below"


def test_a_port_in_use_is_told_in_a_sentence(target: str, database: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with command("run", target, "--port", port) as process:
            _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert f"Can't listen on 127.0.0.1:{port}: Address already in use" in err
    assert "Traceback" not in err
    assert not database.exists()


def test_a_database_of_another_process_is_told_in_a_sentence(target: str) -> None:
    port = free_port()
    with command("run", target, "--port", str(port)) as first:
        assert eventually(lambda: ready(port) or first.poll() is not None, seconds=30)
        with command("run", target, "--port", "0") as second:
            _, err = second.communicate(timeout=30)

    assert second.returncode == 1
    assert "greenroom: " in err
    assert str(first.pid) in err
    assert "Traceback" not in err


def test_a_database_that_must_not_be_migrated_is_told(target: str) -> None:
    with command("run", target, "--port", "0", migrate="off") as process:
        _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "greenroom db upgrade" in err
    assert "Traceback" not in err


def test_a_wrong_setting_is_told(target: str) -> None:
    with command("run", target, ask_timeout="soon") as process:
        _, err = process.communicate(timeout=30)

    assert process.returncode == 2
    assert "GREENROOM_ASK_TIMEOUT" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_endpoint_that_others_can_reach_and_everybody_may_call_is_warned_of(
    host: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @mcp_endpoint(server_name="open", path="/open", tools=[Counter])
    class OpenMcp: ...

    @mcp_endpoint(server_name="said", path="/said", acl=Acl.allow_internet(), tools=[Counter])
    class SaidMcp: ...

    service = Service(
        "counters",
        components=[Counter],
        endpoints=[OpenMcp, SaidMcp],
        settings=Settings(database_url=f"sqlite:///{tmp_path}/test.db"),
    )

    _announce(service, host, 8000)

    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    expected = ["MCP at /open is open to everybody; say who may call it with acl="]
    assert told == (expected if warned else [])
