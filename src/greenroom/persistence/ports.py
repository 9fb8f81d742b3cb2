"""What the runtime asks of a store. Each promise here has a contract test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.ids import EntityRef
    from greenroom.persistence.records import (
        Chain,
        DueInstance,
        InstanceSummary,
        Outcome,
        Receipt,
        StepCount,
        StoredInstance,
        StoredRecord,
    )


class Journal(Protocol):
    """What every instance has done, and the only way to add to it.

    One thread commits at a time (the caller sees to it); reads may come from any thread.
    """

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        """Write the chains in one transaction, each whole or not at all.

        Returns one outcome per chain, in order: its new head, or the error that kept that
        chain out while the others went in (`ConcurrentWriteError`, with the first uses beside
        it of idempotency keys that had been used). Every record gets the next `slice_seq` of
        its slice, without gaps, in the order of the batch.

        Raises:
            NotOwnerError: This process lost its slices; nothing was written.
            StoreUnavailableError: The database was lost before the commit; nothing was written.
            CommitUnknownError: The connection broke and the database can't be asked.
            PersistenceError: It is read-only, full, …; nothing was written.
        """
        ...

    def load(self, ref: EntityRef, *, latest_only: bool = False) -> StoredInstance:
        """Everything needed to recover an instance; an empty head (id 0) when it is not stored.

        With `latest_only`, at most the last record that takes a sequence number (key value
        entities), or a workflow's latest transition with the progress after it. Records of generations that were purged are gone.
        """
        ...

    def find_receipt(self, ref: EntityRef, key: str) -> Receipt | None:
        """The first use of an idempotency key that has not expired."""
        ...

    def records(self, ref: EntityRef, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one instance with a sequence number above `after`, in order."""
        ...

    def feed(self, slice_: int, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one slice with a `slice_seq` above `after`, in order.

        A reader that remembers the last `slice_seq` it saw never misses a late commit.
        """
        ...

    def instances(
        self, component: str, *, after: str | None = None, limit: int = 100
    ) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids, from after an id."""
        ...

    def latest(
        self,
        component: str,
        *,
        after: str | None = None,
        containing: str | None = None,
        due_before: int | None = None,
        steps: Sequence[str] = (),
        limit: int = 100,
    ) -> list[StoredRecord]:
        """The last record of each instance that is not deleted, in the order of their ids.

        Args:
            component: Whose instances.
            after: The id after which to begin.
            containing: Only ids with this text in them; ASCII letters in either case.
            due_before: Only instances that are due before a time, or at it.
            steps: Only instances whose heads have one of these as their `step`.
            limit: How many at most.
        """
        ...

    def type_names(self, component: str) -> list[tuple[str, int]]:
        """Every type name and version that is stored for a component (start-up check)."""
        ...

    def due(
        self,
        before: int,
        *,
        slices: Sequence[int],
        after: DueInstance | None = None,
        limit: int = 1000,
    ) -> list[DueInstance]:
        """Instances of these slices that are due before a time, or at it, the earliest first.

        `after` is the last one of the page before. Deleted instances are not among them.
        """
        ...

    def unfinished(
        self, *, slices: Sequence[int], after: int = 0, limit: int = 1000
    ) -> list[tuple[int, EntityRef]]:
        """Workflows in the middle of a step, each with the number to give as the next `after`."""
        ...

    def steps(self, component: str) -> list[StepCount]:
        """The steps that instances of a workflow are in the middle of (start-up check)."""
        ...

    def purge_deleted(
        self, before: int, *, slices: Sequence[int], limit: int = 100
    ) -> list[EntityRef]:
        """Remove records and snapshots of instances deleted before a time; returns them.

        The head row stays with its sequence number and the next generation, so that a late
        writer of the old life is told. Receipts that have not expired stay.
        """
        ...

    def purge_receipts(self, before: int, *, slices: Sequence[int], limit: int = 1000) -> int:
        """Forget idempotency keys that expired before a time; returns how many."""
        ...

    def purge_states(
        self,
        before: int,
        *,
        slices: Sequence[int],
        component: str | None = None,
        others_than: Sequence[str] = (),
        limit: int = 1000,
    ) -> int:
        """Remove records that a later, whole one has replaced before a time; returns how many.

        Of one component, or of all but some: a component may have a time of its own.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnerInfo:
    """An owner of slices, as others see it."""

    owner_id: int
    address: str | None
    """Where its peers reach it, `host:port`."""


class Ownership(Protocol):
    """Which process may write which slices.

    An owner's epoch is checked in the transaction of every batch. Taking over from a dead owner
    bumps its epoch first, which waits for its last batch and fails every later one.
    """

    @property
    def slices(self) -> int:
        """How many slices the database has; fixed when it was created."""
        ...

    def start(self, address: str | None) -> None:
        """Register this process as an owner (SQLite: and take every slice).

        Raises:
            StoreInUseError: SQLite: another process owns the file; the message names it.
        """
        ...

    def owned(self) -> frozenset[int]:
        """The slices this process may write now, by what it knows."""
        ...

    def beat(self) -> frozenset[int]:
        """Renew the lease, fence dead owners, take free slices up to a fair share.

        Called once a second. Returns the slices to give up, which are more than the fair
        share: the caller drains them and calls `release`.

        Raises:
            NotOwnerError: This owner was fenced off; drop everything and `start` again.
        """
        ...

    def release(self, slices: frozenset[int]) -> None:
        """Give slices up, after the last batch for them was committed."""
        ...

    def owner_of(self, slice_: int) -> OwnerInfo | None:
        """Who owns a slice now; None when nobody does."""
        ...

    def peer_secret(self) -> str:
        """A secret shared by all processes on this database, by which peers know each other."""
        ...

    def stop(self) -> None:
        """Give everything up."""
        ...


class Store(Protocol):
    """A database that is open: its journal and who owns what."""

    @property
    def journal(self) -> Journal:
        """What every instance has done."""
        ...

    @property
    def ownership(self) -> Ownership:
        """Who may write which slices."""
        ...

    def ping(self) -> None:
        """Raises a `PersistenceError` when the database can't be asked."""
        ...

    def close(self) -> None:
        """Close every connection and release the file."""
        ...
