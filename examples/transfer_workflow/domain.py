"""What a wallet and a transfer are: plain data and plain rules."""

from typing import Literal

from pydantic import BaseModel

from greenroom import type_name


@type_name("wallet")
class Wallet(BaseModel, frozen=True):
    """An amount of money, in cents, and what it remembers of transfers."""

    balance: int = 0
    taken: dict[str, int] = {}
    """What transfers have taken, by their ids."""
    received: dict[str, int] = {}
    """What transfers have brought."""
    refused: frozenset[str] = frozenset()
    """Transfers that are over: whatever of them comes late is not taken."""
    frozen: bool = False


@type_name("wallet-opened")
class Opened(BaseModel, frozen=True):
    """Somebody put money into a new wallet."""

    balance: int


@type_name("money-taken")
class Taken(BaseModel, frozen=True):
    """A transfer took money out."""

    transfer_id: str
    amount: int


@type_name("money-received")
class Received(BaseModel, frozen=True):
    """A transfer brought money."""

    transfer_id: str
    amount: int


@type_name("money-given-back")
class GivenBack(BaseModel, frozen=True):
    """A transfer did not arrive; what it took is back."""

    transfer_id: str
    amount: int


@type_name("transfer-refused")
class Refused(BaseModel, frozen=True):
    """Nothing of this transfer is taken any more."""

    transfer_id: str


@type_name("wallet-frozen")
class Frozen(BaseModel, frozen=True):
    """The wallet takes no money, for the time being."""

    frozen: bool


WalletEvent = Opened | Taken | Received | GivenBack | Refused | Frozen

TransferStatus = Literal[
    "new", "waiting for approval", "moving", "done", "declined", "rejected", "expired", "returned"
]


@type_name("transfer")
class TransferState(BaseModel, frozen=True):
    """How far a transfer has come. Its legal ends are the last five statuses."""

    source: str = ""
    target: str = ""
    amount: int = 0
    status: TransferStatus = "new"
    approved_by: str | None = None

    def now(self, status: TransferStatus) -> "TransferState":
        """The same transfer, further on."""
        return self.model_copy(update={"status": status})
