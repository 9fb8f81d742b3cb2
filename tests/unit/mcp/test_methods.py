"""What endpoint methods give beyond the founding documents: media, prompts, completions, limits."""

import asyncio
import base64
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from greenroom import (
    AskModel,
    AsyncComponentClient,
    AudioContent,
    CommandError,
    ComponentClient,
    EmbeddedResource,
    Icon,
    ImageContent,
    McpContext,
    MessageContent,
    PdfContent,
    PromptMessage,
    ResourceContent,
    ResourceLink,
    ResourceNotFoundError,
    Service,
    TextContent,
    ToolContext,
    ToolError,
    mcp_completion,
    mcp_endpoint,
    mcp_instances,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from greenroom.errors import ConfigurationError
from tests.support.mcp_wire import EVERY_REVISION, LEGACY, MODERN, an_endpoint, ask, served_by


class Unusual(BaseException):
    """Something that `except Exception` lets pass."""


class Price(BaseModel):
    """What something costs."""

    net: float
    was: float | None = None


class Weather:
    """Something that the application provides."""

    def today(self) -> str:
        return "rain"


@mcp_endpoint(
    server_name="all",
    server_version="2",
    server_title="All of it",
    instructions="Ask.",
    website_url="https://example.com",
    icons=[Icon("https://example.com/i.png", "image/png", ("48x48",))],
)
class All:
    """Everything that can be offered."""

    @mcp_tool(description="Media.", title="Some media", icons=[Icon("data:,x")], meta={"a/b": 1})
    def media(self) -> list[MessageContent | None]:
        return [
            TextContent("A caption", audience=("user",), priority=0.5),
            None,
            ImageContent.from_bytes(b"i", "image/png"),
            AudioContent.from_bytes(b"a", "audio/wav"),
            PdfContent.from_bytes(b"p", "bill.pdf"),
            ResourceLink("all://carts/1", "Cart 1", mime_type="application/json", size=7),
            EmbeddedResource(ResourceContent(b"e", "all://e", "application/x")),
        ]

    @mcp_tool(description="One image.")
    def image(self, there: bool = True) -> ImageContent:
        return ImageContent(b"i", "image/png") if there else None  # type: ignore[return-value]

    @mcp_tool(description="No media.")
    def no_media(self) -> list[ImageContent]:
        return []

    @mcp_tool(description="Who asks, as far as is known.")
    def who(self, context: McpContext) -> dict[str, Any]:
        return {
            "version": context.protocol_version,
            "client": context.client_info.get("name"),
            "header": context.headers.get("x-shop"),
            "key": context.idempotency_key,
        }

    @mcp_tool(description="Declines.")
    def decline(self) -> str:
        raise CommandError("The shop is closed.")

    @mcp_tool(description="Breaks.")
    def crash(self) -> str:
        raise ZeroDivisionError("secret.py")

    @mcp_tool(description="Raises a timeout of its own.")
    def own_timeout(self) -> str:
        raise TimeoutError("secret.py")

    @mcp_tool(description="Wants to end the process.")
    def leave(self) -> str:
        raise SystemExit(3)

    @mcp_tool(description="Wants to end the process, from a coroutine.")
    async def leave_later(self) -> str:
        raise KeyboardInterrupt

    @mcp_tool(description="Raises what nobody expects.")
    def raise_unusual(self) -> str:
        raise Unusual

    @mcp_tool(description="Raises what nobody expects, from a coroutine.")
    async def raise_unusual_later(self) -> str:
        raise Unusual

    @mcp_tool(description="Answers with text where media are due.")
    def no_image(self) -> ImageContent:
        return "an image"  # type: ignore[return-value]

    @mcp_tool(description="Answers with a number among media.")
    def no_images(self) -> list[ImageContent]:
        return [ImageContent(b"i", "image/png"), 5]  # type: ignore[list-item]

    @mcp_tool(description="Answers with no number.")
    def no_number(self) -> float:
        return float("nan")

    @mcp_tool(description="Answers with no number, in an object.")
    def no_price(self) -> Price:
        return Price(net=float("inf"))

    @mcp_tool(description="Answers with what can be read once.")
    def once(self) -> list[int]:
        return (one for one in range(3))  # type: ignore[return-value]

    @mcp_tool(description="Ends its own task.")
    async def cancel_itself(self) -> str:
        raise asyncio.CancelledError

    @mcp_tool(description="Runs out of something.")
    def run_out(self) -> str:
        return next(iter(()))  # type: ignore[no-any-return]

    @mcp_tool(description="Says which part of the world is meant.")
    def mirrored(
        self,
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",
        deep: Annotated[bool | None, Field(json_schema_extra={"x-mcp-header": "Deep"})] = None,
    ) -> str:
        return f"{region} {deep}"

    @mcp_tool(description="Never ends.", timeout=timedelta(milliseconds=20))
    async def endless(self) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    @mcp_tool(description="Says a lot.", max_result_bytes=10)
    def long_text(self) -> str:
        return "äöüäöüäöü"

    @mcp_tool(description="Says a lot, as JSON.", max_result_bytes=10)
    def long_list(self) -> list[str]:
        return ["0123456789"]

    @mcp_tool(description="Shows a lot.", max_result_bytes=10)
    def large_image(self) -> ImageContent:
        return ImageContent(bytes(11), "image/png")

    @mcp_resource(
        uri="all://terms",
        name="Terms",
        title="The terms",
        size=3,
        audience=("user",),
        priority=1.0,
        icons=[Icon("data:,x")],
    )
    def terms(self) -> str:
        return "You"

    @mcp_resource(uri_template="all://carts/{cart_id}", name="Cart")
    def cart(self, cart_id: Annotated[str, Field(max_length=3)]) -> dict[str, str]:
        if cart_id == "0":
            raise ResourceNotFoundError("There is no cart 0.")
        if cart_id == "1":
            raise CommandError("Cart 1 is private.")
        if cart_id == "2":
            raise ZeroDivisionError("secret.py")
        return {"id": cart_id}

    @mcp_resource(uri="all://several", mime_type="text/plain")
    def several(self) -> list[ResourceContent]:
        return [
            ResourceContent("one", "all://several/1"),
            ResourceContent(b"two", "all://several/2", "application/x"),
        ]

    @mcp_resource(uri="all://mine", mime_type="text/plain")
    def mine(self, context: ToolContext) -> str:
        return context.headers.get("x-shop", "nobody")

    @mcp_instances(cart)
    def carts(self) -> list[ResourceLink]:
        return [
            ResourceLink("all://carts/b", "Cart b", size=2),
            ResourceLink("all://carts/a", "Cart a"),
            ResourceLink("all://terms", "Hides nothing"),
        ]

    @mcp_completion(cart, "cart_id")
    async def cart_ids(self, typed: str) -> list[str]:
        return [one for one in map(str, range(1000)) if one.startswith(typed)]

    @mcp_prompt(description="Recommends.", title="A recommendation")
    def recommend(
        self,
        taste: Annotated[str, "What the customer likes"],
        count: int = 1,
        style: Literal["short", "long"] | None = None,
    ) -> str:
        return f"{count} for {taste}, {style}"

    @mcp_completion(recommend, "taste")
    def tastes(self, typed: str, others: Mapping[str, str]) -> list[str]:
        return [f"{typed} {others.get('count', '?')}"]

    @mcp_prompt(role="assistant")
    async def talk(self) -> list[PromptMessage | str | MessageContent]:
        return [
            PromptMessage("user", "Hello"),
            "Hi",
            PromptMessage("user", ImageContent(b"i", "image/png")),
            ResourceLink("all://terms", "Terms"),
        ]

    @mcp_prompt
    def closed(self) -> str:
        raise ToolError("No prompts today.")


ENDPOINT = served_by(All)


def call(name: str, version: str = MODERN, **arguments: Any) -> Any:
    return ask(ENDPOINT, version, "tools/call", {"name": name, "arguments": arguments}).result


# -- what a server says of itself --------------------------------------------------------------


def test_a_server_names_what_it_has() -> None:
    modern = ask(ENDPOINT, MODERN, "server/discover").result
    assert modern["capabilities"] == {
        "tools": {},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {},
        "completions": {},
        "logging": {},
    }
    assert modern["_meta"]["io.modelcontextprotocol/serverInfo"] == {
        "name": "all",
        "version": "2",
        "title": "All of it",
        "websiteUrl": "https://example.com",
        "icons": [
            {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}
        ],
    }


def test_what_nobody_can_be_told_of_is_not_promised_to_legacy_clients() -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
    found = ask(ENDPOINT, "2025-11-25", "initialize", params).result["capabilities"]

    assert found["resources"] == {}


@pytest.mark.parametrize(
    "method",
    [
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "subscriptions/listen",
    ],
)
def test_what_an_endpoint_does_not_have_is_no_method_of_it(method: str) -> None:
    params = {"name": "x", "uri": "x://y"}
    answer = ask(an_endpoint(), MODERN, method, params)

    assert (answer.status, answer.error["code"]) == (404, -32601)


@pytest.mark.parametrize("version", LEGACY)
def test_legacy_methods_that_need_sessions_do_nothing(version: str) -> None:
    for method, params in (
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "all://terms"}),
        ("resources/unsubscribe", {"uri": "all://terms"}),
    ):
        assert ask(ENDPOINT, version, method, params).result == {}
    answer = ask(ENDPOINT, version, "logging/setLevel", {"level": "loud"})
    assert answer.error["code"] == -32602


