"""The transfer of the example: its ways, its tools over MCP, its approvals over HTTP."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from examples.transfer_workflow.application import (
    APPROVAL_FROM,
    APPROVE_WITHIN,
    DEADLINE,
    Transfer,
    WalletEntity,
)
from examples.transfer_workflow.service import service
from greenroom import CommandError, WorkflowClient
from greenroom.errors import WorkflowSuspendedError
from greenroom.testkit import ServiceTestKit
from tests.support.eventually import eventually

ADA = 200_000
"""What is in Ada's wallet at first, in cents."""


class Bank:
    """The running service, with some money in Ada's wallet."""

    def __init__(self, kit: ServiceTestKit) -> None:
        self.kit = kit
        self.wallet("ada").ask(WalletEntity.open, ADA)

    def wallet(self, name: str) -> Any:
        return self.kit.client.for_event_sourced_entity(WalletEntity, name)

    def transfer(self, name: str) -> WorkflowClient[Transfer]:
        return self.kit.client.for_workflow(Transfer, name)

    def balances(self) -> tuple[int, int]:
        return self.wallet("ada").ask(WalletEntity.balance), self.wallet("bob").ask(
            WalletEntity.balance
        )

    def end(self, name: str) -> tuple[str, str, str | None]:
        """Stage, status and reason, once it is over."""
        transfer = self.transfer(name)
        assert eventually(lambda: transfer.status().status in ("ended", "failed"))
        status = transfer.status()
        return transfer.ask(Transfer.get).status, status.status, status.reason


@pytest.fixture
def bank() -> Iterator[Bank]:
    with ServiceTestKit(service) as kit:
        yield Bank(kit)


# -- the ways through ------------------------------------------------------------------------


def test_money_arrives(bank: Bank) -> None:
    bank.transfer("t").ask(Transfer.start, "ada", "bob", 3_000)

    assert bank.end("t") == ("done", "ended", None)
    assert bank.balances() == (ADA - 3_000, 3_000)


def test_what_is_not_there_can_t_be_moved(bank: Bank) -> None:
    bank.transfer("t").ask(Transfer.start, "bob", "ada", 3_000)

    assert bank.end("t") == ("declined", "failed", "There are only 0 cents.")
    assert bank.balances() == (ADA, 0)


def test_what_is_declined_at_the_other_end_comes_back(bank: Bank) -> None:
    bank.wallet("bob").ask(WalletEntity.freeze)
    bank.transfer("t").ask(Transfer.start, "ada", "bob", 3_000)

    def over_after_another_pause() -> bool:
        bank.kit.advance(timedelta(seconds=5))
        return bank.transfer("t").status().status == "failed"

    assert eventually(over_after_another_pause)
    said, status, reason = bank.end("t")
    assert (said, status) == ("returned", "failed")
    assert "The wallet is frozen." in str(reason)
    assert bank.balances() == (ADA, 0)


def test_the_same_transfer_is_started_once(bank: Bank) -> None:
    order = ("ada", "bob", 3_000)
    bank.transfer("t").ask(Transfer.start, *order)
    with pytest.raises(CommandError, match="started before"):
        bank.transfer("t").ask(Transfer.start, *order)
    with pytest.raises(CommandError, match="can't pay itself"):
        bank.transfer("u").ask(Transfer.start, "ada", "ada", 3_000)

    bank.end("t")
    assert bank.balances() == (ADA - 3_000, 3_000)


def test_a_wallet_moves_once_for_each_transfer_and_not_after_it_was_taken_back(
    bank: Bank,
) -> None:
    """Whoever asks, and however late: a step's idempotency key is not what this rests on."""
    ada, bob = bank.wallet("ada"), bank.wallet("bob")
    for _ in range(2):
        ada.ask(WalletEntity.withdraw, "t", 1_000)
    for _ in range(2):
        assert not bob.ask(WalletEntity.refuse, "t")
        bob.ask(WalletEntity.deposit, "t", 1_000)
        ada.ask(WalletEntity.give_back, "t")
        ada.ask(WalletEntity.withdraw, "t", 1_000)
    assert bank.balances() == (ADA, 0)

    for _ in range(2):
        bob.ask(WalletEntity.deposit, "u", 1_000)
        assert bob.ask(WalletEntity.refuse, "u")
    assert bank.balances() == (ADA, 1_000)


# -- approval and deadline -------------------------------------------------------------------


