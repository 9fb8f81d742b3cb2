"""Key value entities: a command replaces the whole state."""

from __future__ import annotations

from typing import ClassVar, Generic, Never, Self, TypeVar

from greenroom.components.effects import KEY_VALUE, KeyValueEffects
from greenroom.components.entity import Entity

S = TypeVar("S")


class KeyValueEntity(Entity[S], Generic[S]):
    """An entity that stores its whole state with every change.

    Example:
        >>> @component("profile")                                     # doctest: +SKIP
        ... class ProfileEntity(KeyValueEntity[Profile]):
        ...     def empty_state(self) -> Profile:
        ...         return Profile()
        ...
        ...     def rename(self, name: str) -> Effect[Profile]:
        ...         changed = self.state.model_copy(update={"name": name})
        ...         return self.effects.update_state(changed).then_reply(changed)
    """

    kind: ClassVar[str] = "key-value-entity"

    @property
    def effects(self) -> KeyValueEffects[S]:
        """Builds what a handler returns."""
        return KEY_VALUE

    def _kind(self) -> tuple[Self, S, Never]:
        raise NotImplementedError