# -- tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_media_go_out_in_their_order(version: str) -> None:
    result = call("media", version)

    assert result["content"] == [
        {"type": "text", "text": "A caption", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": _base64(b"i"), "mimeType": "image/png"},
        {"type": "audio", "data": _base64(b"a"), "mimeType": "audio/wav"},
        {
            "type": "resource",
            "resource": {
                "uri": "attachment:///bill.pdf",
                "mimeType": "application/pdf",
                "blob": _base64(b"p"),
            },
        },
        {
            "type": "resource_link",
            "uri": "all://carts/1",
            "name": "Cart 1",
            "mimeType": "application/json",
            "size": 7,
        },
        {
            "type": "resource",
            "resource": {"uri": "all://e", "mimeType": "application/x", "blob": _base64(b"e")},
        },
    ]  # fmt: skip
    assert result["isError"] is False
    assert "structuredContent" not in result


@pytest.mark.parametrize(("name", "arguments"), [("image", {"there": False}), ("no_media", {})])
def test_no_media_where_some_are_promised_is_an_error(name: str, arguments: Any) -> None:
    result = call(name, **arguments)

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": f"{name} has no result."}]


def test_what_is_said_of_a_tool_is_listed() -> None:
    tools = ask(ENDPOINT, MODERN, "tools/list").result["tools"]
    media = next(one for one in tools if one["name"] == "media")

    assert (media["title"], media["icons"], media["_meta"]) == (
        "Some media",
        [{"src": "data:,x"}],
        {"a/b": 1},
    )


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_method_may_ask_who_calls(version: str) -> None:
    params = {"name": "who", "_meta": {"greenroom/idempotencyKey": "k-1"}}
    headers = {"X-Shop": "north"}

    result = ask(ENDPOINT, version, "tools/call", params, headers).result

    assert result["structuredContent"] == {
        "version": version,
        "client": "test" if version == MODERN else None,
        "header": "north",
        "key": "k-1",
    }


def test_what_the_application_declines_is_told_in_its_own_words() -> None:
    result = call("decline")

    assert (result["isError"], result["content"][0]["text"]) == (True, "The shop is closed.")
    assert result["_meta"]["greenroom/code"] == "declined"


@pytest.mark.parametrize(
    "name",
    [
        "crash",
        "own_timeout",
        "leave",
        "leave_later",
        "raise_unusual",
        "raise_unusual_later",
        "cancel_itself",
        "run_out",
        "no_image",
        "no_images",
        "no_number",
        "no_price",
    ],
)
def test_a_bug_is_a_reference(name: str, caplog: pytest.LogCaptureFixture) -> None:
    result = call(name)

    assert result["isError"] is True
    assert "Reference" in result["content"][0]["text"]
    assert "secret" not in str(result)
    assert any(one.exc_info for one in caplog.records)


def test_what_can_be_read_once_is_read_once() -> None:
    assert call("once")["structuredContent"] == {"result": [0, 1, 2]}


@pytest.mark.parametrize(
    ("arguments", "headers", "said"),
    [
        ({}, {}, None),
        ({"region": "north"}, {"Mcp-Param-Region": "north"}, None),
        ({"region": "grün"}, {"Mcp-Param-Region": "=?base64?Z3LDvG4=?="}, None),
        ({"deep": True}, {"Mcp-Param-Deep": "true"}, None),
        ({"deep": None}, {}, None),
        ({"region": "north"}, {}, "Mcp-Param-Region header is missing"),
        ({"region": "north"}, {"Mcp-Param-Region": "south"}, "does not match"),
        ({"region": "north"}, {"Mcp-Param-Region": "=?base64?!?="}, "missing or malformed"),
        ({"deep": False}, {"Mcp-Param-Deep": "False"}, "does not match"),
        ({}, {"Mcp-Param-Region": "north"}, "has no argument in the body"),
    ],
)
def test_an_argument_that_comes_in_a_header_too_must_be_the_same(
    arguments: dict[str, Any], headers: dict[str, str], said: str | None
) -> None:
    params = {"name": "mirrored", "arguments": arguments}

    answer = ask(ENDPOINT, MODERN, "tools/call", params, headers)

    if said is None:
        assert answer.result["isError"] is False
    else:
        assert (answer.status, answer.error["code"]) == (400, -32020)
        assert said in answer.error["message"]
    legacy = ask(ENDPOINT, "2025-11-25", "tools/call", params, headers)
    assert legacy.result["isError"] is False


def test_a_method_that_takes_too_long_is_ended() -> None:
    result = call("endless")

    assert result["isError"] is True
    assert "did not answer within 0.02 s" in result["content"][0]["text"]


def test_text_beyond_the_limit_is_cut_off_with_a_notice() -> None:
    text = call("long_text")["content"][0]["text"]

    assert (
        text == "äöüäö\n[Cut off here: the whole is 18 bytes, and the limit is 10. Ask for less.]"
    )


@pytest.mark.parametrize("name", ["long_list", "large_image"])
def test_half_of_what_is_no_text_would_be_nothing(name: str) -> None:
    result = call(name)

    assert result["isError"] is True
    assert "was carried out, but its result is" in result["content"][0]["text"]


# -- resources ---------------------------------------------------------------------------------


def test_what_is_said_of_a_resource_is_listed_and_instances_with_it() -> None:
    result = ask(ENDPOINT, MODERN, "resources/list").result

    assert [one["uri"] for one in result["resources"]] == [
        "all://terms", "all://mine", "all://several", "all://carts/a", "all://carts/b",
    ]  # fmt: skip
    assert result["resources"][0] == {
        "uri": "all://terms",
        "name": "Terms",
        "title": "The terms",
        "mimeType": "text/plain",
        "size": 3,
        "icons": [{"src": "data:,x"}],
        "annotations": {"audience": ["user"], "priority": 1.0},
    }
    assert result["resources"][-1] == {"uri": "all://carts/b", "name": "Cart b", "size": 2}
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_read_may_answer_with_several_contents(version: str) -> None:
    result = ask(ENDPOINT, version, "resources/read", {"uri": "all://several"}).result

    assert result["contents"] == [
        {"uri": "all://several/1", "mimeType": "text/plain", "text": "one"},
        {"uri": "all://several/2", "mimeType": "application/x", "blob": _base64(b"two")},
    ]


def test_a_resource_may_ask_who_reads() -> None:
    params, headers = {"uri": "all://mine"}, {"X-Shop": "north"}

    [content] = ask(ENDPOINT, MODERN, "resources/read", params, headers).result["contents"]

    assert content["text"] == "north"


@pytest.mark.parametrize(
    ("uri", "legacy", "modern", "said"),
    [
        ("all://carts/0", -32002, -32602, "There is no cart 0."),
        ("all://carts/long", -32002, -32602, "not found"),
        ("all://carts/1", -32000, -32000, "Cart 1 is private."),
        ("all://carts/2", -32603, -32603, "Reference"),
        ("nothing", -32002, -32602, "not found"),
    ],
)
def test_why_something_can_not_be_read(uri: str, legacy: int, modern: int, said: str) -> None:
    for version, code in (("2025-11-25", legacy), (MODERN, modern)):
        error = ask(ENDPOINT, version, "resources/read", {"uri": uri}).error

        assert error["code"] == code
        assert said in error["message"]
        assert "secret" not in str(error)


def test_a_uri_must_be_text() -> None:
    for version in EVERY_REVISION:
        assert ask(ENDPOINT, version, "resources/read", {}).error["code"] == -32602


# -- prompts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_prompts_are_listed_with_their_arguments(version: str) -> None:
    prompts = ask(ENDPOINT, version, "prompts/list", {}).result["prompts"]

    assert [one["name"] for one in prompts] == ["closed", "recommend", "talk"]
    assert prompts[1] == {
        "name": "recommend",
        "title": "A recommendation",
        "description": "Recommends.",
        "arguments": [
            {"name": "taste", "description": "What the customer likes", "required": True},
            {"name": "count", "required": False},
            {"name": "style", "required": False},
        ],
    }


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_text_becomes_one_message_and_arguments_become_what_they_are(version: str) -> None:
    params = {"name": "recommend", "arguments": {"taste": "tea", "count": "2"}}

    result = ask(ENDPOINT, version, "prompts/get", params).result

    content = {"type": "text", "text": "2 for tea, None"}
    assert result["messages"] == [{"role": "user", "content": content}]
    assert result["description"] == "Recommends."


def test_a_prompt_may_have_several_messages_with_roles_and_media() -> None:
    result = ask(ENDPOINT, MODERN, "prompts/get", {"name": "talk"}).result

    assert [(one["role"], one["content"]["type"]) for one in result["messages"]] == [
        ("user", "text"), ("assistant", "text"), ("user", "image"), ("assistant", "resource_link"),
    ]  # fmt: skip
    assert "description" not in result


@pytest.mark.parametrize(
    ("params", "code", "said"),
    [
        ({"name": "nobody"}, -32602, "Unknown prompt: nobody"),
        ({}, -32602, "Unknown prompt"),
        ({"name": "recommend"}, -32602, "taste: is required"),
        ({"name": "recommend", "arguments": {"taste": "x", "count": "many"}}, -32602, "count"),
        ({"name": "recommend", "arguments": {"taste": "x", "other": "y"}}, -32602, "other"),
        ({"name": "recommend", "arguments": {"taste": "x", "style": "odd"}}, -32602, "style"),
        ({"name": "recommend", "arguments": {"taste": 1}}, -32602, "object of strings"),
        ({"name": "recommend", "arguments": ["x"]}, -32602, "object of strings"),
        ({"name": "closed"}, -32000, "No prompts today."),
    ],
)
def test_why_a_prompt_can_not_be_had(params: Any, code: int, said: str) -> None:
    for version in ("2025-11-25", MODERN):
        error = ask(ENDPOINT, version, "prompts/get", params).error

        assert error["code"] == code
        assert said in error["message"]


# -- what goes wrong ---------------------------------------------------------------------------


@mcp_endpoint(server_name="broken")
class Broken:
    """Methods that answer with what they should not."""

    @mcp_resource(uri="broken://nothing")
    def nothing(self) -> str:
        return None  # type: ignore[return-value]

    @mcp_resource(uri="broken://half")
    def half(self) -> str:
        return "\ud83d"

    @mcp_resource(uri="broken://unusual")
    def unusual(self) -> str:
        raise Unusual

    @mcp_resource(uri_template="broken://things/{thing}")
    def thing(self, thing: str) -> str:
        raise ResourceNotFoundError("half a thing: \ud83d")

    @mcp_resource(uri_template="broken://others/{other}")
    def other(self, other: str) -> str:
        return other

    @mcp_completion(thing, "thing")
    def things(self, typed: str) -> list[str]:
        return None  # type: ignore[return-value]

    @mcp_completion(other, "other")
    def others(self, typed: str, others: Mapping[str, str], context: McpContext) -> list[str]:
        return [context.ask("other", AskModel(f"{typed}?"))]

    @mcp_prompt
    def no_prompt(self) -> str:
        return None  # type: ignore[return-value]

    @mcp_prompt
    def half_prompt(self) -> str:
        return "\ud83d"

    @mcp_prompt
    def lost_prompt(self) -> str:
        raise ResourceNotFoundError("There is no such customer.")


BROKEN = served_by(Broken)


@pytest.mark.parametrize(
    ("method", "params", "target"),
    [
        ("resources/read", {"uri": "broken://nothing"}, "nothing"),
        ("resources/read", {"uri": "broken://half"}, "half"),
        ("resources/read", {"uri": "broken://unusual"}, "unusual"),
        ("prompts/get", {"name": "no_prompt"}, "no_prompt"),
        ("prompts/get", {"name": "half_prompt"}, "half_prompt"),
        ("completion/complete", ("broken://things/{thing}", "thing"), "things"),
        ("completion/complete", ("broken://others/{other}", "other"), "others"),
    ],
)
def test_the_log_names_the_method_whose_answer_is_none(
    method: str, params: Any, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    if method == "completion/complete":
        uri, name = params
        ref = {"type": "ref/resource", "uri": uri}
        params = {"ref": ref, "argument": {"name": name, "value": ""}}
    params = {**params, "_meta": {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}}

    answer = ask(BROKEN, MODERN, method, params)

    assert answer.error["code"] == -32603
    assert "Reference" in answer.error["message"]
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage().startswith(f"Broken.{target}: internal: ")
    assert record.exc_info


@pytest.mark.parametrize(
    ("method", "params", "code", "said"),
    [
        ("resources/read", {"uri": "broken://things/1"}, -32602, "half a thing: ?"),
        ("prompts/get", {"name": "lost_prompt"}, -32000, "There is no such customer."),
    ],
)
def test_what_is_not_there_is_told_in_the_words_of_the_application(
    method: str, params: Any, code: int, said: str
) -> None:
    error = ask(BROKEN, MODERN, method, params).error

    assert (error["code"], error["message"]) == (code, said)


# -- completions -------------------------------------------------------------------------------


def complete(ref: Any, name: str, value: Any, version: str = MODERN, **context: str) -> Any:
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    return ask(ENDPOINT, version, "completion/complete", params)


PROMPT = {"type": "ref/prompt", "name": "recommend"}
CART = {"type": "ref/resource", "uri": "all://carts/{cart_id}"}


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_values_that_a_type_names_are_offered(version: str) -> None:
    found = complete(PROMPT, "style", "S", version).result["completion"]

    assert found == {"values": ["short"], "total": 1, "hasMore": False}


def test_a_method_sees_the_other_arguments() -> None:
    assert complete(PROMPT, "taste", "t").result["completion"]["values"] == ["t ?"]
    found = complete(PROMPT, "taste", "t", count="2").result["completion"]
    assert found["values"] == ["t 2"]


def test_a_client_sees_the_first_hundred() -> None:
    found = complete(CART, "cart_id", "").result["completion"]

    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 1000, True)


def test_an_argument_without_values_has_none() -> None:
    found = complete(PROMPT, "count", "").result["completion"]

    assert found == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize(
    ("ref", "name", "value"),
    [
        ({"type": "ref/prompt", "name": "nobody"}, "a", ""),
        ({"type": "ref/resource", "uri": "all://nothing"}, "a", ""),
        ({"type": "ref/other", "name": "recommend"}, "taste", ""),
        (PROMPT, "nothing", ""),
        (PROMPT, "taste", 5),
        ("recommend", "taste", ""),
    ],
)
def test_what_nobody_can_complete_is_refused(ref: Any, name: str, value: Any) -> None:
    for version in ("2025-11-25", MODERN):
        assert complete(ref, name, value, version).error["code"] == -32602


# -- objects of the class ----------------------------------------------------------------------


def test_an_object_is_made_for_each_request_with_what_it_asks_for() -> None:
    made: list[Any] = []

    @mcp_endpoint(server_name="made")
    class Made:
        def __init__(
            self,
            client: ComponentClient,
            later: AsyncComponentClient,
            weather: Weather,
            context: McpContext,
        ) -> None:
            made.append((client, later, context.headers.get("x-shop")))
            self._weather = weather

        @mcp_tool(description="x")
        def today(self) -> str:
            return self._weather.today()

    service = Service("made", endpoints=[Made], dependencies={Weather: Weather()})
    [endpoint] = service.mcp_servers
    ask(endpoint, MODERN, "tools/list")
    assert made == []

    for shop in ("a", "b"):
        params = {"name": "today"}
        result = ask(endpoint, MODERN, "tools/call", params, {"X-Shop": shop}).result
        assert result["content"][0]["text"] == "rain"

    assert made == [(service.client, service.async_client, shop) for shop in ("a", "b")]


def test_what_nobody_provides_is_told_at_start() -> None:
    @mcp_endpoint(server_name="made")
    class Made:
        def __init__(self, weather: Weather) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Made.__init__\(weather: Weather\)"):
        Service("made", endpoints=[Made])


def test_a_log_line_of_a_bug_names_the_method(caplog: pytest.LogCaptureFixture) -> None:
    ask(ENDPOINT, MODERN, "resources/read", {"uri": "all://carts/2"})

    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "All.cart" in record.getMessage()


_CLIENT = {"name": "test", "version": "1"}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
