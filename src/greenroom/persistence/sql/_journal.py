"""The journal in SQL: how batches are written, and what happens when they can't be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.errors import (
    CommitUnknownError,
    ConcurrentWriteError,
    NotOwnerError,
    PersistenceError,
)
from greenroom.ids import slice_of
from greenroom.persistence.records import Chain, Outcome
from greenroom.persistence.sql._conflicts import judge
from greenroom.persistence.sql._dialect import Row, writer_for
from greenroom.persistence.sql._plan import Counters, Plan
from greenroom.persistence.sql._purge import Purges
from greenroom.persistence.sql._reads import Reads
from greenroom.persistence.sql._slices import last_numbers
from greenroom.persistence.sql._translate import (
    is_about_values,
    is_disconnect,
    is_integrity_violation,
    translate,
    translated,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from greenroom.clock import Clock
    from greenroom.persistence.sql._ownership import Fence, SqlOwnership

ROUNDS = 3
"""How often the rest of a batch is tried again before its chains go one by one."""

_Member = tuple[int, Chain, int]
"""A chain with its place in the batch and its slice."""


class _Conflict(Exception):  # noqa: N818 - never leaves this module
    """Some chain of the batch can't go in."""


class _Unfit(Exception):  # noqa: N818 - never leaves this module
    """Some chain of the batch has a value that can't be stored."""


