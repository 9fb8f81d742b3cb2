"""A command that a person must agree to, over MCP and over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import ElicitResult

from greenroom import (
    Effect,
    KeyValueEntity,
    ReadOnlyEffect,
    Service,
    Settings,
    ToolCall,
    component,
    function_tool,
    mcp_endpoint,
)
from tests.support.served import served


def is_large(call: ToolCall) -> bool:
    return bool(call.arguments["amount"] > 100)


@component("wallet")
class Wallet(KeyValueEntity[int]):
    """Somebody's money."""

    def empty_state(self) -> int:
        return 0

    @function_tool(description="Pays.", requires_approval=is_large)
    def pay(self, amount: int) -> Effect[int]:
        return self.effects.update_state(self.state + amount).then_reply(self.state + amount)

    @function_tool(description="Says what was paid.")
    def paid(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state)


@mcp_endpoint(server_name="wallets", tools=[Wallet], http=True)
class WalletsMcp:
    """Wallets, for MCP clients."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("wallets")
    settings = Settings(database_url=f"sqlite:///{folder}/test.db")
    service = Service("wallets", components=[Wallet], endpoints=[WalletsMcp], settings=settings)
    with served(service.app) as found:
        yield found


async def pay(address: str, wallet: str, amount: int, *, mode: str, answer: Any) -> tuple[Any, int]:
    """The result of paying, what was asked, and what the wallet says afterwards."""
    asked: list[str] = []

    async def callback(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(**answer)

    options = {} if answer is None else {"elicitation_callback": callback}
    async with Client(f"{address}/mcp", mode=mode, **options) as client:  # type: ignore[arg-type]
        result = await client.call_tool("wallet_pay", {"wallet_id": wallet, "amount": amount})
        after = await client.call_tool("wallet_paid", {"wallet_id": wallet})
    paid = int(after.content[0].text)  # type: ignore[union-attr]
    if asked:
        assert "wallet_pay" in asked[0]
        assert f'"amount":{amount}' in asked[0]
    return result, paid


YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "accept", "content": {"approve": False}}
DECLINED = {"action": "decline"}


async def test_a_person_who_agrees_is_asked_once_and_it_is_carried_out(address: str) -> None:
    result, paid = await pay(address, "yes", 500, mode="2026-07-28", answer=YES)

    assert not result.is_error
    assert paid == 500


@pytest.mark.parametrize("answer", [NO, DECLINED, {"action": "cancel"}])
async def test_a_person_who_does_not_agree_is_heard(address: str, answer: Any) -> None:
    result, paid = await pay(address, "no", 500, mode="2026-07-28", answer=answer)

    assert result.is_error
    assert "did not approve" in result.content[0].text
    assert paid == 0


@pytest.mark.parametrize(("mode", "answer"), [("legacy", YES), ("2026-07-28", None)])
async def test_where_nobody_can_be_asked_nothing_is_done(
    address: str, mode: str, answer: Any
) -> None:
    result, paid = await pay(address, "nobody", 500, mode=mode, answer=answer)

    assert result.is_error
    assert "needs the approval of a person" in result.content[0].text
    assert paid == 0


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_what_needs_no_approval_is_just_done(address: str, mode: str) -> None:
    result, paid = await pay(address, f"small-{mode}", 50, mode=mode, answer=None)

    assert not result.is_error
    assert paid == 50


def test_an_answer_to_a_question_that_was_never_asked_is_none(address: str) -> None:
    """A client can't approve ahead, nor with the approval of another call."""

    def call(amount: int, **more: Any) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }
        params = {
            "name": "wallet_pay",
            "arguments": {"wallet_id": "ahead", "amount": amount},
            "_meta": meta,
            **more,
        }
        headers = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "wallet_pay",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx.post(f"{address}/mcp", json=body, headers=headers).json()

    responses = {"greenroom/approval": YES}
    first = call(500, inputResponses=responses)["result"]
    assert first["resultType"] == "input_required"
    other = call(501, inputResponses=responses, requestState=first["requestState"])
    assert other["error"]["code"] == -32602
    done = call(500, inputResponses=responses, requestState=first["requestState"])["result"]
    assert done["content"][0]["text"] == "500"


def test_plain_http_can_ask_nobody(address: str) -> None:
    path = f"{address}/mcp/tools/wallet_pay"

    refused = httpx.post(path, json={"wallet_id": "http", "amount": 500})
    done = httpx.post(path, json={"wallet_id": "http", "amount": 5})

    assert (refused.status_code, refused.json()["code"]) == (400, "tool-failed")
    assert done.json() == 5
