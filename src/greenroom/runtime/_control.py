"""Messages of the runtime's own to an actor; each is its own envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.ids import EntityRef


class Control:
    """A message of the runtime to an actor: something to do in a slice."""

    __slots__ = ("ref", "run")
    reply_to = None

    def __init__(self, run: Callable[[], None], ref: EntityRef | None = None) -> None:
        self.run = run
        self.ref = ref

    @property
    def message(self) -> Control:
        """It is its own envelope."""
        return self


class Expire:
    """Asks an instance to delete itself, if it is due."""

    __slots__ = ("ref",)
    reply_to = None

    def __init__(self, ref: EntityRef) -> None:
        self.ref = ref

    @property
    def message(self) -> Expire:
        """It is its own envelope."""
        return self


class WhenWritten:
    """Stands in for an asker: tells the actor that a write has been settled."""

    __slots__ = ("_tell", "reply_to")

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.reply_to = self

    def set(self, _value: object = None) -> None:
        self._tell()

    def set_later(self, _value: object, _wakeups: object) -> None:
        self._tell()

    def fail(self, _error: BaseException) -> None:
        self._tell()
