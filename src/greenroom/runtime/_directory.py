"""Which instances are live: started by their first message, one each, gone when idle."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from greenroom.ids import EntityRef
from greenroom.runtime._control import Control

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from greenroom.runtime._actor import Envelope
    from greenroom.runtime._entity_actor import EntityActor
    from greenroom.runtime._host import EntityHost

_log = logging.getLogger("greenroom.runtime")

EVICT_AT_ONCE = 64
"""Instances evicted in one go above the limit: bounded work in the sender of a message."""


class Directory:
    """Finds the one live actor of an instance, or starts it."""

    def __init__(
        self, hosts: Mapping[str, EntityHost], *, max_live: int, passivate_after: float
    ) -> None:
        self._hosts = hosts
        self._max_live = max_live
        self._passivate_after = passivate_after
        # In the order of use. The C implementation's methods are atomic under the GIL for keys
        # of text, so the lock is only for what takes more than one of them. Among the
        # instances stand marks (None): whatever is before a mark was last used before the
        # mark was set, so that no message has to leave a time stamp.
        self._live: OrderedDict[EntityRef, EntityActor | None] = OrderedDict()
        self._lock = threading.Lock()
        self._marks: deque[tuple[float, EntityRef]] = deque()
        self._marks_set = 0

    def __len__(self) -> int:
        return len(self._live) - len(self._marks)

    def find(self, ref: EntityRef) -> EntityActor:
        """The live actor of an instance; started if there is none."""
        actor = self._live.get(ref)
        if actor is None or actor.actor_stopped.is_set():
            return self._start(ref)
        try:
            self._live.move_to_end(ref)
        except KeyError:
            return self._start(ref)
        return actor

    def host_of(self, ref: EntityRef) -> EntityHost:
        """What all instances of this component share."""
        return self._hosts[ref.component]

    def deliver(self, envelope: Any) -> None:
        """Put a message into the mailbox of the instance it is for.

        Raises:
            OverloadedError: The mailbox is full.
        """
        self.find(envelope.message.ref).actor_inbox.put(envelope)

    def live(self) -> list[EntityActor]:
        """Every live actor, the least recently used first."""
        with self._lock:
            return [actor for actor in self._live.values() if actor is not None]

    def _start(self, ref: EntityRef) -> EntityActor:
        with self._lock:
            actor = self._live.get(ref)
            if actor is None or actor.actor_stopped.is_set():
                actor = self._hosts[ref.component].new_actor(ref)
                self._live[ref] = actor
                self._live.move_to_end(ref)
            crowded = len(self) > self._max_live
        if crowded:
            self._evict(EVICT_AT_ONCE, keep=self._max_live)
        return actor

    def _evict(self, most: int, *, keep: int) -> None:
        """Let the least recently used instances go."""
        with self._lock:
            over = max(min(most, len(self) - keep), 0)
            oldest = islice((actor for actor in self._live.values() if actor is not None), over)
            candidates = list(oldest)
        for actor in candidates:
            self._passivate(actor.ref, actor)

    def _passivate(self, ref: EntityRef, actor: EntityActor) -> bool:
        if not actor.stop_if_idle():
            # Busy: it counts as used, or it would be looked at again and again.
            with self._lock:
                if self._live.get(ref) is actor:
                    self._live.move_to_end(ref)
            return False
        with self._lock:
            if self._live.get(ref) is actor:
                del self._live[ref]
        return True

    def passivate_idle(self, *, batch: int = 10_000) -> int:
        """Let instances go that were not used for `passivate_after`; returns how many went.

        Called again and again; the time between two calls is the precision.
        """
        now = monotonic()
        with self._lock:
            self._marks_set += 1
            mark = EntityRef("", str(self._marks_set))
            self._live[mark] = None
            self._marks.append((now, mark))
        gone = 0
        while now - self._marks[0][0] >= self._passivate_after:
            idle = self._before(self._marks[0][1], batch)
            gone += sum(self._passivate(actor.ref, actor) for actor in idle)
            if len(idle) == batch:
                break
            with self._lock:
                del self._live[self._marks.popleft()[1]]
            if not self._marks:
                break
        return gone

    def _before(self, mark: EntityRef, most: int) -> list[EntityActor]:
        found: list[EntityActor] = []
        with self._lock:
            for ref, actor in self._live.items():
                if ref == mark or len(found) == most:
                    break
                if actor is not None:
                    found.append(actor)
        return found

    def passivate_where(
        self,
        matches: Callable[[EntityRef], bool],
        *,
        among: Iterable[EntityActor] | None = None,
    ) -> list[EntityActor]:
        """Let go what matches, of all or of these; returns those that are still busy."""
        busy = []
        for actor in self.live() if among is None else among:
            if matches(actor.ref) and not self._passivate(actor.ref, actor):
                busy.append(actor)
        return busy

    def is_live(self, ref: EntityRef) -> bool:
        """Whether the instance is in memory, and so sees by itself to what is due."""
        actor = self._live.get(ref)
        return actor is not None and not actor.actor_stopped.is_set() and actor.is_ready()

    def knows(self, component: str) -> bool:
        """Whether the service has this component (a database may hold others)."""
        return component in self._hosts

    def deliver_control(self, message: Any) -> None:
        """Put a message of the runtime's own before all others, past the mailbox's limit."""
        self.find(message.ref).actor_inbox.put_first([message])

    def forget(self, refs: Collection[EntityRef]) -> None:
        """Make these instances recover before their next command."""
        for ref in refs:
            actor = self._live.get(ref)
            if actor is not None and not self._passivate(ref, actor):
                actor.actor_inbox.put_control(Control(actor.drop))

    def abandon(self, matches: Callable[[EntityRef], bool]) -> None:
        """Drop instances that this process no longer owns, whatever they are doing."""
        for actor in self.live():
            if matches(actor.ref):
                with self._lock:
                    if self._live.get(actor.ref) is actor:
                        del self._live[actor.ref]
                actor.actor_inbox.put_control(Control(actor.abandon))

    def redeliver(self, envelope: Envelope) -> None:
        """A message reached an instance that had just left memory: hand it to the next one."""
        try:
            self.deliver(envelope)
        except Exception as error:
            future: Any = envelope.reply_to
            if future is not None:
                future.fail(error)
