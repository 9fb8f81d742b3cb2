"""Calls that end with questions to the client, and the state they carry to the next round."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from greenroom import (
    AskForm,
    AskModel,
    AskPage,
    AskRoots,
    McpContext,
    Service,
    Settings,
    mcp_endpoint,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from greenroom.mcp import StateSeal
from greenroom.mcp._state import LIFETIME_SECONDS
from greenroom.mcp._wire import WireError
from tests.support.mcp_wire import LEGACY, MODERN, ask, served_by

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Size(BaseModel):
    """A form."""

    size: int = Field(ge=1, description="How large")
    shape: Literal["round", "square"] = "round"


@mcp_endpoint(server_name="asks")
class Asks:
    """Methods that ask."""

    @mcp_tool(description="Asks for a size.")
    def size(self, context: McpContext, name: str = "") -> str:
        answer = context.ask("size", AskForm("How large?", Size))
        return f"{name} {answer.action} {answer.content.size if answer.content else None}"

    @mcp_tool(description="Asks for everything.")
    async def everything(self, context: McpContext) -> str:
        page, text, roots = context.ask_all(
            {
                "page": AskPage("Pay here", "https://example.com/pay", "p-1"),
                "model": AskModel("Say hi", max_tokens=5, system_prompt="Be brief."),
                "roots": AskRoots(),
            }
        )
        return f"{page} {text} {roots}"

    @mcp_tool(description="Asks twice.")
    def twice(self, context: McpContext) -> str:
        first = context.ask("first", AskModel("One?"))
        second = context.ask("second", AskModel(f"Two after {first}?"))
        return f"{first}, {second}"

    @mcp_resource(uri="asks://secret")
    def secret(self, context: McpContext) -> str:
        return context.ask("word", AskModel("The word?"))

    @mcp_prompt
    def prompt(self, context: McpContext) -> str:
        return context.ask("word", AskModel("The word?"))


ENDPOINT = served_by(Asks)
META = {"io.modelcontextprotocol/clientCapabilities": ALL}


def call(name: str, arguments: Any = None, *, endpoint: Any = ENDPOINT, **more: Any) -> Any:
    params = {"name": name, "arguments": arguments or {}, "_meta": META, **more}
    return ask(endpoint, MODERN, "tools/call", params)


def said(text: str) -> dict[str, Any]:
    """What a client's model answers."""
    content = {"type": "text", "text": text}
    return {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}


def test_a_call_ends_with_a_form() -> None:
    result = call("size").result

    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {
        "size": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "How large?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "minimum": 1, "description": "How large"},
                        "shape": {
                            "type": "string",
                            "enum": ["round", "square"],
                            "default": "round",
                        },
                    },
                    "required": ["size"],
                },
            },
        }
    }
    assert isinstance(result["requestState"], str)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"action": "accept", "content": {"size": 3}}, "tin accept 3"),
        ({"action": "decline"}, "tin decline None"),
        ({"action": "cancel"}, "tin cancel None"),
    ],
)
def test_the_next_round_has_the_answer(response: dict[str, Any], text: str) -> None:
    arguments = {"name": "tin"}
    state = call("size", arguments).result["requestState"]

    result = call(
        "size", arguments, requestState=state, inputResponses={"size": response, "other": {}}
    ).result

    assert result["resultType"] == "complete"
    assert result["content"][0]["text"] == text


@pytest.mark.parametrize(
    "responses",
    [
        {},
        {"size": "three"},
        {"size": {"action": "perhaps"}},
        {"size": {"action": "accept", "content": {"size": 0}}},
        {"size": {"action": "accept"}},
        {"other": {"action": "accept", "content": {"size": 3}}},
    ],
)
def test_what_is_no_answer_is_asked_for_again(responses: dict[str, Any]) -> None:
    state = call("size").result["requestState"]

    result = call("size", requestState=state, inputResponses=responses).result

    assert result["resultType"] == "input_required"
    assert list(result["inputRequests"]) == ["size"]


def test_several_questions_are_asked_at_once_and_only_the_open_ones_again() -> None:
    first = call("everything").result
    assert {key: one["method"] for key, one in first["inputRequests"].items()} == {
        "page": "elicitation/create",
        "model": "sampling/createMessage",
        "roots": "roots/list",
    }
    assert first["inputRequests"]["model"]["params"] == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say hi"}}],
        "maxTokens": 5,
        "systemPrompt": "Be brief.",
    }

    responses: dict[str, Any] = {"page": {"action": "accept"}, "model": said("hi")}
    second = call("everything", requestState=first["requestState"], inputResponses=responses).result
    assert list(second["inputRequests"]) == ["roots"]

    roots = {"roots": {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}}
    last = call("everything", requestState=second["requestState"], inputResponses=roots).result
    assert last["content"][0]["text"] == "accept hi ['file:///a', 'file:///b']"


def test_one_answer_may_lead_to_the_next_question() -> None:
    first = call("twice").result
    second = call(
        "twice", requestState=first["requestState"], inputResponses={"first": said("1")}
    ).result

    [question] = second["inputRequests"].values()
    assert "Two after 1?" in str(question)
    last = call("twice", requestState=second["requestState"], inputResponses={"second": said("2")})
    assert last.result["content"][0]["text"] == "1, 2"


