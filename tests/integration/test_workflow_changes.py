"""Code that has changed while workflows were in the middle: told at start, visible, mendable."""

import sys
from datetime import timedelta
from types import ModuleType

import pytest

from greenroom import (
    Backoff,
    BranchEffect,
    Compensate,
    Effect,
    Retry,
    Service,
    Settings,
    StepEffect,
    Workflow,
    WorkflowSettings,
    call,
    component,
    step,
)
from greenroom.cli import main
from greenroom.testkit import ManualClock
from tests.support.eventually import eventually

QUICK = Backoff(min=timedelta(milliseconds=1), max=timedelta(milliseconds=5))
MINUTE = timedelta(minutes=1)


@component("order")
class OldOrder(Workflow[str]):
    """As it was: its steps never get further than to a failure."""

    def empty_state(self) -> str:
        return ""

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(recovery=Retry(backoff=QUICK))

    def start(self) -> Effect[None]:
        return self.effects.transition_to(self.pack).then_reply(None)

    def spread(self) -> Effect[None]:
        fanned = self.effects.for_each(self.weigh, ["a", "b"], then=self.pack_all)
        return fanned.then_reply(None)

    def wait(self, text: str) -> Effect[None]:
        paused = self.effects.pause("payment", timeout=MINUTE, on_timeout=call(self.cancel, text))
        return paused.then_reply(None)

    def cancel(self, text: str) -> Effect[None]:
        return self.effects.end(text).then_reply(None)

    @step
    def pack(self) -> StepEffect:
        raise OSError("the old code can't")

    @step
    def weigh(self, item: str) -> BranchEffect[int]:
        raise OSError("the old code can't")

    @step
    def pack_all(self, weights: list[int]) -> StepEffect:
        return self.step_effects.end(str(sum(weights)))


@component("order")
class NewOrder(Workflow[str]):
    """Its steps and the pause's handler have other names now, and nobody has said so."""

    def empty_state(self) -> str:
        return ""

    def settings(self) -> WorkflowSettings:
        # A failover that a mistake of this kind must not lead to.
        return WorkflowSettings(
            recovery=Retry(max_retries=0, backoff=QUICK, failover_to=call(self.give_up))
        )

    def call_off(self, text: str) -> Effect[None]:
        return self.effects.end(text).then_reply(None)

    @step
    def wrap(self) -> StepEffect:
        return self.step_effects.end("wrapped")

    @step
    def measure(self, item: str) -> BranchEffect[int]:
        return self.step_effects.result(len(item))

    @step
    def wrap_all(self, weights: list[int]) -> StepEffect:
        return self.step_effects.end(str(sum(weights)))

    @step
    def give_up(self) -> StepEffect:
        return self.step_effects.fail("gave up")


@component("order")
class MendedOrder(NewOrder):
    """And now somebody has."""

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            renamed_steps={"pack": self.wrap, "weigh": "measure", "pack_all": self.wrap_all}
        )

    def cancel(self, text: str) -> Effect[None]:
        return self.effects.end(f"cancelled, {text}").then_reply(None)


def service_of(order: type, url: str, clock: ManualClock | None = None) -> Service:
    settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.2))
    return Service("orders", components=[order], settings=settings, clock=clock)


