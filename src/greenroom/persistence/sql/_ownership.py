"""Who owns which slices: what both databases have in common."""

from __future__ import annotations

import os
import socket
import threading
from abc import abstractmethod
from typing import Any

from sqlalchemy import Engine, select, update

from greenroom.errors import SchemaError
from greenroom.persistence.ports import OwnerInfo
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import meta, owner, slice_table

Fence = tuple[int, int]
"""An owner and its epoch: what every batch states, and the database checks."""


def this_process() -> str:
    """How this process is named to people: where it runs and its number."""
    return f"pid {os.getpid()} on {socket.gethostname()}"


class SqlOwnership:
    """Knows the own slices and epoch; see the `Ownership` port.

    The journal reads `fence()` before `owned()`. What is owned changes in the other order
    (nothing is owned while the fence changes), so an epoch can never be stated together with
    the slices of an epoch before it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._fence: Fence = (0, 0)
        self._owned: frozenset[int] = frozenset()
        self._changes = 0
        # The beat comes from another thread than the journal's question about a lost commit;
        # each of them reads the epoch and then asks the database about it.
        self._moving = threading.Lock()
        with translated(engine), engine.connect() as connection:
            stored = _read_meta(connection, "slices")
        if stored is None:
            raise SchemaError(
                "The database was not set up for greenroom. Run `greenroom db upgrade`."
            )
        self._slices = int(stored)

    @property
    def slices(self) -> int:
        """How many slices the database has."""
        return self._slices

    def fence(self) -> Fence:
        """This owner and its epoch."""
        return self._fence

    def owned(self) -> frozenset[int]:
        """The slices this process may write now, by what it knows."""
        return self._owned

    def changes(self) -> int:
        """Counts the changes of what is owned; who keeps numbers of a slice starts anew then."""
        return self._changes

    def _owns_now(self, slices: frozenset[int]) -> None:
        if slices != self._owned:
            self._changes += 1
            self._owned = slices

    def _is_now(self, fence: Fence) -> None:
        self._owns_now(frozenset())
        self._fence = fence

    def bump_own_epoch(self, held: Fence) -> tuple[int, Fence] | None:
        """Raise the own epoch, which waits for the last transaction under the old one.

        Returns the number of the last batch that was committed under it, and the new fence;
        None when this owner was fenced off meanwhile.
        """
        mine = (owner.c.owner_id == held[0], owner.c.epoch == held[1])
        with self._moving, translated(self._engine), self._engine.begin() as connection:
            self._wait_for_last_batch(connection, held[0])
            changed = connection.execute(update(owner).where(*mine).values(epoch=held[1] + 1))
            if changed.rowcount != 1:
                return None
            last = connection.execute(
                select(owner.c.last_batch).where(owner.c.owner_id == held[0])
            ).scalar_one()
            # Known before the commit: should that be lost too, then this owner states an epoch
            # that may not exist, and is refused. The other way round it would go on unfenced.
            self._fence = (held[0], held[1] + 1)
        return int(last), self._fence

    def owner_of(self, slice_: int) -> OwnerInfo | None:
        """Who owns a slice now; None when nobody does."""
        query = (
            select(owner.c.owner_id, owner.c.address)
            .join(slice_table, slice_table.c.owner_id == owner.c.owner_id)
            .where(slice_table.c.slice == slice_)
        )
        with translated(self._engine), self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else OwnerInfo(row[0], row[1])

    def peer_secret(self) -> str:
        """A secret shared by all processes on this database."""
        with translated(self._engine), self._engine.connect() as connection:
            found = _read_meta(connection, "peer_secret")
        if found is None:
            raise SchemaError("The database has no peer secret. Run `greenroom db upgrade`.")
        return found

    def _wait_for_last_batch(self, connection: Any, owner_id: int) -> None:
        """Lock an owner's row, which its last batch has locked until it ends."""

    @abstractmethod
    def start(self, address: str | None) -> None:
        """Register this process as an owner."""

    @abstractmethod
    def beat(self) -> frozenset[int]:
        """Renew the lease; returns the slices to give up."""

    @abstractmethod
    def release(self, slices: frozenset[int]) -> None:
        """Give slices up."""

    @abstractmethod
    def stop(self) -> None:
        """Give everything up."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever says that this process lives, without asking the database."""


def _read_meta(connection: Any, name: str) -> str | None:
    value: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return value
