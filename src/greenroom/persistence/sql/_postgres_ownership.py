"""Ownership on PostgreSQL: several processes share the slices.

An advisory lock says who lives (it goes with its owner's connection), a lease says who still
answers (a frozen process keeps its connection). Neither decides who may write: the epoch does.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

from sqlalchemy import Engine, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from greenroom.errors import NotOwnerError
from greenroom.persistence.sql._dialect import postgres_now_ms
from greenroom.persistence.sql._ownership import SqlOwnership, this_process
from greenroom.persistence.sql._translate import is_disconnect, is_lock_timeout, translated
from greenroom.persistence.tables import owner, slice_table

_log = logging.getLogger("greenroom.persistence")

LEASE_MS = 5_000
"""A frozen owner loses its slices after so long; a dead one at once, with its connection."""
WAIT_MS = 500
"""How long a beat waits for another's beat, or for the last batch of an owner that it fences."""
LAST_BATCH_WAITS = 10
"""How often a session is told to end, each time after `WAIT_MS`."""
LOCK_CLASS = 0x67726E72
"""First half of the keys of all advisory locks here ("grnr"); the second half is the owner."""
_LOOKING_AFTER = -1
"""Second half of the key of the lock held while one process looks after all owners."""


class PostgresOwnership(SqlOwnership):
    """Slices are taken, given up and taken over one owner at a time."""

    def __init__(self, engine: Engine) -> None:
        self._alive: Any = None
        super().__init__(engine)

    def start(self, address: str | None) -> None:
        """Register as a new owner; slices come with the first beat."""
        with self._moving, translated(self._engine):
            self._owns_now(frozenset())
            self._let_go()
            owner_id = secrets.randbits(31)
            # The lock lives in the session of this connection, and dies with its socket. The
            # row comes after the lock: others take an owner without a lock for dead.
            self._alive = self._engine.connect()
            try:
                self._register(owner_id, address)
            except BaseException:
                self._let_go()
                raise
            self._is_now((owner_id, 1))

    def _register(self, owner_id: int, address: str | None) -> None:
        self._alive.exec_driver_sql(f"SELECT pg_advisory_lock({LOCK_CLASS}, {owner_id})")
        self._alive.execute(
            insert(owner).values(
                owner_id=owner_id,
                epoch=1,
                address=address,
                process=this_process(),
                lease_expires_at=postgres_now_ms(self._alive) + LEASE_MS,
            )
        )
        self._alive.commit()

    def beat(self) -> frozenset[int]:
        """Renew the lease, fence dead owners, take free slices up to a fair share."""
        with self._moving, translated(self._engine):
            # The lease comes first and by itself: it must not wait for other owners.
            self._renew()
            with self._engine.begin() as connection:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {WAIT_MS}")
                if self._may_look_after(connection):
                    self._fence_the_dead(connection)
                    self._take_free(connection)
                mine = self._mine(connection)
                fair = self._fair_share(connection)
            self._owns_now(frozenset(mine))
            return frozenset(sorted(mine)[: max(0, len(mine) - fair)])

    def _renew(self) -> None:
        """Renew the lease on the connection that has the lock, so that both are known to hold."""
        me, epoch = self._fence
        held = False
        try:
            if self._alive is not None:
                self._alive.exec_driver_sql(f"SET LOCAL lock_timeout = {LEASE_MS}")
                lease = postgres_now_ms(self._alive) + LEASE_MS
                held = (
                    self._alive.execute(
                        update(owner)
                        .where(owner.c.owner_id == me, owner.c.epoch == epoch)
                        .values(lease_expires_at=lease)
                    ).rowcount
                    == 1
                )
                self._alive.commit()
        except DBAPIError as error:
            if not is_disconnect(error):
                self._alive.rollback()
                raise
            # The lock went with the connection: others may already have taken over.
            self._give_up()
            raise NotOwnerError("The connection that kept this process's lock is gone.") from error
        if not held:
            self._give_up()
            raise NotOwnerError("Another owner took over from this process.")

    def _may_look_after(self, connection: Any) -> bool:
        """One process at a time, so that shares are counted on what is true."""
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(
                    f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, {_LOOKING_AFTER})"
                )
        except DBAPIError as error:
            if not is_lock_timeout(error):
                raise
            return False
        return True

    def _fence_the_dead(self, connection: Any) -> None:
        now = postgres_now_ms(connection)
        others = connection.execute(
            select(owner.c.owner_id, owner.c.lease_expires_at, owner.c.process).where(
                owner.c.owner_id != self._fence[0]
            )
        ).all()
        for other, lease, process in others:
            if lease >= now and not _is_dead(connection, other):
                continue
            if _lock_row(connection, other):
                _fence(connection, other)
                _log.warning("Took over from %s, which %s", process, _why(lease, now))
            else:
                # Frozen in the middle of a batch, it would hold the lock for ever.
                _log.warning("Ending the batch of %s, which %s", process, _why(lease, now))
                _end_batch(connection, other)

    def _take_free(self, connection: Any) -> None:
        free = (
            select(slice_table.c.slice)
            .where(slice_table.c.owner_id.is_(None))
            .order_by(slice_table.c.slice)
            .limit(max(0, self._fair_share(connection) - len(self._mine(connection))))
        )
        connection.execute(
            update(slice_table).where(slice_table.c.slice.in_(free)).values(owner_id=self._fence[0])
        )

    def _mine(self, connection: Any) -> set[int]:
        query = select(slice_table.c.slice).where(slice_table.c.owner_id == self._fence[0])
        return set(connection.execute(query).scalars())

    def _fair_share(self, connection: Any) -> int:
        owners = connection.execute(select(func.count()).select_from(owner)).scalar_one()
        return -(-self._slices // max(1, int(owners)))

    def release(self, slices: frozenset[int]) -> None:
        """Give slices up, after the last batch for them was committed."""
        with self._moving, translated(self._engine):
            # No longer written from now on, whatever becomes of the update; should it fail,
            # the next beat finds them still here.
            self._owns_now(self._owned - slices)
            with self._engine.begin() as connection:
                connection.execute(
                    update(slice_table)
                    .where(
                        slice_table.c.slice.in_(sorted(slices)),
                        slice_table.c.owner_id == self._fence[0],
                    )
                    .values(owner_id=None)
                )

    def stop(self) -> None:
        """Give everything up, so that others need not wait for the lease."""
        with self._moving:
            self._owns_now(frozenset())
            try:
                with translated(self._engine), self._engine.begin() as connection:
                    self._wait_for_last_batch(connection, self._fence[0])
                    _fence(connection, self._fence[0])
            finally:
                self._let_go()

    def _wait_for_last_batch(self, connection: Any, owner_id: int) -> None:
        """Lock the own row; ends the last batch if its session does not end by itself.

        When a connection broke, the server may not have noticed, and would keep its locks.
        """
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {WAIT_MS}")
        for _ in range(LAST_BATCH_WAITS):
            if _lock_row(connection, owner_id):
                return
            _log.warning("Ending the last batch of this process, whose connection broke")
            _end_batch(connection, owner_id)

    def close(self) -> None:
        """End the connection that says that this process lives."""
        self._give_up()

    def _give_up(self) -> None:
        self._owns_now(frozenset())
        self._let_go()

    def _let_go(self) -> None:
        if self._alive is not None:
            alive, self._alive = self._alive, None
            # Closed for good, not returned to the pool: the lock belongs to the session.
            alive.invalidate()
            alive.close()


def _is_dead(connection: Any, other: int) -> bool:
    """Whether nobody holds its lock; ours ends with the transaction."""
    query = text("SELECT pg_try_advisory_xact_lock(:class, :owner)")
    return bool(connection.execute(query, {"class": LOCK_CLASS, "owner": other}).scalar_one())


def _lock_row(connection: Any, owner_id: int) -> bool:
    """Lock an owner's row; False when another transaction keeps it locked."""
    row = select(owner.c.owner_id).where(owner.c.owner_id == owner_id).with_for_update()
    try:
        with connection.begin_nested():
            connection.execute(row)
    except DBAPIError as error:
        if not is_lock_timeout(error):
            raise
        return False
    return True


def _fence(connection: Any, other: int) -> None:
    """Take everything from an owner, in one transaction.

    First the epoch, which waits for a batch that is under way and fails every later one; only
    then are the slices anybody's.
    """
    theirs = owner.c.owner_id == other
    connection.execute(update(owner).where(theirs).values(epoch=owner.c.epoch + 1))
    connection.execute(
        update(slice_table).where(slice_table.c.owner_id == other).values(owner_id=None)
    )
    connection.execute(owner.delete().where(theirs))


def _end_batch(connection: Any, other: int) -> None:
    """End the session that has an owner's row locked; the next beat finds it free.

    The server's own time limit for sessions that do nothing inside a transaction does not
    help here: it is not counted after a pipeline (seen with PostgreSQL 15), and batches are
    written in one. A row that is being changed names the transaction in its xmax.
    """
    query = text(
        "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a, greenroom_owner o "
        "WHERE o.owner_id = :owner AND a.backend_xid = o.xmax AND a.pid <> pg_backend_pid()"
    )
    connection.execute(query, {"owner": other})


def _why(lease: int, now: int) -> str:
    return f"did not answer for {(now - lease + LEASE_MS) / 1000:.1f} s" if lease < now else "died"
