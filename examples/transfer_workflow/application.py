"""Wallets, and the workflow that moves money between two of them.

Three things are worth copying. The steps call wallets with plain `ask`: greenroom sees to it that
a step which runs again does not take the money twice. What is expected to go wrong (no money) is
a reply, caught in the step; what is not (a wallet that takes nothing) is retried and then
compensated. And whoever takes back first makes sure that nothing can arrive any more: a transfer
that ran out of time does not know whether its deposit went through, so it asks the wallet to refuse.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from examples.transfer_workflow.domain import (
    Frozen,
    GivenBack,
    Opened,
    Received,
    Refused,
    Taken,
    TransferState,
    Wallet,
    WalletEvent,
)
from greenroom import (
    Backoff,
    CommandError,
    Compensate,
    ComponentClient,
    Effect,
    EntityClient,
    EventSourcedEntity,
    ReadOnlyEffect,
    Retry,
    StepEffect,
    Workflow,
    WorkflowSettings,
    call,
    component,
    function_tool,
    step,
)

APPROVAL_FROM = 100_000
"""Transfers of so many cents and more wait for a person."""
APPROVE_WITHIN = timedelta(hours=8)
DEADLINE = timedelta(days=2)
PATIENCE = Backoff(min=timedelta(milliseconds=100), max=timedelta(seconds=5))

WalletId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""Checked when a transfer starts: a step that asks for an impossible wallet would fail for ever."""
Cents = Annotated[int, Field(gt=0, description="An amount in cents")]


class InsufficientFundsError(CommandError):
    """There is less in the wallet than is asked for."""

    code = "insufficient-funds"


class WalletFrozenError(CommandError):
    """The wallet takes no money, for the time being."""

    code = "wallet-frozen"


@component("wallet")
class WalletEntity(EventSourcedEntity[Wallet, WalletEvent]):
    """A wallet. Every command of a transfer names it, and is carried out at most once."""

    def empty_state(self) -> Wallet:
        return Wallet()

    @function_tool(description="Opens a wallet with some money in it.")
    def open(self, balance: Cents) -> Effect[int]:
        if self.command_context.sequence_number:
            return self.effects.error("The wallet is open already.")
        return self.effects.persist(Opened(balance=balance)).then_reply(lambda one: one.balance)

    @function_tool(description="Returns how much is in a wallet, in cents.")
    def balance(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state.balance)

    def freeze(self, frozen: bool = True) -> Effect[bool]:
        return self.effects.persist(Frozen(frozen=frozen)).then_reply(lambda one: one.frozen)

    def withdraw(self, transfer_id: str, amount: int) -> Effect[int]:
        if transfer_id in self.state.taken or transfer_id in self.state.refused:
            return self.effects.reply(self.state.balance)
        if amount > self.state.balance:
            raise InsufficientFundsError(f"There are only {self.state.balance} cents.")
        taken = Taken(transfer_id=transfer_id, amount=amount)
        return self.effects.persist(taken).then_reply(lambda one: one.balance)

    def deposit(self, transfer_id: str, amount: int) -> Effect[int]:
        if transfer_id in self.state.received or transfer_id in self.state.refused:
            return self.effects.reply(self.state.balance)
        if self.state.frozen:
            raise WalletFrozenError("The wallet is frozen.")
        received = Received(transfer_id=transfer_id, amount=amount)
        return self.effects.persist(received).then_reply(lambda one: one.balance)

    def refuse(self, transfer_id: str) -> Effect[bool]:
        """Take nothing of a transfer any more; answers whether its money has arrived before."""
        if transfer_id in self.state.received:
            return self.effects.reply(True)
        return self.effects.persist(Refused(transfer_id=transfer_id)).then_reply(lambda _: False)

    def give_back(self, transfer_id: str) -> Effect[int]:
        """Put back what a transfer took, if it took anything; it takes nothing any more."""
        events: list[WalletEvent] = [Refused(transfer_id=transfer_id)]
        if transfer_id in self.state.taken:
            amount = self.state.taken[transfer_id]
            events.append(GivenBack(transfer_id=transfer_id, amount=amount))
        return self.effects.persist_all(events).then_reply(lambda one: one.balance)

    def apply_event(self, event: WalletEvent) -> Wallet:
        old = self.state
        match event:
            case Opened():
                change: dict[str, object] = {"balance": event.balance}
            case Taken():
                change = {
                    "balance": old.balance - event.amount,
                    "taken": {**old.taken, event.transfer_id: event.amount},
                }
            case Received():
                change = {
                    "balance": old.balance + event.amount,
                    "received": {**old.received, event.transfer_id: event.amount},
                }
            case GivenBack():
                left = {one: n for one, n in old.taken.items() if one != event.transfer_id}
                change = {"balance": old.balance + event.amount, "taken": left}
            case Refused():
                change = {"refused": old.refused | {event.transfer_id}}
            case Frozen():
                change = {"frozen": event.frozen}
        return old.model_copy(update=change)


