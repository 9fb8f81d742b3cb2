"""Workflows as tasks of MCP clients: they outlive servers, and belong to those who began them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from greenroom import Issuer, Jwt, Service, Settings, mcp_endpoint
from tests.conformance.tasks import BrokenJob, Computation, ConfirmedJob, FailingJob, new_id
from tests.support.eventually import eventually
from tests.support.mcp_wire import MODERN, headers_of, request
from tests.support.tokens import AUDIENCE, TokenIssuer

TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
JOBS = [Computation, ConfirmedJob, FailingJob, BrokenJob]
OFFERED = [Computation, *(one.tools(bind=new_id) for one in JOBS[1:])]
ISSUER = TokenIssuer()
JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], [AUDIENCE])


@mcp_endpoint(server_name="jobs", tools=OFFERED)
class Jobs:
    """Open to everybody."""


@mcp_endpoint(server_name="jobs", tools=OFFERED, jwt=JWT)
class OwnJobs:
    """Open to those with a token."""


class Client:
    """A client that knows tasks."""

    def __init__(self, http: TestClient) -> None:
        self.http = http
        self.token: str | None = None
        self.capabilities: dict[str, Any] = TASKS

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer."""
        meta = {"io.modelcontextprotocol/clientCapabilities": self.capabilities}
        body = request(MODERN, method, {**params, "_meta": meta})
        headers = {k: v for k, v in headers_of(MODERN, body).items() if v is not None}
        if "taskId" in params:
            headers["Mcp-Name"] = params["taskId"]
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        answer: dict[str, Any] = self.http.post("/mcp", json=body, headers=headers).json()
        return answer

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", name=name, arguments=arguments)["result"]
        return result

    def get(self, task: str) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tasks/get", taskId=task)["result"]
        return result

    def when_over(self, task: str) -> dict[str, Any]:
        assert eventually(lambda: self.get(task)["status"] not in ("working", "input_required"))
        return self.get(task)


@contextmanager
def served(folder: Path, endpoint: type = Jobs) -> Iterator[Client]:
    settings = Settings(database_url=f"sqlite:///{folder}/test.db", allowed_hosts=["testserver"])
    service = Service("jobs", components=JOBS, endpoints=[endpoint], settings=settings)
    with TestClient(service.app) as http:
        yield Client(http)


def test_a_task_is_still_there_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        begun = client.call("confirm_delete", filename="a.txt")
        before = client.get(begun["taskId"])
    with served(tmp_path) as client:
        after = client.get(begun["taskId"])
        asked = after["inputRequests"]["a.txt"]
        answer = {"a.txt": {"action": "accept", "content": {"confirm": True}}}
        client.ask("tasks/update", taskId=begun["taskId"], inputResponses=answer)
        over = client.when_over(begun["taskId"])
    with served(tmp_path) as client:
        again = client.get(begun["taskId"])

    assert begun["resultType"] == "task"
    assert (before["status"], before["statusMessage"]) == ("input_required", "needs an answer")
    assert after == before
    assert asked["params"]["requestedSchema"]["required"] == ["confirm"]
    assert over["status"] == "completed"
    assert over["result"]["content"] == [{"type": "text", "text": "done: a.txt"}]
    assert over["createdAt"] == begun["createdAt"] < over["lastUpdatedAt"]
    assert again == over


def test_the_same_workflow_is_begun_again_as_the_same_work(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        first = client.call("slow_compute", computation_id="c-1", seconds=0, label="x")
        client.when_over(first["taskId"])
        refused = client.call("slow_compute", computation_id="c-1", seconds=0)

    assert refused["resultType"] == "complete"
    assert refused["isError"] is True


def test_an_answer_that_was_declined_and_one_that_does_not_fit(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        task = client.call("multi_input")["taskId"]
        wrong = {"first": {"action": "accept", "content": {"confirm": "perhaps"}}}
        unfit = client.ask("tasks/update", taskId=task, inputResponses=wrong)
        between = client.get(task)
        declined = {"first": {"action": "decline"}, "other": {"action": "accept"}}
        client.ask("tasks/update", taskId=task, inputResponses=declined)
        over = client.when_over(task)

    assert unfit["error"]["code"] == -32602
    assert "confirm" in unfit["error"]["message"]
    assert between["inputRequests"].keys() == {"first", "second"}
    assert over["status"] == "completed"
    assert over["result"]["isError"] is True


def test_a_client_that_can_not_be_asked_is_told_to_wait(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.capabilities = {"extensions": TASKS["extensions"]}
        task = client.get(client.call("confirm_delete", filename="a.txt")["taskId"])

    assert (task["status"], task["statusMessage"]) == ("working", "needs an answer")


def test_a_task_is_cancelled_for_good(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        task = client.call("slow_compute", computation_id="c-1", seconds=3600)["taskId"]
        acknowledged = client.ask("tasks/cancel", taskId=task)["result"]
        over = client.when_over(task)
        client.ask("tasks/cancel", taskId=task)
        again = client.get(task)

    assert "taskId" not in acknowledged
    assert (over["status"], over["statusMessage"]) == ("cancelled", "cancelled by the client")
    assert "result" not in over
    assert again == over


@pytest.mark.parametrize(
    ("tool", "status", "member"),
    [("failing_job", "completed", "result"), ("protocol_error_job", "failed", "error")],
)
def test_what_goes_wrong_says_nothing_of_the_inside(
    tmp_path: Path, tool: str, status: str, member: str
) -> None:
    with served(tmp_path) as client:
        over = client.when_over(client.call(tool)["taskId"])

    assert over["status"] == status
    assert member in over
    assert "secret" not in str(over)
    assert "nothing to do" not in str(over)


def test_clients_that_know_no_tasks_get_the_reply_or_are_refused(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        task = client.call("slow_compute", computation_id="c-1", seconds=0)["taskId"]
        client.capabilities = {}
        reply = client.call("slow_compute", computation_id="c-2", seconds=0)
        refused = client.ask("tools/call", name="failing_job", arguments={})
        looked = client.ask("tasks/get", taskId=task)

    assert reply["content"] == [{"type": "text", "text": "begun"}]
    assert refused["error"]["code"] == looked["error"]["code"] == -32021
    assert refused["error"]["data"] == {
        "requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }


def test_a_task_belongs_to_who_began_it(tmp_path: Path) -> None:
    with served(tmp_path, OwnJobs) as client:
        client.token = ISSUER.token(sub="ada")
        task = client.call("slow_compute", computation_id="c-1", seconds=3600)["taskId"]
        own = client.get(task)
        client.token = ISSUER.token(sub="eve")
        foreign = [
            client.ask("tasks/get", taskId=task),
            client.ask("tasks/cancel", taskId=task),
            client.ask("tasks/update", taskId=task, inputResponses={}),
        ]
        client.token = ISSUER.token(sub="ada")
        after = client.get(task)

    assert own["status"] == after["status"] == "working"
    assert [one["error"]["code"] for one in foreign] == [-32602] * 3


def test_a_task_id_can_not_be_made_up(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        task = client.call("slow_compute", computation_id="c-1", seconds=3600)["taskId"]
        changed = ("B" if task[0] == "A" else "A") + task[1:]
        answers = [client.ask("tasks/get", taskId=one) for one in (changed, task + "=", "", "x")]

    assert [one["error"]["code"] for one in answers] == [-32602] * 4
