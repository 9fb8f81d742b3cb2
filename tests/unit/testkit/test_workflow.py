"""A workflow under test: held, crashed, and hurried through time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from greenroom import (
    AsyncComponentClient,
    Backoff,
    BranchEffect,
    ChildOutcome,
    CommandError,
    Compensate,
    ComponentClient,
    Effect,
    Fail,
    KeyValueEntity,
    ReadOnlyEffect,
    Retry,
    Service,
    StepEffect,
    Workflow,
    WorkflowSettings,
    call,
    component,
    step,
)
from greenroom.testkit import ServiceTestKit, StepCall, WorkflowTestKit

START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Bank:
    """What a transfer depends on outside: declines as often as it is told to."""

    def __init__(self) -> None:
        self.refuses = 0
        self.hangs: threading.Event | None = None
        self.told: list[str] = []

    def check(self) -> None:
        if self.hangs is not None:
            self.hangs.wait(20)
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("the bank is closed")


@component("purse")
class Purse(KeyValueEntity[int]):
    """Money of somebody."""

    def empty_state(self) -> int:
        return 100

    def add(self, amount: int) -> Effect[int]:
        if self.state + amount < 0:
            raise CommandError("Not enough money.")
        return self.effects.update_state(self.state + amount).then_reply(self.state + amount)

    def amount(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state)


@component("remittance")
class Remittance(Workflow[str]):
    """Takes money from one purse to another, and back if that fails."""

    def __init__(
        self, client: ComponentClient, async_client: AsyncComponentClient, bank: Bank
    ) -> None:
        self.client = client
        self.async_client = async_client
        self.bank = bank

    def empty_state(self) -> str:
        return ""

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            timeout=timedelta(days=2),
            on_timeout=call(self.too_late),
            recovery=Retry(
                max_retries=2,
                backoff=Backoff(min=MINUTE, max=MINUTE, jitter=0.0),
                failover_to=Compensate(),
            ),
        )

    def start(self, amount: int) -> Effect[str]:
        if amount <= 0:
            raise CommandError("Nothing to send.")
        begun = self.effects.update_state("begun").transition_to(self.withdraw, amount)
        return begun.then_run(lambda _state: self.bank.told.append("begun")).then_reply("ok")

    def approval(self) -> Effect[str]:
        return self.effects.pause(
            "to be approved", timeout=timedelta(hours=1), on_timeout=call(self.forget)
        ).then_reply("waiting")

    def approve(self) -> Effect[str]:
        return self.effects.transition_to(self.withdraw, 1).then_reply("approved")

    def forget(self) -> Effect[None]:
        return self.effects.fail("nobody approved").then_reply(None)

    def where(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(self.state)

    def fan_out(self, names: list[str]) -> Effect[str]:
        return self.effects.for_each(self.quote, names, then=self.choose).then_reply("ok")

    def send_child(self) -> Effect[str]:
        child = self.client.for_workflow(Remittance, "child").deferred(Remittance.start, 1)
        return self.effects.parallel(child, then=self.note).then_reply("ok")

    @step
    def withdraw(self, amount: int) -> StepEffect:
        purse = self.client.for_key_value_entity(Purse, "from")
        assert purse.ask(Purse.amount) >= amount
        purse.ask(Purse.add, -amount)
        changed = self.step_effects.update_state("withdrawn")
        return changed.compensate_with(self.refund, amount).transition_to(self.deposit, amount)

    @step
    async def deposit(self, amount: int) -> StepEffect:
        await self.async_client.for_key_value_entity(Purse, "to").ask(Purse.add, amount)
        await asyncio.to_thread(self.bank.check)
        return self.step_effects.update_state("deposited").end()

    @step
    def refund(self, amount: int) -> StepEffect:
        self.client.for_key_value_entity(Purse, "from").ask(Purse.add, amount)
        return self.step_effects.done()

    @step
    def too_late(self) -> StepEffect:
        return self.step_effects.fail("too late")

    @step
    def quote(self, name: str) -> BranchEffect[int]:
        return self.step_effects.result(len(name))

    @step
    def choose(self, lengths: list[int]) -> StepEffect:
        return self.step_effects.update_state(str(max(lengths))).end()

    @step
    def note(self, outcomes: list[ChildOutcome]) -> StepEffect:
        return self.step_effects.update_state(outcomes[0].status).end()


def new_kit(bank: Bank | None = None, **options: Any) -> WorkflowTestKit[Remittance, str]:
    return WorkflowTestKit(
        Remittance,
        workflow_id="r-1",
        dependencies={Bank: bank or Bank()},
        components=[Purse],
        **options,
    )


def money(kit: ServiceTestKit) -> tuple[int, int]:
    first, second = (
        kit.client.for_key_value_entity(Purse, name).ask(Purse.amount) for name in ("from", "to")
    )
    return first, second


def test_a_workflow_runs_to_its_end() -> None:
    bank = Bank()
    with new_kit(bank) as kit:
        assert kit.status().status == "not-started"
        assert kit.ask(Remittance.start, 5) == "ok"

        assert kit.status().status == "ended"
        assert kit.state == kit.ask(Remittance.where) == "deposited"
        assert kit.trace == ["withdraw", "deposit"]
        assert kit.calls == [
            StepCall("withdraw", "purse", "from", "amount"),
            StepCall("withdraw", "purse", "from", "add", {"amount": -5}),
            StepCall("deposit", "purse", "to", "add", {"amount": 5}),
        ]
        assert [(one.cause, one.name) for one in kit.history] == [
            ("command", "start"),
            ("step", "withdraw"),
            ("step", "deposit"),
        ]
        assert bank.told == ["begun"]
        assert money(kit) == (95, 105)


def test_what_is_declined_is_raised() -> None:
    with new_kit() as kit:
        with pytest.raises(CommandError, match="Nothing to send"):
            kit.ask(Remittance.start, 0)
        assert kit.trace == []


def test_a_step_can_be_held_up() -> None:
    with new_kit() as kit:
        kit.stop_before(Remittance.deposit)
        kit.ask(Remittance.start, 5)
        assert kit.trace == ["withdraw"]
        assert (kit.state, kit.status().steps) == ("withdrawn", ("deposit",))
        assert money(kit) == (95, 100)
        assert kit.ask(Remittance.where) == "withdrawn"
        with pytest.raises(AssertionError, match="deposit is held up"):
            kit.ask(Remittance.approve)

        kit.go_on()
        assert kit.trace == ["withdraw", "deposit"]
        assert kit.status().status == "ended"
        with pytest.raises(AssertionError, match="nothing is held up"):
            kit.go_on()


def test_a_thread_can_be_held_up_too() -> None:
    with new_kit() as kit:
        kit.stop_before("withdraw")
        kit.ask(Remittance.start, 5)
        assert kit.trace == []
        kit.go_on()
        assert kit.trace == ["withdraw", "deposit"]


@pytest.mark.parametrize("name", ["withdraw", "deposit"])
def test_a_crash_before_a_step_runs_it_once(name: str) -> None:
    with new_kit() as kit:
        kit.crash_before(name)
        kit.ask(Remittance.start, 5)
        assert kit.trace == ["withdraw", "deposit"]
        assert kit.status().status == "ended"
        assert money(kit) == (95, 105)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["withdraw", "deposit"])
def test_a_crash_after_a_step_runs_it_again_without_calling_twice(name: str, times: int) -> None:
    with new_kit() as kit:
        for _ in range(times):
            kit.crash_after(name)
        kit.ask(Remittance.start, 5)
        expected = ["withdraw", "deposit"]
        expected[expected.index(name)] = name
        assert sorted(kit.trace) == sorted(expected + [name] * times)
        assert kit.trace.count(name) == 1 + times
        # Its crash was no failure of the step.
        assert {one.attempt for one in kit.history} <= {None, 1}
        assert money(kit) == (95, 105)


def test_a_crash_now_brings_back_what_was_stored() -> None:
    with new_kit() as kit:
        kit.stop_before(Remittance.deposit)
        kit.ask(Remittance.start, 5)
        kit.crash()
        assert kit.trace == ["withdraw", "deposit"]
        assert money(kit) == (95, 105)


def test_a_restart_lets_a_held_step_run_again() -> None:
    with new_kit() as kit:
        kit.stop_before(Remittance.withdraw)
        kit.ask(Remittance.start, 5)
        kit.restart()
        assert kit.trace == ["withdraw", "deposit"]


def test_retries_take_the_time_of_the_kit() -> None:
    bank = Bank()
    bank.refuses = 2
    with new_kit(bank) as kit:
        kit.ask(Remittance.start, 5)
        status = kit.status()
        assert (status.status, status.attempt, status.next_at) == ("retrying", 2, START + MINUTE)
        kit.advance(MINUTE - timedelta(milliseconds=1))
        assert kit.trace == ["withdraw", "deposit"]
        kit.advance(timedelta(milliseconds=1))
        assert kit.trace == ["withdraw", "deposit", "deposit"]
        kit.advance(MINUTE)
        assert kit.trace == ["withdraw", "deposit", "deposit", "deposit"]
        assert kit.status().status == "ended"
        assert money(kit) == (95, 105)


def test_what_comes_due_on_the_way_happens_in_order_and_at_its_time() -> None:
    bank = Bank()
    bank.refuses = 3
    with new_kit(bank) as kit:
        kit.ask(Remittance.start, 5)
        kit.advance(timedelta(hours=1))
        assert kit.trace == ["withdraw", "deposit", "deposit", "deposit", "refund"]
        assert (kit.status().status, money(kit)) == ("failed", (100, 105))
        attempts = [one for one in kit.history if one.name == "deposit"]
        assert [one.timestamp - START for one in attempts] == [0 * MINUTE, MINUTE, 2 * MINUTE]
        assert kit.clock.now_ms() == int(START.timestamp() * 1000) + 3_600_000


@pytest.mark.parametrize("name", ["withdraw", "deposit"])
def test_a_step_that_is_held_up_times_out(name: str) -> None:
    with new_kit() as kit:
        kit.stop_before(name)
        kit.ask(Remittance.start, 5)
        kit.advance(timedelta(seconds=4.999))
        assert kit.status().attempt == 1
        kit.advance(timedelta(milliseconds=1))
        assert kit.status().status == "retrying"
        assert "5" in (kit.status().last_error or "")
        kit.advance(MINUTE)
        assert kit.trace == ["withdraw", "deposit"]
        assert kit.status().status == "ended"


def test_a_step_that_hangs_by_itself_times_out() -> None:
    bank = Bank()
    bank.hangs = threading.Event()
    with new_kit(bank, patience=0.05) as kit:
        kit.ask(Remittance.start, 5)
        assert kit.status().status == "running"
        kit.advance(timedelta(seconds=5))
        assert kit.status().status == "retrying"
        bank.hangs.set()
        bank.hangs = None
        kit.advance(MINUTE)
        assert kit.status().status == "ended"
        assert money(kit) == (95, 105)


def test_a_pause_runs_out() -> None:
    with new_kit() as kit:
        kit.ask(Remittance.approval)
        assert kit.status().status == "paused"
        kit.advance(timedelta(minutes=59))
        assert kit.status().status == "paused"
        kit.advance(MINUTE)
        assert (kit.status().status, kit.status().reason) == ("failed", "nobody approved")


def test_a_pause_ends_with_an_answer() -> None:
    with new_kit() as kit:
        kit.ask(Remittance.approval)
        kit.crash()
        kit.ask(Remittance.approve)
        assert kit.trace == ["withdraw", "deposit"]
        kit.advance(timedelta(hours=2))
        assert kit.status().status == "ended"


def test_the_whole_workflow_runs_out_of_time() -> None:
    with new_kit() as kit:
        kit.ask(Remittance.approval)
        kit.suspend("audit")
        kit.advance(timedelta(days=3))
        kit.resume()
        assert kit.trace == ["too_late"]
        assert (kit.status().status, kit.status().reason) == ("failed", "too late")


def test_an_ended_workflow_is_steered_no_more() -> None:
    with new_kit() as kit:
        kit.stop_before(Remittance.deposit)
        kit.ask(Remittance.start, 5)
        kit.terminate("enough")
        assert (kit.status().status, kit.status().reason) == ("terminated", "enough")
        with pytest.raises(AssertionError, match="nothing is held up"):
            kit.go_on()
        assert kit.trace == ["withdraw"]


def test_branches_and_children_are_waited_for() -> None:
    with new_kit() as kit:
        kit.crash_after(Remittance.quote)
        kit.ask(Remittance.fan_out, ["a", "bcd", "ef"])
        assert kit.state == "3"
        assert kit.trace[:3] == ["quote"] * 3
        assert kit.trace[-1] == "choose"
    with new_kit() as kit:
        kit.ask(Remittance.send_child)
        assert (kit.state, kit.trace) == ("ended", ["note"])
        assert money(kit) == (99, 101)


def test_a_child_that_retries_is_waited_for_until_time_passes() -> None:
    bank = Bank()
    bank.refuses = 1
    with new_kit(bank) as kit:
        kit.ask(Remittance.send_child)
        assert kit.status().status == "running"
        kit.advance(MINUTE)
        assert (kit.state, kit.trace) == ("ended", ["note"])


@pytest.mark.parametrize(
    "arrange",
    [
        lambda kit: kit.stop_before("deposit"),
        lambda kit: kit.crash_before("deposit"),
        lambda kit: kit.crash_after("deposit"),
    ],
)
def test_what_was_arranged_must_come(arrange: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError, match=r"never came to .*\('deposit'\)"), new_kit() as kit:
        arrange(kit)


def test_only_steps_can_be_arranged() -> None:
    with new_kit() as kit:
        with pytest.raises(LookupError, match="no step 'depositt'"):
            kit.stop_before("depositt")
        with pytest.raises(LookupError):
            kit.crash_before(Remittance.start)


def test_a_service_kit_moves_all_its_workflows_through_time() -> None:
    bank = Bank()
    service = Service("bank", components=[Remittance, Purse], dependencies={Bank: bank})
    with ServiceTestKit(service) as kit:
        several = [kit.client.for_workflow(Remittance, f"r-{number}") for number in range(50)]
        for one in several:
            one.ask(Remittance.approval)
        kit.restart()
        kit.advance(timedelta(minutes=59))
        several = [kit.client.for_workflow(Remittance, f"r-{number}") for number in range(50)]
        for one in several[:25]:
            one.ask(Remittance.approve)
        kit.settle()
        assert [one.status().status for one in several] == ["ended"] * 25 + ["paused"] * 25
        kit.advance(MINUTE)
        assert [one.status().status for one in several] == ["ended"] * 25 + ["failed"] * 25
        assert money(kit) == (75, 125)


def test_a_step_that_fails_for_ever_does_not_hold_time_up() -> None:
    with ServiceTestKit(Service("poison", components=[Poison])) as kit:
        poison = kit.client.for_workflow(Poison, "p")
        poison.ask(Poison.start)
        kit.advance(timedelta(hours=1))
        history = kit.client.workflow_history(Poison, "p", limit=10_000)
        assert len([one for one in history if one.cause == "attempt"]) == 61
        assert poison.status().status == "retrying"


@component("poison")
class Poison(Workflow[None]):
    """Fails for ever."""

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            recovery=Retry(
                backoff=Backoff(min=MINUTE, max=MINUTE, jitter=0.0), failover_to=Fail("never")
            )
        )

    def start(self) -> Effect[str]:
        return self.effects.transition_to(self.fail).then_reply("ok")

    @step
    def fail(self) -> StepEffect:
        raise ValueError("always")
