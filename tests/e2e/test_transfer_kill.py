"""Transfers of money in a server that is killed: at every boundary of every step, and at random.

Each one comes to one of its legal ends, and the wallets hold what these ends say.
"""

import asyncio
import json
import os
import random
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client

from tests.support.eventually import eventually
from tests.support.server import ServerProcess

BANK = "tests.support.killed_bank:service"
RICH, FROZEN = 100_000_000, 5_000
END_SECONDS = 40.0


@dataclass(frozen=True)
class Order:
    """A transfer that somebody asks for, and how it ends if nothing is killed."""

    source: str
    target: str
    amount: int
    end: str
    approved: bool = False


ORDERS = {
    "plain": Order("rich", "poor", 700, "done"),
    "too-much": Order("poor-too", "rich", 900, "declined"),
    "frozen": Order("rich", "frozen", 300, "returned"),
    "large": Order("rich", "poor", 250_000, "done", approved=True),
}
"""One for each way through the workflow."""
LEGAL = {
    "done": "ended",
    "declined": "failed",
    "returned": "failed",
    "rejected": "failed",
    "expired": "failed",
}


class Bank:
    """A bank in a process, and those who use it."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self.server = self._server()

    def _server(self) -> ServerProcess:
        # Often, since pauses that have run out meanwhile are found by sweeps.
        return ServerProcess(BANK, self.database_url, sweep_every="0.5")

    def start(self) -> None:
        """Start it, as the environment says now."""
        self.server = self._server()
        self.server.start()

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        assert self.server.process is not None
        return self.server.process.poll() is not None

    async def ask_for(self, orders: Mapping[str, Order]) -> None:
        """Fill the wallets and begin the transfers; the same again does nothing again."""
        async with Client(f"{self.server.url}/mcp") as client:
            await self._call(client, "wallet_open", "rich", wallet_id="rich", balance=RICH)
            await self._call(client, "wallet_open", "frozen", wallet_id="frozen", balance=FROZEN)
            await asyncio.to_thread(self.post, "/wallets/frozen/freeze")
            await asyncio.gather(
                *(
                    self._call(
                        client,
                        "transfer_start",
                        name,
                        transfer_id=name,
                        source=one.source,
                        target=one.target,
                        amount=one.amount,
                    )
                    for name, one in orders.items()
                )
            )
        for name, one in orders.items():
            if one.approved and self.look(name)[0] == "waiting for approval":
                await asyncio.to_thread(self.post, f"/transfers/{name}/approve?by=ada")

    async def _call(self, client: Any, tool: str, key: str, **arguments: object) -> None:
        meta = {"greenroom/idempotencyKey": f"{tool} {key}"}
        result = await asyncio.wait_for(client.call_tool(tool, arguments, meta=meta), 20)
        assert not result.is_error, result

    def post(self, path: str) -> None:
        """Use one of its routes."""
        request = urllib.request.Request(f"{self.server.url}{path}", method="POST")
        with urllib.request.urlopen(request, timeout=20):
            pass

    def look(self, name: str) -> tuple[str, str]:
        """What a transfer says of itself, and where its workflow stands."""
        with urllib.request.urlopen(f"{self.server.url}/transfers/{name}", timeout=20) as answer:
            said, status = json.load(answer)
        return said, status

    def ends(self, orders: Mapping[str, Order]) -> dict[str, str]:
        """How every transfer ended; waits for it."""
        over = {"ended", "failed"}
        assert eventually(
            lambda: all(self.look(name)[1] in over for name in orders), seconds=END_SECONDS
        ), {name: self.look(name) for name in orders}
        seen = {name: self.look(name) for name in orders}
        assert {name: LEGAL[said] for name, (said, _) in seen.items()} == {
            name: status for name, (_, status) in seen.items()
        }
        return {name: said for name, (said, _) in seen.items()}

    async def balances(self, wallets: set[str]) -> dict[str, int]:
        """What is in the wallets."""
        async with Client(f"{self.server.url}/mcp") as client:
            found = {}
            for wallet in wallets:
                result = await client.call_tool("wallet_balance", {"wallet_id": wallet})
                content: Any = result.content[0]
                found[wallet] = int(content.text)
            return found

    def check_books(self, orders: Mapping[str, Order], ends: Mapping[str, str]) -> None:
        """Every wallet holds what the ends of the transfers say, to the cent."""
        expected = {one.source: 0 for one in orders.values()}
        expected |= {one.target: 0 for one in orders.values()}
        expected |= {"rich": RICH, "frozen": FROZEN}
        for name, one in orders.items():
            if ends[name] == "done":
                expected[one.source] -= one.amount
                expected[one.target] += one.amount
        assert asyncio.run(self.balances(set(expected))) == expected


def ask_until_killed(bank: Bank, orders: Mapping[str, Order]) -> None:
    """What is asked for may break off: the server goes away under it."""
    try:
        asyncio.run(bank.ask_for(orders))
    except Exception:
        # The MCP client says in many ways that its server is gone; that it is, is looked at below.
        assert eventually(bank.has_ended)
    assert eventually(bank.has_ended, seconds=20), "the point was never reached"
    assert bank.server.process is not None
    assert bank.server.process.returncode == -signal.SIGKILL


def kill_and_check(
    url: str, point: str, monkeypatch: pytest.MonkeyPatch, orders: Mapping[str, Order]
) -> dict[str, str]:
    """Kill the server at a point, start it again, and see how everything ends."""
    bank = Bank(url)
    monkeypatch.setenv("BANK_KILL_AT", point)
    try:
        bank.start()
        ask_until_killed(bank, orders)
        monkeypatch.delenv("BANK_KILL_AT")
        bank.start()
        asyncio.run(bank.ask_for(orders))
        ends = bank.ends(orders)
        bank.check_books(orders, ends)
    finally:
        bank.server.kill()
    return ends


def expected(orders: Mapping[str, Order]) -> dict[str, str]:
    return {name: one.end for name, one in orders.items()}


@pytest.mark.timeout(120)
def test_a_step_that_was_killed_after_its_call_does_it_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The money is there, and nothing is stored about it: the worst moment."""
    ends = kill_and_check(database_url, "called:deposit:1", monkeypatch, ORDERS)

    assert ends == expected(ORDERS)