@pytest.mark.parametrize(
    ("method", "params", "where"),
    [
        ("resources/read", {"uri": "asks://secret"}, "contents"),
        ("prompts/get", {"name": "prompt"}, "messages"),
    ],
)
def test_resources_and_prompts_may_ask_too(method: str, params: Any, where: str) -> None:
    first = ask(ENDPOINT, MODERN, method, {**params, "_meta": META}).result
    assert first["resultType"] == "input_required"

    answers = {"requestState": first["requestState"], "inputResponses": {"word": said("tea")}}
    last = ask(ENDPOINT, MODERN, method, {**params, **answers, "_meta": META}).result

    assert "tea" in str(last[where])


FORM, PAGE = {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}


@pytest.mark.parametrize(
    ("name", "declared", "lacks"),
    [
        ("size", {}, FORM),
        ("size", {"elicitation": {}}, {}),
        ("size", FORM, {}),
        ("size", PAGE, FORM),
        ("size", {"elicitation": True}, FORM),
        ("twice", {}, {"sampling": {}}),
        ("twice", {"sampling": {}}, {}),
        ("everything", {"elicitation": {}, "sampling": {}}, {**PAGE, "roots": {}}),
    ],
)
def test_a_client_is_asked_only_for_what_it_declared(
    name: str, declared: dict[str, Any], lacks: dict[str, Any]
) -> None:
    meta = {"io.modelcontextprotocol/clientCapabilities": declared}

    answer = ask(ENDPOINT, MODERN, "tools/call", {"name": name, "_meta": meta})

    if not lacks:
        assert answer.result["resultType"] == "input_required"
        return
    assert (answer.status, answer.error["code"]) == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": lacks}


@pytest.mark.parametrize("version", LEGACY)
def test_a_legacy_client_is_told_at_once(version: str) -> None:
    result = ask(ENDPOINT, version, "tools/call", {"name": "size"}).result

    assert result["isError"] is True
    assert "2026-07-28" in result["content"][0]["text"]


@pytest.mark.parametrize("version", LEGACY)
def test_a_legacy_client_can_not_slip_in_answers(version: str) -> None:
    params = {"name": "size", "inputResponses": {"size": {"action": "decline"}}}

    assert ask(ENDPOINT, version, "tools/call", params).result["isError"] is True


@pytest.mark.parametrize(
    "more",
    [
        {"requestState": "x"},
        {"requestState": ""},
        {"requestState": 5},
        {"requestState": "ä"},
        {"inputResponses": []},
    ],
)
def test_what_was_not_sealed_here_is_refused(more: dict[str, Any]) -> None:
    answer = call("size", **more)

    assert (answer.status, answer.error["code"]) == (400, -32602)


def test_a_state_is_good_for_its_own_call_alone() -> None:
    state = call("size", {"name": "tin"}).result["requestState"]

    assert call("size", {"name": "box"}, requestState=state).error["code"] == -32602
    assert call("everything", {"name": "tin"}, requestState=state).error["code"] == -32602
    assert "result" in call("size", {"name": "tin"}, requestState=state).json


def test_a_state_is_good_at_its_own_endpoint_alone() -> None:
    """Where a tool of the same name may do something else."""
    elsewhere = mcp_endpoint(path="/elsewhere", server_name="elsewhere")(type("E", (Asks,), {}))
    service = Service("asks", endpoints=[Asks, elsewhere], settings=Settings())
    one, other = service.mcp_servers
    state = call("size", endpoint=one).result["requestState"]

    assert "result" in call("size", endpoint=one, requestState=state).json
    assert call("size", endpoint=other, requestState=state).error["code"] == -32602


def test_only_what_was_asked_is_answered() -> None:
    """The second question depends on the first; nobody can have read it yet."""
    state = call("twice").result["requestState"]
    ahead = {"first": said("a"), "second": said("b")}

    again = call("twice", requestState=state, inputResponses=ahead).result

    assert list(again["inputRequests"]) == ["second"]


def test_a_state_that_was_changed_is_refused() -> None:
    state = call("size").result["requestState"]

    for changed in (state + "A", state[:-1], state + "\n", "A" + state[1:], state.rstrip("=")):
        if changed != state:
            assert call("size", requestState=changed).error["code"] == -32602


def test_who_knows_another_secret_reads_nothing() -> None:
    state = call("size").result["requestState"]

    assert call("size", endpoint=served_by(Asks), requestState=state).error["code"] == -32602


def test_processes_on_one_database_read_each_others_states(database_url: str) -> None:
    """And so does a process after its restart."""
    states = []
    for _ in range(2):
        settings = Settings(database_url=database_url)
        service = Service("asks", endpoints=[Asks], settings=settings)
        with service.running():
            [endpoint] = service.mcp_servers
            for state in states:
                assert "result" in call("size", endpoint=endpoint, requestState=state).json
            states.append(call("size", endpoint=endpoint).result["requestState"])


def test_a_state_does_not_live_for_ever() -> None:
    now = 1000.0
    seal = StateSeal(lambda: "secret", now=lambda: now)
    state = seal.seal({"a": 1}, "call")

    now += LIFETIME_SECONDS
    assert seal.open(state, "call") == {"a": 1}
    now += 1
    with pytest.raises(WireError, match="too old"):
        seal.open(state, "call")