@pytest.fixture
def waiting(bank: Bank) -> Bank:
    """A large transfer waits for an approval."""
    bank.transfer("t").ask(Transfer.start, "ada", "bob", APPROVAL_FROM)
    assert bank.transfer("t").status().status == "paused"
    assert bank.balances() == (ADA, 0)
    return bank


def test_a_person_approves(waiting: Bank) -> None:
    answer = waiting.kit.http.post("/transfers/t/approve", params={"by": "grace"})

    assert (answer.status_code, answer.json()["approved_by"]) == (200, "grace")
    assert waiting.end("t")[:2] == ("done", "ended")
    assert waiting.balances() == (ADA - APPROVAL_FROM, APPROVAL_FROM)


def test_a_person_may_refuse(waiting: Bank) -> None:
    answer = waiting.kit.http.post("/transfers/t/reject", params={"by": "grace"})

    assert answer.status_code == 200
    assert waiting.end("t") == ("rejected", "failed", "rejected by grace")
    too_late = waiting.kit.http.post("/transfers/t/approve", params={"by": "grace"})
    assert too_late.status_code == 400
    assert too_late.json()["detail"] == "Nothing to approve: the transfer is rejected."
    assert waiting.balances() == (ADA, 0)


def test_nobody_waits_for_ever(waiting: Bank) -> None:
    waiting.kit.advance(APPROVE_WITHIN)

    assert waiting.end("t") == ("expired", "failed", "nobody approved in time")
    assert waiting.balances() == (ADA, 0)


def test_the_deadline_comes_while_it_is_suspended_and_holds_when_it_is_resumed(
    waiting: Bank,
) -> None:
    transfer = waiting.transfer("t")
    transfer.suspend("the bank is closed")
    with pytest.raises(WorkflowSuspendedError):
        transfer.ask(Transfer.approve, "grace")
    assert waiting.kit.http.post("/transfers/t/approve", params={"by": "grace"}).status_code == 409
    waiting.kit.advance(DEADLINE + timedelta(seconds=1))
    assert transfer.status().suspended
    transfer.resume()

    assert waiting.end("t")[:2] == ("expired", "failed")
    assert waiting.balances() == (ADA, 0)


# -- over MCP --------------------------------------------------------------------------------


def test_the_commands_that_were_chosen_are_tools_and_nothing_else_is(bank: Bank) -> None:
    """No step, no approval, nothing of the engine."""
    tools = {one["name"]: one for one in bank.kit.mcp().list_tools()}

    assert set(tools) == {"transfer_start", "transfer_get", "wallet_open", "wallet_balance"}
    start = tools["transfer_start"]["inputSchema"]
    assert start["required"] == ["transfer_id", "source", "target", "amount"]
    assert start["properties"]["transfer_id"]["type"] == "string"
    assert tools["transfer_get"]["inputSchema"]["required"] == ["transfer_id"]
    assert tools["transfer_get"]["annotations"]["readOnlyHint"] is True
    assert tools["transfer_start"]["annotations"]["readOnlyHint"] is False


@pytest.mark.parametrize(
    "name",
    ["withdraw", "deposit", "take_back", "give_up", "approve", "expire", "settings", "$terminate"],
)
def test_what_is_no_tool_can_t_be_called(bank: Bank, name: str) -> None:
    with pytest.raises(ValueError, match=r"refused tools/call: .*tool"):
        bank.kit.mcp().call_tool(f"transfer_{name}", {"transfer_id": "t"})


def test_a_model_moves_money_and_asks_what_became_of_it(bank: Bank) -> None:
    mcp = bank.kit.mcp()
    order = {"transfer_id": "t", "source": "ada", "target": "bob", "amount": 3_000}
    assert mcp.call_tool("transfer_start", order).text == "started"
    bank.end("t")

    # A handler that only reads answers after the end, too.
    seen = mcp.call_tool("transfer_get", {"transfer_id": "t"})
    assert seen.structured is not None
    assert seen.structured["status"] == "done"
    again = mcp.call_tool("transfer_start", order)
    assert (again.is_error, again.text) == (True, "This transfer was started before.")
    wrong = mcp.call_tool("transfer_start", {**order, "transfer_id": "w", "amount": 0})
    assert wrong.is_error
    assert "amount" in wrong.text
    assert bank.balances() == (ADA - 3_000, 3_000)
