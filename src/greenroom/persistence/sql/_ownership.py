"""Who owns which slices: the promises of `Ownership`, kept on each database in its own way."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import socket
from abc import abstractmethod
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, insert, select, update

from greenroom.errors import NotOwnerError, PersistenceError, SchemaError, StoreInUseError
from greenroom.persistence.ports import OwnerInfo
from greenroom.persistence.sql._dialect import database_now_ms
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import meta, owner, slice_table

_log = logging.getLogger("greenroom.persistence")

LEASE_MS = 5_000
"""A frozen owner loses its slices after so long; a dead one at once, with its connection."""
LOCK_CLASS = 0x67726E72
"""First half of the key of the advisory lock that an owner holds while it lives ("grnr")."""


def this_process() -> str:
    """How this process is named to people: where it runs and its number."""
    return f"pid {os.getpid()} on {socket.gethostname()}"


class SqlOwnership:
    """What both databases have in common."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owned: frozenset[int] = frozenset()
        self._owner_id = 0
        self._epoch = 0
        self._changes = 0
        with translated(), engine.connect() as connection:
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

    def owned(self) -> frozenset[int]:
        """The slices this process may write now, by what it knows."""
        return self._owned

    def fence(self) -> tuple[int, int]:
        """This owner and its epoch, as every batch states them."""
        return self._owner_id, self._epoch

    def changes(self) -> int:
        """Counts the changes of what is owned; who keeps numbers of a slice starts anew then."""
        return self._changes

    def _owns_now(self, slices: frozenset[int]) -> None:
        if slices != self._owned:
            self._owned = slices
            self._changes += 1

    def bump_own_epoch(self) -> int | None:
        """Raise the own epoch, which waits for the last transaction under the old one.

        Returns the number of the last batch that was committed; None when this owner was
        fenced off meanwhile.
        """
        with translated(), self._engine.begin() as connection:
            held = connection.execute(
                update(owner)
                .where(owner.c.owner_id == self._owner_id, owner.c.epoch == self._epoch)
                .values(epoch=owner.c.epoch + 1)
            ).rowcount
            if not held:
                return None
            last = connection.execute(
                select(owner.c.last_batch).where(owner.c.owner_id == self._owner_id)
            ).scalar_one()
        self._epoch += 1
        return int(last)

    def owner_of(self, slice_: int) -> OwnerInfo | None:
        """Who owns a slice now; None when nobody does."""
        query = (
            select(owner.c.owner_id, owner.c.address)
            .join(slice_table, slice_table.c.owner_id == owner.c.owner_id)
            .where(slice_table.c.slice == slice_)
        )
        with translated(), self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else OwnerInfo(row[0], row[1])

    def peer_secret(self) -> str:
        """A secret shared by all processes on this database."""
        with translated(), self._engine.connect() as connection:
            found = _read_meta(connection, "peer_secret")
        if found is None:
            raise SchemaError("The database has no peer secret. Run `greenroom db upgrade`.")
        return found

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


