"""Metadata: a few strings that travel beside a command, a reply or an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self


class Metadata:
    """An immutable, ordered multi-map of text; keys are found in any case.

    Example:
        >>> metadata = Metadata([("Colour", "green")]).add("colour", "blue")
        >>> metadata.get("COLOUR"), metadata.get_all("colour")
        ('green', ['green', 'blue'])
    """

    __slots__ = ("_pairs",)

    EMPTY: ClassVar[Metadata]

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        checked = tuple((key, value) for key, value in pairs)
        for key, value in checked:
            if not isinstance(key, str) or not isinstance(value, str) or not key:
                message = f"Metadata is text under non-empty names, not {key!r}: {value!r}"
                raise TypeError(message)
        self._pairs = checked

    def get(self, key: str) -> str | None:
        """The first value under a key, or None."""
        return next(iter(self.get_all(key)), None)

    def get_last(self, key: str) -> str | None:
        """The last value under a key, or None."""
        return next(iter(reversed(self.get_all(key))), None)

    def get_all(self, key: str) -> list[str]:
        """Every value under a key, in order."""
        wanted = key.lower()
        return [value for name, value in self._pairs if name.lower() == wanted]

    def has(self, key: str) -> bool:
        """Whether there is a value under a key."""
        return bool(self.get_all(key))

    def set(self, key: str, value: str) -> Self:
        """A copy with this as the only value under the key."""
        return type(self)((*self.remove(key)._pairs, (key, value)))

    def add(self, key: str, value: str) -> Self:
        """A copy with one more value under the key."""
        return type(self)((*self._pairs, (key, value)))

    def remove(self, key: str) -> Self:
        """A copy without any value under the key."""
        unwanted = key.lower()
        return type(self)(pair for pair in self._pairs if pair[0].lower() != unwanted)

    def merge(self, other: Metadata) -> Self:
        """A copy with the other's values added after the own."""
        return type(self)((*self._pairs, *other._pairs))

    def keys(self) -> list[str]:
        """The keys in order of their first use, each once."""
        seen: dict[str, str] = {}
        for key, _ in self._pairs:
            seen.setdefault(key.lower(), key)
        return list(seen.values())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metadata) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"Metadata({list(self._pairs)!r})"


Metadata.EMPTY = Metadata()