class SqlJournal(Reads, Purges):
    """`Journal` on SQLAlchemy; see the port for its promises."""

    def __init__(self, engine: Engine, ownership: SqlOwnership, clock: Clock) -> None:
        Reads.__init__(self, engine, clock)
        Purges.__init__(self, engine, ownership)
        self._ownership = ownership
        self._writer = writer_for(engine)
        self._fence: Fence = (0, 0)
        self._batch = 0
        self._counters: dict[int, Counters] = {}
        self._counted_for: tuple[Fence, int] | None = None

    def close(self) -> None:
        """Close the writing connection."""
        self._writer.close()

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        """Write the chains in one transaction, each whole or not at all."""
        # The fence is read before what is owned, and once: see SqlOwnership.
        self._fence = self._ownership.fence()
        self._count_anew_after_changes()
        outcomes: list[Outcome | None] = [None] * len(batch)
        members = self._leave_out_impossible(batch, outcomes)
        expired: list[Row] = []
        for _ in range(ROUNDS):
            if not members:
                break
            try:
                self._write(members, expired, outcomes)
            except _Conflict:
                members, expired = self._leave_out_losers(members, outcomes)
            except _Unfit:
                # Nobody says which one, so each goes by itself.
                break
            else:
                members = []
        for member in members:
            self._write_alone(member, outcomes)
        return [outcome or Outcome() for outcome in outcomes]

    def _leave_out_impossible(
        self, batch: Sequence[Chain], outcomes: list[Outcome | None]
    ) -> list[_Member]:
        owned, slices = self._ownership.owned(), self._ownership.slices
        members = []
        for place, chain in enumerate(batch):
            slice_ = slice_of(chain.ref, slices)
            error: PersistenceError
            if slice_ not in owned:
                error = NotOwnerError(f"{chain.ref} is not owned by this process.")
            elif not chain.head.instance_id and chain.head.sequence_number:
                # Nothing is stored that could be compared: a new instance begins at 0.
                error = ConcurrentWriteError(chain.ref, expected=chain.head.sequence_number)
            else:
                members.append((place, chain, slice_))
                continue
            outcomes[place] = Outcome(error=error)
        return members

    def _write(
        self, members: list[_Member], expired: list[Row], outcomes: list[Outcome | None]
    ) -> None:
        plan = Plan(self._counters_of, self._clock.now_ms(), expired)
        heads = [plan.add(chain, slice_) for _, chain, slice_ in members]
        self._batch += 1
        try:
            epoch_held, heads_held = self._writer.write((self._batch, *self._fence), plan.rows)
            if not epoch_held:
                raise NotOwnerError("Another owner took over from this process.")
            if not heads_held:
                raise _Conflict
        except BaseException as error:
            self._roll_back(error)
            if isinstance(error, _Conflict | NotOwnerError) or not isinstance(error, Exception):
                raise
            if is_integrity_violation(error):
                raise _Conflict from error
            if is_about_values(error):
                raise _Unfit(str(error)) from error
            raise translate(error, self._engine) from error
        self._commit_transaction()
        self._counters.update(plan.counters)
        for (place, _, _), head in zip(members, heads, strict=True):
            outcomes[place] = Outcome(head=head)

    def _commit_transaction(self) -> None:
        try:
            self._writer.commit()
        except BaseException as error:
            # What comes next must count anew, whatever became of this transaction.
            self._counted_for = None
            self._roll_back(error)
            if not isinstance(error, Exception):
                raise
            if not is_disconnect(error):
                raise translate(error, self._engine) from error
            self._look_whether_committed(error)

    def _look_whether_committed(self, error: Exception) -> None:
        """Ask what became of a commit during which the connection broke.

        Bumping the own epoch waits for the old transaction to end; then the number of the last
        batch tells.
        """
        try:
            found = self._ownership.bump_own_epoch(self._fence)
        except PersistenceError as problem:
            raise CommitUnknownError(
                "The connection broke during a commit and the database can't be asked "
                f"whether it was written: {problem}"
            ) from error
        if found is None:
            # Whoever took over waited for the old transaction too, but removed its number.
            raise CommitUnknownError(
                "The connection broke during a commit, and another owner took over before the "
                "database could be asked whether it was written."
            ) from error
        last, self._fence = found
        if last != self._batch:
            raise translate(error, self._engine) from error

    def _roll_back(self, error: BaseException) -> None:
        try:
            self._writer.rollback()
        except Exception:
            self._writer.reconnect()
        else:
            if is_disconnect(error):
                self._writer.reconnect()

    def _write_alone(self, member: _Member, outcomes: list[Outcome | None]) -> None:
        # Chains before this one may have been written, so nothing may be raised for all.
        place, chain, _ = member
        try:
            self._write([member], [], outcomes)
        except _Conflict:
            error = ConcurrentWriteError(chain.ref, expected=chain.head.sequence_number)
            outcomes[place] = Outcome(error=error)
            self._counters.clear()
        except _Unfit as error:
            problem = f"{chain.ref} has a value that can't be stored: {error}"
            outcomes[place] = Outcome(error=PersistenceError(problem))
        except PersistenceError as error:
            outcomes[place] = Outcome(error=error)

    def _leave_out_losers(
        self, members: list[_Member], outcomes: list[Outcome | None]
    ) -> tuple[list[_Member], list[Row]]:
        """Find out who conflicts, in a new transaction; returns who may go on."""
        self._counters.clear()
        chains = [chain for _, chain, _ in members]
        with translated(self._engine), self._reading.connect() as connection:
            verdict = judge(connection, self._fence, chains, self._clock.now_ms())
        survivors = []
        for number, member in enumerate(members):
            if number in verdict.losers:
                outcomes[member[0]] = verdict.losers[number]
            else:
                survivors.append(member)
        return survivors, verdict.expired

    def _count_anew_after_changes(self) -> None:
        """Forget where slices stand after each change of what is owned."""
        state = (self._fence, self._ownership.changes())
        if self._counted_for != state:
            self._counters.clear()
            self._counted_for = state

    def _counters_of(self, slice_: int) -> Counters:
        """The last numbers given in a slice; read from the database when first needed.

        Only after the slice was known to be owned: a number read before that may be followed
        by another one of its last owner's.
        """
        known = self._counters.get(slice_)
        if known is None:
            with translated(self._engine), self._reading.connect() as connection:
                known = self._counters[slice_] = last_numbers(connection, slice_)
        return known
