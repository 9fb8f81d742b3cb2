"""An actor without a thread of its own, on pykka's seam for new actor types.

pykka asks a new actor type for an inbox, a future and a way to start its loop. Ours holds no
thread while it is idle: a message that arrives schedules a *slice*, which works off up to 32
messages or 5 ms and then goes to the back of the queue. The message loop is ours too, since
supervision, deadlines and held answers need a place; pykka's refs, messages, futures, `ask`,
`tell`, `stop` and proxies keep working (tests/unit/runtime/test_actor.py).

What is fenced here, each with a test:
- a `BaseException` in a handler (`asyncio.CancelledError` is one) stops every actor of the
  process in pykka; here it is an error like another;
- a message put after the final drain is lost in pykka; here it is answered;
- an `ActorRef` keeps only a weak reference; here the inbox owns the actor;
- `ActorRegistry` is a list that is searched on every stop; these actors are not in it.
"""

from __future__ import annotations

import logging
import threading
from _thread import get_ident
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar, Protocol, cast

import pykka
from pykka import messages

from greenroom.runtime._dispatch import Dispatcher, running_slices
from greenroom.runtime._future import ReplyFuture, blocked_threads

_log = logging.getLogger("greenroom.runtime")

SLICE_MESSAGES = 32
"""Messages of one actor before others get their turn (fairness measured at 1 to 128)."""
SLICE_SECONDS = 0.005

_PYKKA_MESSAGES = (
    messages._ActorStop,
    messages.ProxyCall,
    messages.ProxyGetAttr,
    messages.ProxySetAttr,
)

# Messages go to the front of a mailbox only around failures and recoveries, so that one lock
# for all mailboxes is enough, and saves one in each.
_front_lock = threading.Lock()

LATER: Any = object()
"""What `on_receive` returns when it answers by itself, later."""


class Envelope(Protocol):
    """A message on its way, with the future that waits for its answer."""

    @property
    def message(self) -> Any: ...
    @property
    def reply_to(self) -> pykka.Future[Any] | None: ...


class StopFlag:
    """The two methods of `threading.Event` that pykka uses, without the 500 bytes of one."""

    __slots__ = ("_stopped",)

    def __init__(self) -> None:
        self._stopped = False

    def is_set(self) -> bool:
        """Whether the actor has stopped."""
        return self._stopped

    def set(self) -> None:
        """Mark the actor as stopped."""
        self._stopped = True


class Inbox:
    """A mailbox that schedules its actor when a message arrives, and owns it.

    `put` runs in the sender, so a full mailbox refuses there by raising.
    """

    __slots__ = (
        "_control",
        "_front",
        "_queue",
        "_running",
        "actor",
        "dispatcher",
        "limit",
        "paused",
    )

    def __init__(self) -> None:
        self.actor: SlicedActor | None = None
        self.dispatcher: Dispatcher | None = None
        self.limit = 0
        self.paused = False
        # Made when a message first has to wait; most instances never have one waiting.
        self._queue: SimpleQueue[Envelope] | None = None
        self._front: list[Envelope] | None = None
        self._control: list[Envelope] | None = None
        # Held while a slice is scheduled or running: the single-writer guarantee.
        self._running = threading.Lock()

    def put(self, envelope: Envelope) -> None:
        """Queue a message and see to it that the actor runs.

        Raises:
            OverloadedError: (from the actor) the mailbox is full.
        """
        queue = self._queue
        if queue is None:
            with _front_lock:
                queue = self._queue = self._queue or SimpleQueue()
        if self.limit and queue.qsize() >= self.limit and self.actor is not None:
            self.actor.on_overload(envelope)
        queue.put(envelope)
        if not self.paused and self._running.acquire(blocking=False):
            self._schedule()

    def put_first(self, envelopes: Iterable[Envelope]) -> None:
        """Queue messages before all others, past the limit."""
        with _front_lock:
            self._front = [*envelopes, *(self._front or ())] or None
        if not self.paused and self._running.acquire(blocking=False):
            self._schedule()

    def put_control(self, envelope: Envelope) -> None:
        """Queue a message of the runtime's own, which is handled even while paused."""
        with _front_lock:
            self._control = [*(self._control or ()), envelope]
        if self._running.acquire(blocking=False):
            self._schedule()

    def offer(self, envelope: Envelope) -> bool:
        """Queue a message, or claim an idle actor for it.

        True when the actor is the caller's now, who must let it handle this message with
        `actor.run_slice(envelope)`, on whatever thread; the message has not been queued then.

        Raises:
            OverloadedError: (from the actor) the mailbox is full.
        """
        if self._running.acquire(blocking=False):
            if not self.paused and self.empty():
                return True
            # Others came first.
            self.unclaim()
        self.put(envelope)
        return False

    def claim(self) -> bool:
        """Keep the actor from running, if it is idle; end with `unclaim`."""
        return self._running.acquire(blocking=False)

    def unclaim(self) -> None:
        """Let the actor run again, and at once if something arrived meanwhile."""
        self._running.release()
        if self.has_work() and self._running.acquire(blocking=False):
            self._schedule()

    def has_work(self) -> bool:
        """Whether a slice would find something to do."""
        return self._control is not None or (not self.paused and not self.empty())

    def take(self) -> Envelope | None:
        """The next message for a slice, or None."""
        # Only the holder of the flag takes, so what is there now is still there below.
        if self._control is not None:
            with _front_lock:
                first, *rest = self._control
                self._control = rest or None
                return first
        if self.paused:
            return None
        if self._front is not None:
            with _front_lock:
                first, *rest = self._front
                self._front = rest or None
                return first
        queue = self._queue
        return None if queue is None or queue.empty() else queue.get_nowait()

    def get(self) -> Envelope:
        """Pykka's protocol: the next message."""
        envelope = self.take()
        if envelope is None:
            raise Empty
        return envelope

    def empty(self) -> bool:
        """Pykka's protocol: whether nothing is queued."""
        queue = self._queue
        return self._control is None and self._front is None and (queue is None or queue.empty())

    def is_busy(self) -> bool:
        """Whether a slice runs or is about to, or something is queued."""
        return self._running.locked() or not self.empty()

    def __len__(self) -> int:
        queued = 0 if self._queue is None else self._queue.qsize()
        return queued + len(self._front or ()) + len(self._control or ())

    def _schedule(self) -> None:
        if self.dispatcher is not None and self.actor is not None:
            self.dispatcher.schedule(self.actor.run_slice)


