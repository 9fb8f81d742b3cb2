"""`greenroom workflows` and `greenroom workflow`: looking at workflows, and steering them."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from greenroom.cli import main
from greenroom.cli._load import load_service
from greenroom.service import Service
from tests.support.eventually import eventually
from tests.support.served import served
from tests.support.workflows import Journeys, Script, StrictJourneys, new_script

Output = pytest.CaptureFixture[str]
_numbers = count()

MODULE = """
from greenroom.service import Service
from tests.support.components import Counter
from tests.support.workflows import Journeys, StrictJourneys

service = Service("travel", components=[Counter, Journeys, StrictJourneys])
"""


@pytest.fixture
def script() -> Script:
    return new_script()


@pytest.fixture
def target(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"travel_service_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield f"{name}:service"
    sys.modules.pop(name, None)


@pytest.fixture
def running(target: str, script: Script) -> Iterator[Service]:
    """With a journey that has ended, one that waits, one that is suspended and one that fails."""
    script.fail("suspend_after", 2)
    service = load_service(target)
    with service.running() as client:
        ended = client.for_workflow(Journeys, "a/1")
        ended.ask(Journeys.start, "rome")
        client.for_workflow(Journeys, "b").ask(Journeys.pause_for, 3600.0)
        stuck = client.for_workflow(StrictJourneys, "c")
        stuck.ask(StrictJourneys.start_at, "suspend_after")
        assert eventually(lambda: ended.status().status == "ended")
        assert eventually(lambda: stuck.status().suspended)
        yield service


def test_workflows_are_listed_with_where_they_stand(
    target: str, running: Service, capsys: Output
) -> None:
    assert main(["workflows", target]) == 0

    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "journeys/a/1  ended"
    assert second.startswith("journeys/b  paused  [waiting]  next=20")
    assert third.startswith(
        "strict-journeys/c  suspended (retrying)  "
        "[step suspend_after failed 2 time(s): ValueError: ]  step=suspend_after attempt=2"
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["journeys"], ["journeys/a/1", "journeys/b"]),
        (["journeys", "--limit", "1"], ["journeys/a/1"]),
        (["journeys", "--after", "a/1"], ["journeys/b"]),
        (["--status", "paused"], ["journeys/b"]),
        (["--status", "suspended"], ["strict-journeys/c"]),
        (["--status", "failed"], []),
        (["--limit", "2"], ["journeys/a/1", "journeys/b"]),
    ],
)
def test_they_are_listed_by_component_and_status(
    target: str, running: Service, arguments: list[str], found: list[str], capsys: Output
) -> None:
    assert main(["workflows", target, *arguments, "--json"]) == 0

    assert [one["instance"] for one in json.loads(capsys.readouterr().out)] == found


def test_one_is_shown_with_its_history(target: str, running: Service, capsys: Output) -> None:
    assert main(["workflows", target, "journeys/a/1"]) == 0
    status, started, first, second = capsys.readouterr().out.splitlines()
    assert status == "ended"
    assert started.startswith("1  20")
    assert started.endswith("  command  start  -> running first")
    assert "  step  first  attempt=1  took=" in first
    assert second.endswith("  -> ended")

    assert main(["workflows", target, "strict-journeys/c", "--after", "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"]["suspended"]
    assert [(one["cause"], one["attempt"], one["error"]) for one in shown["history"]] == [
        ("attempt", 1, "ValueError: "),
        ("attempt", 2, "ValueError: "),
    ]


def test_what_is_stored_is_told_as_the_running_instance_tells_it(
    target: str, running: Service
) -> None:
    with running.reading() as reader:
        for cls, name in ((Journeys, "a/1"), (Journeys, "b"), (StrictJourneys, "c")):
            live = running.client.for_workflow(cls, name)
            assert reader.workflow_status(live._ref) == live.status()


def test_a_workflow_is_steered_through_the_running_service(
    target: str, running: Service, capsys: Output
) -> None:
    waits = running.client.for_workflow(Journeys, "b")
    with served(running.app) as url:
        steer = ["workflow", "suspend", target, "journeys/b", "--url", url]
        assert main([*steer, "--reason", "the bank is closed"]) == 0
        assert capsys.readouterr().out == ("journeys/b is suspended, paused [the bank is closed]\n")
        assert waits.status().suspended

        assert main(["workflow", "resume", target, "journeys/b", "--url", url]) == 0
        assert capsys.readouterr().out == "journeys/b is paused [waiting]\n"
        assert not waits.status().suspended

        for _ in range(2):
            assert main(["workflow", "terminate", target, "journeys/b", "--url", f"{url}/"]) == 0
            assert capsys.readouterr().out == "journeys/b is terminated\n"


def test_only_those_who_have_the_database_steer(target: str, running: Service) -> None:
    body = json.dumps({"component": "journeys", "instance": "b"}).encode()
    with served(running.app) as url:
        for permission in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer ü"}):
            headers = {"Content-Type": "application/json", **permission}
            request = urllib.request.Request(
                f"{url}/greenroom/workflows/terminate",
                body,
                {name: value.encode() for name, value in headers.items()},  # type: ignore[misc]
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == 403
            refused.value.close()
    assert running.client.for_workflow(Journeys, "b").status().status == "paused"


def test_another_database_is_told(
    target: str, running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    with served(running.app) as url:
        other = tmp_path / "other.db"
        monkeypatch.setenv("GREENROOM_DATABASE_URL", f"sqlite:///{other}")
        sys.modules.pop(target.partition(":")[0])
        with load_service(target).running() as client:
            client.for_workflow(Journeys, "b").ask(Journeys.pause)
        assert main(["workflow", "suspend", target, "journeys/b", "--url", url]) == 1
    assert "runs on another database" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["workflows", "cart"], 1, "no workflow 'cart'; it has: journeys, strict-journeys"),
        (["workflows", "counter/c"], 1, "no workflow 'counter'"),
        (["workflows", "journeys/zz"], 1, "There is no instance journeys/zz"),
        (["workflows", "journeys/b", "--after", "b"], 2, "is a sequence number here"),
        (["suspend", "journeys"], 2, "write COMPONENT/INSTANCE"),
        (["suspend", "counter/c"], 1, "no workflow 'counter'"),
        (["resume", "journeys/zz"], 1, "There is no instance journeys/zz"),
        (["terminate", "journeys/b", "--url", "ftp://x"], 2, "is not the URL of a service"),
        (["suspend", "journeys/b", "--url", "http://127.0.0.1:9"], 1, "No service answers at"),
    ],
)
def test_a_mistake_is_told(
    target: str, running: Service, arguments: list[str], code: int, said: str, capsys: Output
) -> None:
    command, *rest = arguments
    start = [command, target] if command == "workflows" else ["workflow", command, target]
    assert main([*start, *rest]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_what_the_service_refuses_is_told(target: str, running: Service, capsys: Output) -> None:
    with served(running.app) as url:
        steer = ["workflow", "suspend", target, "journeys/b", "--reason", " ", "--url", url]
        assert main(steer) == 1
        assert "The service refused: a reason is text" in capsys.readouterr().err


def test_a_server_without_greenroom_is_told(target: str, running: Service, capsys: Output) -> None:
    async def plain(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"Not found"})  # type: ignore[operator]

    with served(plain, lifespan="off") as url:
        assert main(["workflow", "suspend", target, "journeys/b", "--url", url]) == 1
    assert "is no greenroom service" in capsys.readouterr().err
