"""What all live instances of one component share."""

from __future__ import annotations

import logging
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from greenroom.errors import PayloadTooLargeError, UnreadableRecordError
from greenroom.persistence import Codec, StoredType
from greenroom.runtime._recovery import Recovered, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from greenroom.clock import Clock
    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.persistence import Encoded, Journal, StoredInstance, StoredRecord
    from greenroom.runtime._actor import Envelope
    from greenroom.runtime._dispatch import Dispatcher
    from greenroom.runtime._entity_actor import EntityActor
    from greenroom.runtime._writer import JournalWriter
    from greenroom.settings import Settings

_log = logging.getLogger("greenroom.runtime")

_PAGE = 1000


class EntityHost:
    """One component in one running service: its definition, and the means to carry it out."""

    def __init__(  # noqa: PLR0913 - the runtime wires it once
        self,
        definition: ComponentDefinition,
        *,
        actor_class: type[EntityActor],
        settings: Settings,
        clock: Clock,
        journal: Journal,
        writer: JournalWriter,
        dispatcher: Dispatcher,
        dependencies: Mapping[str, Any],
        read_later: Callable[[Callable[[], None]], None],
        redeliver: Callable[[Envelope], None],
    ) -> None:
        self.definition = definition
        self._actor_class = actor_class
        self.settings = settings
        self.clock = clock
        self.journal = journal
        self.writer = writer
        self.dispatcher = dispatcher
        self.read_later = read_later
        self.redeliver = redeliver
        self.codec = codec_for(definition)
        self.state_type_name = definition.stored_types[0].name
        self.event_sourced = definition.kind == "event-sourced-entity"
        self.state_may_be_none = definition.state_may_be_none
        self.state_shareable = definition.state_shareable
        self.watches_state = not self.state_shareable
        """Whether a handler could change the state in place, so that it is looked at afterwards."""
        self.dependencies = dependencies
        self._receipt_ms = int(settings.keep_receipts.total_seconds() * 1000)

    def new_actor(self, ref: EntityRef) -> EntityActor:
        """A cold instance; its first command recovers it."""
        return self._actor_class(self, ref)

    def recover(self, ref: EntityRef) -> Recovered:
        """Read and rebuild an instance. Blocks on the database.

        Raises:
            RecoveryError: It can't be rebuilt.
            PersistenceError: The database can't be read.
        """
        stored = self.journal.load(ref, latest_only=not self.event_sourced)
        try:
            return recover(self.definition, self.codec, self.dependencies, ref, stored)
        except UnreadableRecordError as error:
            # A snapshot is only a shortcut; when the code can't read it, the events must do.
            _log.warning("The snapshot of %s can't be used (%s); replaying all events", ref, error)
            whole = self._without_snapshot(ref, stored)
            return recover(self.definition, self.codec, self.dependencies, ref, whole)

    def _without_snapshot(self, ref: EntityRef, stored: StoredInstance) -> StoredInstance:
        records: list[StoredRecord] = []
        after = 0
        while page := self.journal.records(ref, after=after, limit=_PAGE):
            records += page
            after = page[-1].sequence_number
        stored.snapshot = None
        stored.records = records
        return stored

    def encode_state(self, ref: EntityRef, state: Any) -> Encoded:
        """The stored form of a state.

        Raises:
            PayloadTooLargeError: It is over `max_state_bytes`.
        """
        encoded = self.codec.encode(state, name=self.state_type_name)
        size = len(encoded.payload)
        if size > self.settings.max_state_bytes:
            raise PayloadTooLargeError(
                f"The state of {ref}",
                size=size,
                limit=self.settings.max_state_bytes,
                setting="GREENROOM_MAX_STATE_BYTES",
            )
        return encoded

    def fingerprint_of(self, state: Any) -> bytes | None:
        """The same for as long as nobody changes the state in place; None where unknown."""
        return self.codec.fingerprint(state, name=self.state_type_name)

    def receipt_expiry(self) -> int:
        """When a key that is used now may be forgotten."""
        return self.clock.now_ms() + self._receipt_ms

    def written_in_slice(self) -> None:
        """A slice has submitted writes: wake the writer, unless this thread will write itself."""
        if not lent_threads.active():
            # The writer is woken when the loop has nothing more in hand. Woken at the first
            # write, it would fight the loop for the interpreter lock, which it needs again for
            # each row, and its batch would be a small one.
            self.dispatcher.at_end_of_turn(self.writer.notify)


class LentThreads:
    """Threads that run a slice for the call they wait for, and may commit it themselves."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        self._threads: set[int] = set()

    def lend(self, thread: int) -> None:
        """This thread runs slices itself until `take_back`."""
        self._threads.add(thread)

    def take_back(self, thread: int) -> None:
        """This thread waits like any other again."""
        self._threads.discard(thread)

    def active(self) -> bool:
        """Whether the current thread is lent."""
        return get_ident() in self._threads


lent_threads = LentThreads()


def codec_for(definition: ComponentDefinition) -> Codec:
    """The codec of everything a component stores."""
    return Codec(
        [
            StoredType(info.name, info.version, info.python_type, info.migrations)
            for info in definition.stored_types
        ]
    )