class SlicedActor(pykka.Actor):
    """A pykka actor that runs in slices on a dispatcher.

    Subclasses implement `on_receive(message)`; what it returns answers the asker, unless it is
    `LATER`. An exception is handed to `on_error`, which by default answers with it.
    """

    actor_inbox: Inbox  # type: ignore[assignment]  # narrower than pykka's protocol, on purpose
    mailbox_limit: ClassVar[int] = 0

    def __init__(self, dispatcher: Dispatcher) -> None:
        # Not pykka's constructor: its random URN, Event and eager ActorRef are two thirds of
        # what an idle actor weighs.
        self.actor_stopped = StopFlag()  # type: ignore[assignment]
        inbox = Inbox()
        inbox.actor = self
        inbox.dispatcher = dispatcher
        inbox.limit = self.mailbox_limit
        self.actor_inbox = inbox

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> pykka.ActorRef[Any]:
        """Construct the actor and let it run `on_start`; it is not put into the registry."""
        actor = cls(*args, **kwargs)
        actor._start_actor_loop()
        return actor.actor_ref

    @property
    def name(self) -> str:
        """What the actor is called, in logs and in its URN."""
        return f"{id(self):x}"

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # an attribute in pykka; few ever ask
        """Pykka's name for an actor."""
        return f"urn:greenroom:{self.name}"

    @property
    def actor_ref(self) -> pykka.ActorRef[Any]:
        """A pykka reference; made on demand, since few actors are ever asked for one."""
        return pykka.ActorRef(self)

    @staticmethod
    def _create_actor_inbox() -> Any:
        return Inbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return ReplyFuture()

    def _start_actor_loop(self) -> None:
        self._actor_loop_setup()

    def _stop(self) -> None:
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception:
            _log.exception("on_stop of %s failed", self)

    def _handle_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        _log.error("%s failed", self, exc_info=(exception_type, exception_value, traceback))
        self.actor_stopped.set()

    def run_slice(self, first: Envelope | None = None) -> None:
        """Work off some messages. Only the holder of the inbox's running flag calls this.

        Args:
            first: A message that was never queued, since the actor was idle (`Inbox.offer`).
        """
        inbox = self.actor_inbox
        thread = get_ident()
        outer = blocked_threads.get(thread)
        blocked_threads[thread] = "inside a handler"
        running_slices[thread] = monotonic()
        try:
            if first is None or self.actor_stopped.is_set():
                self._work_off(inbox, first)
            else:
                self._handle(first)
            self.end_of_slice()
        finally:
            running_slices.pop(thread, None)
            if outer is None:
                blocked_threads.pop(thread, None)
            else:
                blocked_threads[thread] = outer
            again = not inbox.empty() if self.actor_stopped.is_set() else inbox.has_work()
            if again:
                inbox._schedule()
            else:
                inbox.unclaim()

    def _work_off(self, inbox: Inbox, late: Envelope | None) -> None:
        budget = SLICE_MESSAGES
        deadline = 0.0
        while not self.actor_stopped.is_set():
            envelope = inbox.take()
            if envelope is None:
                return
            self._handle(envelope)
            budget -= 1
            if budget == 0:
                return
            # The clock is only asked when there is a second message.
            if deadline == 0.0:
                deadline = monotonic() + SLICE_SECONDS
            elif monotonic() > deadline:
                return
        if late is not None:
            self.on_dead_letter(late)
        self._drain(inbox)

    def _handle(self, envelope: Envelope) -> None:
        message = envelope.message
        try:
            answer = (
                self._handle_receive(message)
                if isinstance(message, _PYKKA_MESSAGES)
                else self.on_receive(message)
            )
        # pykka stops every actor in the process on a BaseException, and
        # asyncio.CancelledError is one.
        except BaseException as error:
            answer = self.on_error(envelope, error)
        if answer is not LATER and envelope.reply_to is not None:
            envelope.reply_to.set(answer)

    def _drain(self, inbox: Inbox) -> None:
        inbox.paused = False
        while (envelope := inbox.take()) is not None:
            self.on_dead_letter(envelope)

    def end_of_slice(self) -> None:
        """Hook: the slice has handled its messages."""

    def on_error(self, envelope: Envelope, error: BaseException) -> Any:
        """Hook: `on_receive` raised. Answers with the error; returns `LATER`."""
        if envelope.reply_to is None:
            _log.error("%s failed on a message nobody waits for", self, exc_info=error)
        else:
            cast("ReplyFuture[Any]", envelope.reply_to).fail(error)
        return LATER

    def on_overload(self, _envelope: Envelope) -> None:
        """Hook, in the sender: the mailbox is full. Raises to refuse the message."""

    def on_dead_letter(self, envelope: Envelope) -> None:
        """Hook: a message that came after the stop."""
        if envelope.reply_to is None:
            return
        if isinstance(envelope.message, messages._ActorStop):
            envelope.reply_to.set(None)
        else:
            cast("ReplyFuture[Any]", envelope.reply_to).fail(
                pykka.ActorDeadError(f"{self} stopped before handling the message")
            )
