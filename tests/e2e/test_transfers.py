"""Money that is moved by a workflow in a process that is killed: neither lost nor made."""

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from tests.support.server import ServerProcess

BANK = "tests.support.killed_bank:service"
OPENED = 150_000
LEGAL_ENDS = {"done", "declined", "rejected", "expired", "returned"}
STEPS = ("withdraw", "deposit", "take_back")


async def tool(client: Client, name: str, key: str | None = None, **arguments: Any) -> Any:
    meta: Any = None if key is None else {"greenroom/idempotencyKey": key}
    result = await client.call_tool(name, arguments, meta=meta)
    assert not result.is_error, result
    return result.structured_content or result.content[0].text  # type: ignore[union-attr]


class Bank:
    """A server, what was asked of it, and what must be true in the end."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.wallets = ("ann", "bob", "eve")
        self.transfers: dict[str, tuple[str, str, int]] = {}
        self._reviving = threading.Lock()

    async def open(self) -> None:
        async with Client(f"{self.server.url}/mcp") as client:
            for wallet in self.wallets:
                await tool(client, "wallet_open", wallet, wallet_id=wallet, balance=OPENED)

    async def freeze(self, wallet: str) -> None:
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{self.server.url}/wallets/{wallet}/freeze")
            answer.raise_for_status()

    async def start(self, transfer: str, source: str, target: str, amount: int) -> None:
        """Start a transfer, whether or not the server is killed under it."""
        self.transfers[transfer] = (source, target, amount)
        for _ in range(20):
            try:
                async with Client(f"{self.server.url}/mcp") as client:
                    await asyncio.wait_for(
                        tool(
                            client,
                            "transfer_start",
                            transfer,
                            transfer_id=transfer,
                            source=source,
                            target=target,
                            amount=amount,
                        ),
                        10,
                    )
            except Exception:
                await asyncio.to_thread(self.revive)
            else:
                return
        raise AssertionError(f"{transfer} could not be started")

    def revive(self) -> None:
        """Start the server again, if it was killed."""
        with self._reviving:
            process = self.server.process
            if process is not None and process.poll() is not None:
                self.server.start()

    def kill(self) -> None:
        """Kill the server, unless it is being started."""
        with self._reviving:
            self.server.kill()

    async def approve(self, transfer: str) -> None:
        async with httpx.AsyncClient() as http:
            answer = await http.post(
                f"{self.server.url}/transfers/{transfer}/approve", params={"by": "ann"}
            )
            answer.raise_for_status()

    async def settle(self) -> dict[str, str]:
        """Until every transfer has come to an end; how each did."""
        ends: dict[str, str] = {}
        async with asyncio.timeout(60):
            while ends.keys() != self.transfers.keys():
                await asyncio.to_thread(self.revive)
                try:
                    async with Client(f"{self.server.url}/mcp") as client:
                        for transfer in self.transfers.keys() - ends.keys():
                            got = await tool(client, "transfer_get", transfer_id=transfer)
                            if got["status"] in LEGAL_ENDS:
                                ends[transfer] = got["status"]
                except Exception:
                    continue
        return ends

    async def balances(self) -> dict[str, int]:
        async with Client(f"{self.server.url}/mcp") as client:
            return {
                wallet: int(await tool(client, "wallet_balance", wallet_id=wallet))
                for wallet in self.wallets
            }

    async def check(self) -> dict[str, str]:
        """Every transfer is at a legal end, and every cent is where that says."""
        ends = await self.settle()
        expected = dict.fromkeys(self.wallets, OPENED)
        for transfer, (source, target, amount) in self.transfers.items():
            if ends[transfer] == "done":
                expected[source] -= amount
                expected[target] += amount
        assert await self.balances() == expected
        return ends


@pytest.fixture
def killed_at(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    database_url: str,
) -> Iterator[Bank]:
    """A bank that will be killed at the point that the test names."""
    monkeypatch.setenv("KILL_AT", getattr(request, "param", ""))
    monkeypatch.setenv("KILL_MARK", str(tmp_path / "killed"))
    with ServerProcess(BANK, database_url) as server:
        yield Bank(server)


async def one_of_each(bank: Bank) -> dict[str, str]:
    await bank.open()
    await bank.freeze("eve")
    await bank.start("plain", "ann", "bob", 500)
    await bank.start("too-much", "bob", "ann", 99_999)
    await bank.start("to-frozen", "ann", "eve", 700)
    await bank.start("large", "bob", "ann", 100_000)
    await bank.start("too-large", "ann", "bob", 10_000_000)
    for transfer in ("large", "too-large"):
        await asyncio.to_thread(bank.revive)
        await bank.approve(transfer)
    return await bank.check()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("killed_at", ["deposit:after"], indirect=True)
def test_money_is_neither_lost_nor_made_by_a_kill(killed_at: Bank, tmp_path: Path) -> None:
    ends = asyncio.run(one_of_each(killed_at))

    assert ends == {
        "plain": "done",
        "too-much": "done",
        "to-frozen": "returned",
        "large": ends["large"],
        "too-large": "declined",
    }
    assert (tmp_path / "killed").exists()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "killed_at", [f"{step}:{side}" for step in STEPS for side in ("before", "after")], indirect=True
)
def test_a_kill_at_any_boundary_of_a_step(killed_at: Bank, tmp_path: Path) -> None:
    ends = asyncio.run(one_of_each(killed_at))

    assert ends["to-frozen"] == "returned"
    assert ends["plain"] == "done"
    assert (tmp_path / "killed").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_at_random_moments(killed_at: Bank) -> None:
    chance = random.Random(11)

    async def run() -> None:
        bank = killed_at
        await bank.open()
        for round_ in range(6):
            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    source, target = chance.sample(bank.wallets, 2)
                    name = f"t-{round_}-{number}"
                    group.create_task(bank.start(name, source, target, chance.randint(1, 900)))
                await asyncio.sleep(chance.uniform(0.01, 0.3))
                await asyncio.to_thread(bank.kill)
                await asyncio.to_thread(bank.revive)
        ends = await bank.check()
        assert set(ends.values()) <= {"done", "declined"}
        assert len(ends) == 72

    asyncio.run(run())
