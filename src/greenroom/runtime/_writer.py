"""Group commit: whatever waits is written in one transaction, then every answer goes out.

Nothing lingers: the writer drains what is queued, commits, and drains again; the queue that
builds up during a flush is the next batch. A thread that asks and finds nobody writing
commits by itself, which saves two thread switches; an event loop never does.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from _thread import allocate_lock
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from greenroom.errors import CommitUnknownError, InternalError, NotOwnerError, PersistenceError
from greenroom.persistence import Chain
from greenroom.runtime._future import Wakeups

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.ids import EntityRef
    from greenroom.persistence import CommandWrite, Head, Journal, Outcome
    from greenroom.runtime._calls import Answer, CallRequest

_log = logging.getLogger("greenroom.runtime")


class WritingActor(Protocol):
    """What the writer needs of an actor: where it stands, and to be told of a failure."""

    ref: EntityRef
    kind: str
    head: Head
    """Where the instance stands in the database; only the writer changes it while writes are
    under way."""

    def on_write_failed(self) -> None:
        """A write of this actor failed; called on the writer's thread."""
        ...


class Life:
    """The time from one recovery of an instance to the next failure.

    Once one of its writes has failed, what was computed after it rests on a state that never
    came to be, so every later write of the same life is left out.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: PersistenceError | None = None


class PendingWrite:
    """A command's effect on its way to the disk, with the answers that wait for it."""

    __slots__ = (
        "actor",
        "answer",
        "call",
        "done",
        "duplicate",
        "error",
        "held",
        "life",
        "previous",
        "then_run",
        "write",
    )

    def __init__(
        self,
        actor: WritingActor,
        life: Life,
        call: CallRequest,
        write: CommandWrite,
        answer: Answer,
        then_run: Callable[[], None] | None,
        previous: PendingWrite | None,
    ) -> None:
        self.actor: Any = actor
        self.life = life
        self.call: Any = call
        self.write: Any = write
        self.answer: Any = answer
        self.then_run = then_run
        self.previous = previous
        self.held: list[tuple[CallRequest, Answer | BaseException]] | None = None
        self.done = False
        self.error: PersistenceError | None = None
        self.duplicate: Any = None

    def hold(self, call: CallRequest, answer: Answer | BaseException) -> None:
        """Let an answer wait that was computed from the state after this write."""
        if self.held is None:
            self.held = []
        self.held.append((call, answer))
        # The writer may have finished between the caller's look at `done` and now. Then it may
        # or may not have seen this answer; delivering it twice is harmless.
        if self.done and self.error is None:
            deliver(call, answer)

    def succeed(self, wakeups: Wakeups) -> None:
        """Send every answer that waited for this write."""
        self.done = True
        if self.call.reply_to is not None:
            self.call.reply_to.set_later(self.answer, wakeups)
        if self.held is not None:
            for call, answer in self.held:
                deliver(call, answer, wakeups)
        # An idle actor keeps its last write; it must not keep what the write carried.
        self.actor = self.call = self.write = self.answer = self.then_run = None
        self.previous = self.held = None

    def fail(self, error: PersistenceError) -> None:
        """Leave everything to the actor, which knows whether to run the commands again."""
        if self.life.error is None:
            self.life.error = error
        self.error = error
        self.done = True


def is_durable(write: PendingWrite | None) -> bool:
    """Whether a write, if there is one, has gone in."""
    return write is None or (write.done and write.error is None)


def deliver(
    call: CallRequest, answer: Answer | BaseException, wakeups: Wakeups | None = None
) -> None:
    """Give a call its answer, if anybody waits for it."""
    future = call.reply_to
    if future is None:
        return
    if isinstance(answer, BaseException):
        future.fail(answer)
    elif wakeups is not None:
        future.set_later(answer, wakeups)
    else:
        future.set(answer)