POINTS = [
    f"{moment}:{step}{number}"
    for step in ("withdraw", "deposit", "take_back")
    for moment, number in (("begin", ""), ("called", ":1"), ("result", ""))
] + ["called:take_back:2"]
IN_SHORT = os.environ.get("GREENROOM_SHORT") == "1"
"""Set where every change is checked: some commits then stand for all, which `make test-all` tries."""
COMMITS = [
    f"{side}:{number}"
    for number in range(1, 15, 5 if IN_SHORT else 1)
    for side in ("before", "after")
]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", [*POINTS, *COMMITS])
def test_a_kill_at_any_boundary_changes_no_end(
    database_url: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kill_and_check(database_url, point, monkeypatch, ORDERS) == expected(ORDERS)


LAST = [
    "begin:give_up",
    "called:give_up:1",
    "result:give_up",
]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("killed_at", [*LAST, "called:give_up:2"])
def test_the_deadline_gives_the_money_back(
    database_url: str, killed_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The money is taken, and its step fails all the same, until the time is up."""
    monkeypatch.setenv("BANK_DEADLINE", "2")
    monkeypatch.setenv("BANK_FAIL_AT", "called:withdraw:1")
    orders = {"late": Order("rich", "poor", 700, "returned")}

    assert kill_and_check(database_url, killed_at, monkeypatch, orders) == expected(orders)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("killed_at", LAST)
def test_the_deadline_leaves_what_has_arrived(
    database_url: str, killed_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deposit went in, its step failed all the same, and so does what takes it back."""
    monkeypatch.setenv("BANK_DEADLINE", "2")
    monkeypatch.setenv("BANK_FAIL_AT", "called:deposit:1,begin:take_back")
    orders = {"late": Order("rich", "poor", 700, "done")}

    assert kill_and_check(database_url, killed_at, monkeypatch, orders) == expected(orders)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_approval_that_never_came_ends_it_after_a_kill(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause runs out while no server runs."""
    monkeypatch.setenv("BANK_APPROVE_WITHIN", "1")
    orders = {"large": Order("rich", "poor", 250_000, "expired")}

    assert kill_and_check(database_url, "after:4", monkeypatch, orders) == expected(orders)


ROUNDS = 8


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_at_random_moments_lose_and_make_no_money(database_url: str) -> None:
    chance = random.Random(11)
    bank = Bank(database_url)
    orders: dict[str, Order] = {}
    try:
        for round_ in range(ROUNDS):
            orders |= {
                f"{name}-{round_}-{number}": one
                for name, one in ORDERS.items()
                for number in range(5)
            }
            bank.start()
            asyncio.run(_ask_and_kill(bank, orders, chance.uniform(0.05, 1.5)))
        bank.start()
        asyncio.run(bank.ask_for(orders))
        ends = bank.ends(orders)
        assert ends == expected(orders)
        bank.check_books(orders, ends)
    finally:
        bank.server.kill()


async def _ask_and_kill(bank: Bank, orders: Mapping[str, Order], seconds: float) -> None:
    async def ask() -> None:
        try:
            await bank.ask_for(orders)
        except Exception:
            # Killed under it; or overtaken by the approval of another round.
            return

    async def kill() -> None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(bank.server.kill)

    await asyncio.gather(ask(), kill())