class SqliteOwnership(SqlOwnership):
    """One process owns the file: a lock beside it, which the kernel frees when that one ends."""

    _OWNER = 1

    def __init__(self, engine: Engine, file: Path) -> None:
        self._lock_file = file.with_name(file.name + ".lock")
        self._lock: Any = None
        super().__init__(engine)

    def start(self, address: str | None) -> None:
        """Take the file and every slice; bump the epoch, so that nobody else's batch goes in."""
        if self._lock is None:
            self._take_lock()
        try:
            epoch = self._bump_epoch(address)
        except BaseException:
            self._free_lock()
            raise
        self._owner_id, self._epoch = self._OWNER, epoch
        self._owned = frozenset()
        self._owns_now(frozenset(range(self._slices)))

    def _bump_epoch(self, address: str | None) -> int:
        with translated(), self._engine.begin() as connection:
            known = connection.execute(
                select(owner.c.epoch).where(owner.c.owner_id == self._OWNER)
            ).scalar()
            values = {"process": this_process(), "address": address, "lease_expires_at": 0}
            if known is None:
                connection.execute(
                    insert(owner).values(owner_id=self._OWNER, epoch=1, last_batch=0, **values)
                )
            else:
                connection.execute(
                    update(owner)
                    .where(owner.c.owner_id == self._OWNER)
                    .values(epoch=known + 1, last_batch=0, **values)
                )
            connection.execute(update(slice_table).values(owner_id=self._OWNER))
        return (known or 0) + 1

    def _take_lock(self) -> None:
        try:
            lock = self._lock_file.open("a+")
        except OSError as error:
            raise PersistenceError(
                f"The lock file {self._lock_file} can't be opened ({error.strerror}); "
                "make the folder of the database writable."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise StoreInUseError(
                f"The database file is in use by {holder}. A SQLite file has one owner at a time: "
                "stop that one, use another file, or use PostgreSQL for several processes."
            ) from error
        lock.truncate(0)
        lock.write(this_process())
        lock.flush()
        self._lock = lock

    def beat(self) -> frozenset[int]:
        """Nothing to renew: the lock lives as long as the process."""
        return frozenset()

    def release(self, slices: frozenset[int]) -> None:
        """One process owns everything; there is nobody to give slices to."""

    def stop(self) -> None:
        """Free the file."""
        self._owns_now(frozenset())
        self._free_lock()

    def _free_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class PostgresOwnership(SqlOwnership):
    """Several processes share the slices: an advisory lock says who lives, a lease who answers."""

    def __init__(self, engine: Engine) -> None:
        self._alive: Any = None
        self._address: str | None = None
        super().__init__(engine)

    def start(self, address: str | None) -> None:
        """Register as a new owner; slices come with the first beat."""
        self._let_go()
        self._address = address
        self._owner_id = secrets.randbits(31)
        with translated():
            # The lock lives in the session of this connection, and dies with its socket.
            self._alive = self._engine.connect()
            self._alive.exec_driver_sql(f"SELECT pg_advisory_lock({LOCK_CLASS}, {self._owner_id})")
            self._alive.commit()
            with self._engine.begin() as connection:
                now = database_now_ms(connection, "postgresql")
                connection.execute(
                    insert(owner).values(
                        owner_id=self._owner_id,
                        epoch=1,
                        last_batch=0,
                        address=address,
                        process=this_process(),
                        lease_expires_at=now + LEASE_MS,
                    )
                )
        self._epoch = 1
        self._owned = frozenset()
        self._changes += 1

    def beat(self) -> frozenset[int]:
        """Renew the lease, fence dead owners, take free slices up to a fair share."""
        with translated():
            self._check_alive()
            with self._engine.begin() as connection:
                # One process at a time looks after the owners, so that two do not take over
                # the same one, and fair shares are counted on what is true.
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, -1)")
                now = database_now_ms(connection, "postgresql")
                self._renew(connection, now)
                self._fence_the_dead(connection, now)
                owners = int(
                    connection.execute(select(func.count()).select_from(owner)).scalar_one()
                )
                fair = -(-self._slices // owners)
                mine = self._mine(connection)
                if len(mine) < fair:
                    mine |= self._take_free(connection, fair - len(mine))
        self._owns_now(frozenset(mine))
        surplus = len(mine) - fair
        return frozenset(sorted(mine)[:surplus]) if surplus > 0 else frozenset()

    def _check_alive(self) -> None:
        try:
            self._alive.exec_driver_sql("SELECT 1")
            self._alive.commit()
        except Exception as error:
            # The lock went with the connection: others may already have taken over.
            self._let_go()
            raise NotOwnerError("The connection that kept this process's lock is gone.") from error

    def _renew(self, connection: Any, now: int) -> None:
        held = connection.execute(
            update(owner)
            .where(owner.c.owner_id == self._owner_id, owner.c.epoch == self._epoch)
            .values(lease_expires_at=now + LEASE_MS)
        ).rowcount
        if not held:
            raise NotOwnerError("Another owner took over from this process.")

    def _fence_the_dead(self, connection: Any, now: int) -> None:
        others = connection.execute(
            select(owner.c.owner_id, owner.c.lease_expires_at, owner.c.process).where(
                owner.c.owner_id != self._owner_id
            )
        ).all()
        for other, lease, process in others:
            if lease >= now and not self._is_dead(connection, other):
                continue
            _log.warning("Taking over from %s, which %s", process, _why(lease, now))
            # First the epoch, which waits for a batch that is under way and fails every later
            # one; only then are the slices anybody's.
            connection.execute(
                update(owner).where(owner.c.owner_id == other).values(epoch=owner.c.epoch + 1)
            )
            connection.execute(
                update(slice_table).where(slice_table.c.owner_id == other).values(owner_id=None)
            )
            connection.execute(owner.delete().where(owner.c.owner_id == other))

    def _is_dead(self, connection: Any, other: int) -> bool:
        return bool(
            connection.exec_driver_sql(
                f"SELECT pg_try_advisory_xact_lock({LOCK_CLASS}, {other})"
            ).scalar_one()
        )

    def _mine(self, connection: Any) -> set[int]:
        return set(
            connection.execute(
                select(slice_table.c.slice).where(slice_table.c.owner_id == self._owner_id)
            ).scalars()
        )

    def _take_free(self, connection: Any, most: int) -> set[int]:
        free = list(
            connection.execute(
                select(slice_table.c.slice)
                .where(slice_table.c.owner_id.is_(None))
                .order_by(slice_table.c.slice)
                .limit(most)
            ).scalars()
        )
        if free:
            connection.execute(
                update(slice_table)
                .where(slice_table.c.slice.in_(free))
                .values(owner_id=self._owner_id)
            )
        return set(free)

    def release(self, slices: frozenset[int]) -> None:
        """Give slices up, after the last batch for them was committed."""
        with translated(), self._engine.begin() as connection:
            connection.execute(
                update(slice_table)
                .where(
                    slice_table.c.slice.in_(sorted(slices)),
                    slice_table.c.owner_id == self._owner_id,
                )
                .values(owner_id=None)
            )
        self._owns_now(self._owned - slices)

    def stop(self) -> None:
        """Give everything up, so that others need not wait for the lease."""
        self._owns_now(frozenset())
        try:
            with translated(), self._engine.begin() as connection:
                connection.execute(
                    update(slice_table)
                    .where(slice_table.c.owner_id == self._owner_id)
                    .values(owner_id=None)
                )
                connection.execute(owner.delete().where(owner.c.owner_id == self._owner_id))
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._alive is not None:
            alive, self._alive = self._alive, None
            # Closed for good, not returned to the pool: the lock belongs to the session.
            alive.invalidate()
            alive.close()


def _why(lease: int, now: int) -> str:
    return f"did not answer for {(now - lease + LEASE_MS) / 1000:.1f} s" if lease < now else "died"


def _read_meta(connection: Any, name: str) -> str | None:
    value: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return value