def leave_in_the_middle(url: str) -> None:
    with service_of(OldOrder, url).running() as client:
        for name in ("o-1", "o-2"):
            client.for_workflow(OldOrder, name).ask(OldOrder.start)
        client.for_workflow(OldOrder, "o-3").ask(OldOrder.spread)
        for name in ("o-1", "o-2", "o-3"):
            order = client.for_workflow(OldOrder, name)
            assert eventually(lambda order=order: order.status().last_error is not None)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said of steps; a slow machine may have other things to say."""
    messages = (one.getMessage() for one in caplog.records if one.name == "greenroom.runtime")
    return [one for one in messages if "are in the middle of the step" in one]


def test_steps_that_are_gone_are_told_at_start_and_go_on_once_they_are_named(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    leave_in_the_middle(database_url)
    caplog.clear()

    with service_of(NewOrder, database_url).running() as client:
        assert eventually(lambda: len(told(caplog)) == 3)
        pack, weigh, pack_all = told(caplog)
        assert pack.startswith(
            "order: 2 instance(s), order/o-1 for one, are in the middle of the step 'pack', which "
            "the code has not (it has: give_up, measure, wrap, wrap_all)."
        )
        assert pack.endswith("WorkflowSettings(renamed_steps={'pack': ...})")
        assert "1 instance(s), order/o-3 for one" in weigh
        assert "1 instance(s), order/o-3 for one" in pack_all
        stranded = client.for_workflow(NewOrder, "o-1")
        assert eventually(lambda: "has no step 'pack'" in (stranded.status().last_error or ""))
        status = stranded.status()
        # It backs off, and goes nowhere: not even to the failover.
        assert (status.status, status.suspended) == ("retrying", False)
        assert status.next_at is not None

    caplog.clear()
    with service_of(MendedOrder, database_url).running() as client:
        for name, reason in (("o-1", "wrapped"), ("o-2", "wrapped"), ("o-3", "2")):
            order = client.for_workflow(MendedOrder, name)
            assert eventually(lambda order=order: order.status().status == "ended", seconds=20)
            assert order.status().reason == reason
    assert told(caplog) == []


def test_a_start_in_order_tells_nothing(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    leave_in_the_middle(sqlite_url)
    caplog.clear()
    with service_of(OldOrder, sqlite_url).running():
        pass
    assert told(caplog) == []


@pytest.mark.parametrize(("order", "code"), [(OldOrder, 0), (NewOrder, 1), (MendedOrder, 0)])
def test_a_pipeline_finds_steps_that_are_gone(
    sqlite_url: str,
    order: type,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leave_in_the_middle(sqlite_url)
    module = ModuleType("orders_under_check")
    module.service = service_of(order, sqlite_url)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert main(["check", "orders_under_check"]) == code

    error = capsys.readouterr().err
    assert ("in the middle of the step 'pack'" in error) == bool(code)
    assert error.count("- order: ") == 3 * code


def test_a_pause_whose_handler_is_gone_is_suspended_until_it_is_mended(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    with service_of(OldOrder, sqlite_url, clock).running() as client:
        client.for_workflow(OldOrder, "o").ask(OldOrder.wait, "too late")
    clock.advance(MINUTE)

    with service_of(NewOrder, sqlite_url, clock).running() as client:
        order = client.for_workflow(NewOrder, "o")
        assert eventually(lambda: order.status().suspended)
        assert "its pause has run out, but: " in (order.status().reason or "")
        assert "'cancel'" in (order.status().reason or "")
        order.resume()
        assert eventually(lambda: order.status().suspended)
        causes = [one.cause for one in client.workflow_history(NewOrder, "o")]
        # Once for each time that somebody let it go on, and not in a circle.
        assert causes == ["command", "pause-timeout", "resume", "pause-timeout"]

    with service_of(MendedOrder, sqlite_url, clock).running() as client:
        order = client.for_workflow(MendedOrder, "o")
        order.resume()
        assert eventually(lambda: order.status().status == "ended")
        assert order.status().reason == "cancelled, too late"


# -- the deadline, in the middle of compensations --------------------------------------------


@component("booking")
class Booking(Workflow[str]):
    """Fails, and takes so long to take back what it did that the deadline comes."""

    def empty_state(self) -> str:
        return ""

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(timeout=timedelta(hours=1), on_timeout=call(self.last))

    def start(self) -> Effect[None]:
        recorded = self.effects.compensate_with(self.refund, "first")
        return recorded.transition_to(self.fail).then_reply(None)

    @step(recovery=Retry(max_retries=0, failover_to=Compensate()))
    def fail(self) -> StepEffect:
        raise OSError("no")

    @step
    def refund(self, what: str) -> StepEffect:
        raise OSError("the bank is closed")

    @step
    def last(self) -> StepEffect:
        return self.step_effects.update_state("made good").end("by hand")


def test_the_last_step_comes_in_the_middle_of_compensations_too(database_url: str) -> None:
    """What could not be taken back is for the last step to see to; it must not be left out."""
    clock = ManualClock()
    with service_of(Booking, database_url, clock).running() as client:
        booking = client.for_workflow(Booking, "b")
        booking.ask(Booking.start)
        assert eventually(lambda: "closed" in (booking.status().last_error or ""))
        clock.advance(timedelta(hours=1))

        assert eventually(lambda: booking.status().status == "ended")
        assert booking.status().reason == "by hand"
        assert client.state_at(Booking, "b") == "made good"