@component("transfer")
class Transfer(Workflow[TransferState]):
    """Moves money from one wallet to another: all of it or nothing, whatever happens."""

    def __init__(self, client: ComponentClient) -> None:
        self._client = client

    def empty_state(self) -> TransferState:
        return TransferState()

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            timeout=DEADLINE,
            on_timeout=call(self.give_up),
            step_timeout=timedelta(seconds=10),
            recovery=Retry(backoff=PATIENCE),
            delete_after=timedelta(days=365),
        )

    # -- what can be asked of a transfer ---------------------------------------------------

    @function_tool(description="Moves money from one wallet to another. Large sums need approval.")
    def start(
        self,
        source: Annotated[WalletId, "Id of the wallet that pays"],
        target: Annotated[WalletId, "Id of the wallet that is paid"],
        amount: Cents,
    ) -> Effect[str]:
        if self.state.status != "new":
            return self.effects.error("This transfer was started before.")
        if source == target:
            return self.effects.error("A wallet can't pay itself.")
        begun = TransferState(source=source, target=target, amount=amount)
        if amount >= APPROVAL_FROM:
            waiting = self.effects.update_state(begun.now("waiting for approval"))
            paused = waiting.pause(
                "needs approval", timeout=APPROVE_WITHIN, on_timeout=call(self.expire)
            )
            return paused.then_reply("waiting for approval")
        moving = self.effects.update_state(begun.now("moving"))
        return moving.transition_to(self.withdraw).then_reply("started")

    @function_tool(description="Returns how far a transfer has come.")
    def get(self) -> ReadOnlyEffect[TransferState]:
        return self.effects.reply(self.state)

    def approve(self, by: str) -> Effect[TransferState]:
        if self.state.status != "waiting for approval":
            return self.effects.error(f"Nothing to approve: the transfer is {self.state.status}.")
        approved = self.state.model_copy(update={"status": "moving", "approved_by": by})
        return self.effects.update_state(approved).transition_to(self.withdraw).then_reply(approved)

    def reject(self, by: str) -> Effect[TransferState]:
        if self.state.status != "waiting for approval":
            return self.effects.error(f"Nothing to reject: the transfer is {self.state.status}.")
        rejected = self.state.now("rejected")
        return self.effects.update_state(rejected).fail(f"rejected by {by}").then_reply(rejected)

    def expire(self) -> Effect[None]:
        """Called when nobody has approved in time; somebody may just have."""
        if self.state.status != "waiting for approval":
            return self.effects.reply(None)
        expired = self.effects.update_state(self.state.now("expired"))
        return expired.fail("nobody approved in time").then_reply(None)

    # -- what it does ----------------------------------------------------------------------

    @step
    def withdraw(self) -> StepEffect:
        try:
            self._wallet(self.state.source).ask(
                WalletEntity.withdraw, self.workflow_id, self.state.amount
            )
        except InsufficientFundsError as error:
            declined = self.step_effects.update_state(self.state.now("declined"))
            return declined.fail(str(error))
        taken = self.step_effects.compensate_with(self.take_back)
        return taken.transition_to(self.deposit)

    @step(recovery=Retry(max_retries=3, backoff=PATIENCE, failover_to=Compensate()))
    def deposit(self) -> StepEffect:
        self._wallet(self.state.target).ask(
            WalletEntity.deposit, self.workflow_id, self.state.amount
        )
        return self.step_effects.update_state(self.state.now("done")).end()

    @step
    def take_back(self) -> StepEffect:
        if self._has_arrived_after_all():
            return self.step_effects.update_state(self.state.now("done")).end()
        return self.step_effects.update_state(self.state.now("returned")).done()

    @step
    def give_up(self) -> StepEffect:
        """The deadline has passed, wherever the transfer was."""
        if self.state.status == "waiting for approval":
            expired = self.step_effects.update_state(self.state.now("expired"))
            return expired.fail("nobody approved in time")
        if self._has_arrived_after_all():
            return self.step_effects.update_state(self.state.now("done")).end()
        returned = self.step_effects.update_state(self.state.now("returned"))
        return returned.fail("it took too long")

    def _has_arrived_after_all(self) -> bool:
        """Whether the money is there; if not, it can't arrive any more, and is given back."""
        if self._wallet(self.state.target).ask(WalletEntity.refuse, self.workflow_id):
            return True
        self._wallet(self.state.source).ask(WalletEntity.give_back, self.workflow_id)
        return False

    def _wallet(self, wallet_id: str) -> EntityClient[WalletEntity]:
        return self._client.for_event_sourced_entity(WalletEntity, wallet_id)
