"""A call on its way to an instance, and its answer on the way back."""

from __future__ import annotations

import hashlib
import threading
from contextvars import ContextVar
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from greenroom.components import Metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.components import HandlerDefinition
    from greenroom.ids import EntityRef
    from greenroom.runtime._future import ReplyFuture

call_chain: ContextVar[tuple[EntityRef, ...]] = ContextVar("greenroom_call_chain", default=())
"""The instances that wait for the code that runs now; a call to one of them would never end."""


class CallOrigin:
    """The run of a step that makes calls: it gives them keys that are the same when it runs again.

    A key is made of the run, of what is called with which arguments, and of the how-manieth
    such call it is. A call that failed has not counted, so that the same call once more is the
    same call and not another one.
    """

    def __init__(
        self,
        run: str,
        *,
        keep_until: int,
        correlation_id: str | None = None,
        causation: str | None = None,
        traceparent: str | None = None,
        principal: str | None = None,
    ) -> None:
        self.run = run
        self.keep_until = keep_until
        self.correlation_id = correlation_id
        self.causation = causation
        self.traceparent = traceparent
        self.principal = principal
        self.on_call: Callable[[CallRequest], None] | None = None
        """Told of every call; for tests."""
        self._taken: dict[tuple[EntityRef, str, str], set[int]] = {}
        self._places: dict[str, tuple[tuple[EntityRef, str, str], int]] = {}
        self._lock = threading.Lock()

    def key_for(self, ref: EntityRef, handler: HandlerDefinition, values: tuple[Any, ...]) -> str:
        """The key of one more call."""
        what = (ref, handler.name, handler.fingerprint(values))
        with self._lock:
            taken = self._taken.setdefault(what, set())
            place = next(n for n in range(len(taken) + 1) if n not in taken)
            taken.add(place)
            text = "\0".join((self.run, ref.component, ref.instance, *what[1:], str(place)))
            key = "step-" + hashlib.blake2b(text.encode(), digest_size=20).hexdigest()
            self._places[key] = (what, place)
        return key

    def release(self, key: str | None) -> None:
        """The call of this key has failed."""
        with self._lock:
            found = self._places.pop(key, None) if key is not None else None
            if found is not None:
                self._taken[found[0]].discard(found[1])


call_origin: ContextVar[CallOrigin | None] = ContextVar("greenroom_call_origin", default=None)
"""The step whose code runs now, if it is one."""


def comes_from(request: CallRequest, origin: CallOrigin | None) -> None:
    """Say which step makes a call, if one does, and see to it that it is carried out once.

    Args:
        request: The call.
        origin: Whose client makes it: threads that a step has started know nothing else.
    """
    origin = call_origin.get() or origin
    if origin is None:
        return
    request.origin = origin
    if origin.on_call is not None:
        origin.on_call(request)
    if request.idempotency_key is None and not request.handler.read_only:
        request.idempotency_key = origin.key_for(request.ref, request.handler, request.values)
        request.receipt_expires_at = origin.keep_until
    request.correlation_id = request.correlation_id or origin.correlation_id
    request.causation = origin.causation
    request.traceparent = origin.traceparent
    request.principal = request.principal or origin.principal


def has_failed(request: CallRequest) -> None:
    """A call has failed; made once more by the same step, it is the same call."""
    if request.origin is not None:
        request.origin.release(request.idempotency_key)


@dataclass(slots=True)
class CallRequest:
    """One command to one instance, checked and ready to be delivered.

    It is its own envelope: `message` and `reply_to` are what a pykka inbox looks at.
    """

    ref: EntityRef
    handler: HandlerDefinition
    values: tuple[Any, ...]
    timeout: float | None = None
    """Seconds the caller waits; None takes the service's `ask_timeout`."""
    metadata: Metadata | None = None
    idempotency_key: str | None = None
    expected_version: int | None = None
    principal: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    causation: str | None = None
    chain: tuple[EntityRef, ...] = ()
    receipt_expires_at: int | None = None
    """How long the key is remembered, in milliseconds since 1970; None takes `keep_receipts`."""
    deadline: float = 0.0
    """On the monotonic clock; a command that is reached later is dropped unprocessed."""
    as_json: bool = False
    """Whether the caller wants JSON; then a reply that has none is refused before it is stored."""
    attempts: int = 0
    """How often a conflict made it run again."""
    origin: CallOrigin | None = None
    """The step that makes the call, if one does."""
    reply_to: ReplyFuture[Answer] | None = None

    @property
    def message(self) -> CallRequest:
        """What pykka calls the message: the request itself."""
        return self

    def again(self) -> CallRequest:
        """The same call, to be made once more."""
        return replace(self, reply_to=None, attempts=0, deadline=0.0)

    def expired(self) -> bool:
        """Whether the caller has stopped waiting."""
        return self.deadline != 0.0 and monotonic() > self.deadline

    def correlation(self) -> str:
        """The id under which this call is found in the log; made when first asked for."""
        if self.correlation_id is None:
            self.correlation_id = uuid4().hex
        return self.correlation_id

    @property
    def json_due(self) -> bool:
        """Whether the reply will be needed as JSON: for the caller, or to be kept with a key."""
        return self.as_json or self.idempotency_key is not None

    @property
    def target(self) -> str:
        """What is called, for messages: `component.handler`."""
        return f"{self.ref.component}.{self.handler.name}"


class Answer:
    """What a handler answered, as a value and as JSON, each made when it is asked for."""

    __slots__ = ("_handler", "_json", "_value", "metadata", "sequence_number")

    def __init__(
        self,
        handler: HandlerDefinition,
        value: Any,
        sequence_number: int,
        *,
        metadata: Metadata | None = None,
        json: bytes | None = None,
        json_due: bool = False,
    ) -> None:
        self._handler = handler
        self._value = value
        self._json = json
        self.sequence_number = sequence_number
        self.metadata = metadata
        if json is not None:
            return
        if not handler.reply_shareable:
            # A reply that could be changed by its sender is fixed as JSON before the next
            # command runs; every reader then gets a copy of its own.
            self._json = handler.encode_reply(value)
            self._value = None
        elif json_due:
            # Asked for later anyway; made now, it is refused while nothing is stored.
            self._json = handler.encode_reply(value)
        else:
            handler.check_reply(value)

    @classmethod
    def stored(cls, handler: HandlerDefinition, json: bytes, sequence_number: int) -> Answer:
        """An answer that was read back, or came from another process."""
        return cls(handler, None, sequence_number, json=json)

    @property
    def value(self) -> Any:
        """The reply, as the handler's reply type."""
        if self._value is None and self._json is not None:
            return self._handler.decode_reply(self._json)
        return self._value

    @property
    def json(self) -> bytes:
        """The reply as JSON."""
        if self._json is None:
            self._json = self._handler.encode_reply(self._value)
        return self._json