class JournalWriter:
    """Takes writes from every actor and commits them in batches."""

    def __init__(
        self,
        journal: Journal,
        *,
        max_batch: int,
        run_later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._journal = journal
        self._max_batch = max_batch
        self._run_later = run_later
        self.on_fenced: Callable[[], None] = _nothing
        """Told when the journal says that this process has lost its slices."""
        self._queue: deque[PendingWrite] = deque()
        self._commit_lock = threading.Lock()
        # A bare lock: threading.Semaphore is written in Python and costs ten times as much.
        self._gate = allocate_lock()
        self._gate.acquire()
        self._idle = True
        self._stopping = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="greenroom-writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued, then end."""
        self._stopping = True
        self._open_gate()
        self._thread.join()
        self._closed = True
        self._refuse_the_rest()

    def submit(self, write: PendingWrite) -> None:
        """Queue a write. May be called from any thread; the order per actor is kept."""
        self._queue.append(write)

    def notify(self) -> None:
        """Wake the writer, unless it is about to look at the queue anyway."""
        if self._idle:
            self._idle = False
            self._open_gate()
        if self._closed:
            self._refuse_the_rest()

    def write_here(self) -> None:
        """Commit what is queued on this thread, or leave it to whoever is writing.

        Only for threads that may wait for the disk. What others queue meanwhile is left to the
        writer's own thread, so that no caller works for the others longer than for itself.
        """
        if not self._queue:
            return
        if self._commit_lock.acquire(blocking=False):
            try:
                if not self._closed:
                    self._commit(self._drain())
            finally:
                self._commit_lock.release()
        if self._queue:
            self.notify()

    def exclusive(self) -> threading.Lock:
        """The lock that keeps commits out, for whoever moves slices."""
        return self._commit_lock

    def _work(self) -> None:
        while True:
            self._idle = True
            if not self._queue:
                if self._stopping:
                    return
                self._gate.acquire()
            self._idle = False
            with self._commit_lock:
                batch = self._drain()
                if batch:
                    self._commit(batch)

    def _refuse_the_rest(self) -> None:
        """What came too late is told so; it must not wait for its deadline."""
        with self._commit_lock:
            while batch := self._drain():
                self._fail_all([[one] for one in batch], NotOwnerError("This process is stopping."))

    def _open_gate(self) -> None:
        # Two senders may both find the writer idle; the gate is open after the first.
        with contextlib.suppress(RuntimeError):
            self._gate.release()

    def _drain(self) -> list[PendingWrite]:
        queue = self._queue
        take = min(len(queue), self._max_batch)
        return [queue.popleft() for _ in range(take)]

    def _commit(self, batch: list[PendingWrite]) -> None:
        chains: dict[int, list[PendingWrite]] = {}
        for write in batch:
            if write.life.error is not None:
                write.fail(write.life.error)
                write.actor.on_write_failed()
            else:
                chains.setdefault(id(write.actor), []).append(write)
        if chains:
            self._write(list(chains.values()))

    def _write(self, members: list[list[PendingWrite]]) -> None:
        try:
            self._write_or_tell(members)
        except BaseException:
            # Control-C on the thread that commits: nobody knows whether it went in, and every
            # write of the batch must be settled, or its instance would wait for ever.
            unknown = CommitUnknownError("The thread that was writing was interrupted.")
            unsettled = [[one for one in writes if not one.done] for writes in members]
            self._fail_all([writes for writes in unsettled if writes], unknown)
            raise

    def _write_or_tell(self, members: list[list[PendingWrite]]) -> None:
        try:
            outcomes = self._journal.commit([_chain(writes) for writes in members])
        except PersistenceError as error:
            self._fail_all(members, error)
            if isinstance(error, NotOwnerError):
                self.on_fenced()
        except Exception as error:
            _log.exception("The journal failed in a way it should not")
            wrapped = InternalError(f"The journal failed: {type(error).__name__}")
            wrapped.__cause__ = error
            self._fail_all(members, _as_persistence_error(wrapped))
        else:
            self._settle(members, outcomes)

    def _settle(self, members: list[list[PendingWrite]], outcomes: list[Outcome]) -> None:
        wakeups = Wakeups()
        later: list[Callable[[], None]] = []
        for writes, outcome in zip(members, outcomes, strict=True):
            if outcome.error is None and outcome.head is not None:
                writes[0].actor.head = outcome.head
                for write in writes:
                    if write.then_run is not None:
                        later.append(write.then_run)
                    write.succeed(wakeups)
            else:
                _fail_chain(writes, outcome)
        wakeups.send()
        for run in later:
            self._run_later(run)

    def _fail_all(self, members: list[list[PendingWrite]], error: PersistenceError) -> None:
        for writes in members:
            for write in writes:
                write.fail(error)
            writes[0].actor.on_write_failed()


def _nothing() -> None:
    """Before there is an owner to be told."""


def _chain(writes: list[PendingWrite]) -> Chain:
    actor = writes[0].actor
    return Chain(
        ref=actor.ref, kind=actor.kind, head=actor.head, writes=[one.write for one in writes]
    )


def _fail_chain(writes: list[PendingWrite], outcome: Outcome) -> None:
    error = outcome.error
    if error is None:
        error = _as_persistence_error(InternalError("The journal gave neither a head nor an error"))
    first_uses = {one.key: one for one in outcome.duplicates}
    for write in writes:
        write.duplicate = first_uses.get(write.call.idempotency_key)
        write.fail(error)
    writes[0].actor.on_write_failed()


def _as_persistence_error(error: InternalError) -> PersistenceError:
    wrapped = PersistenceError(str(error))
    wrapped.__cause__ = error
    return wrapped
