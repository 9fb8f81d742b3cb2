"""Ownership on SQLite: one process owns the file, and a lock beside it says which."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, select, update

from greenroom.errors import PersistenceError, StoreInUseError, StoreReadOnlyError
from greenroom.persistence.sql._engine import immediately
from greenroom.persistence.sql._ownership import SqlOwnership, this_process
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import owner, slice_table

_OWNER = 1


class FileLock:
    """A lock beside a database file. The kernel frees it with the process, however that ends."""

    def __init__(self, file: Path) -> None:
        # One file may go by several names.
        file = file.resolve()
        self._file = file.with_name(file.name + ".lock")
        self._held: Any = None

    def take(self) -> None:
        """Take the lock, or say who has it.

        Raises:
            StoreInUseError: Another process, or another store of this one.
            StoreReadOnlyError: The lock file can't be written.
        """
        if self._held is not None:
            return
        try:
            lock = self._file.open("a+")
        except OSError as error:
            raise StoreReadOnlyError(
                f"The lock file {self._file} can't be opened ({error.strerror}). "
                "Make the folder of the database writable."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise StoreInUseError(
                f"The database file is in use by {holder}. A SQLite file has one owner at a time: "
                "stop that one, use another file, or use PostgreSQL for several processes."
            ) from error
        except OSError as error:
            lock.close()
            raise PersistenceError(
                f"{self._file} can't be locked ({error.strerror}). "
                "Put the database on a file system that has locks."
            ) from error
        # Only for people: the lock is what counts. The file stays, since removing it would let
        # two processes lock two different files under one name.
        lock.truncate(0)
        lock.write(this_process())
        lock.flush()
        self._held = lock

    def free(self) -> None:
        """Let others take it."""
        if self._held is not None:
            self._held.close()
            self._held = None


class SqliteOwnership(SqlOwnership):
    """The process that holds the lock owns every slice."""

    def __init__(self, engine: Engine, file: Path) -> None:
        self._lock = FileLock(file)
        super().__init__(engine)

    def start(self, address: str | None) -> None:
        """Take the file and every slice; bump the epoch, so that nobody else's batch goes in."""
        with self._moving:
            self._lock.take()
            try:
                epoch = self._bump_epoch(address)
            except BaseException:
                self._lock.free()
                raise
            self._is_now((_OWNER, epoch))
            self._owns_now(frozenset(range(self._slices)))

    def _bump_epoch(self, address: str | None) -> int:
        values = {"process": this_process(), "address": address, "lease_expires_at": 0}
        with translated(self._engine), immediately(self._engine) as connection:
            known: int | None = connection.execute(
                select(owner.c.epoch).where(owner.c.owner_id == _OWNER)
            ).scalar()
            epoch = (known or 0) + 1
            if known is None:
                row = insert(owner).values(owner_id=_OWNER, epoch=epoch, **values)
                connection.execute(row)
            else:
                row_now = update(owner).where(owner.c.owner_id == _OWNER)
                connection.execute(row_now.values(epoch=epoch, last_batch=0, **values))
            connection.execute(update(slice_table).values(owner_id=_OWNER))
        return epoch

    def beat(self) -> frozenset[int]:
        """Nothing to renew: the lock lives as long as the process."""
        return frozenset()

    def release(self, slices: frozenset[int]) -> None:
        """One process owns everything; there is nobody to give slices to."""

    def stop(self) -> None:
        """Free the file."""
        self.close()

    def close(self) -> None:
        """Free the file."""
        self._owns_now(frozenset())
        self._lock.free()
