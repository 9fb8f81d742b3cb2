"""Ids, parsed once: which component, which instance, which slice; and the texts they are."""

from __future__ import annotations

import re
from binascii import crc32
from typing import NamedTuple

from greenroom.errors import InvalidIdError

MAX_INSTANCE_ID = 255
"""Characters in an instance id (docs/decisions: ids are any text of 1 to 255 characters)."""

_COMPONENT_ID = re.compile(r"[a-z][a-z0-9-]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class EntityRef(NamedTuple):
    """One instance of one component; the only address that crosses a process.

    Example:
        >>> str(EntityRef("cart", "c-1"))
        'cart/c-1'
    """

    component: str
    instance: str

    def __str__(self) -> str:
        return f"{self.component}/{self.instance}"


def is_component_id(text: str) -> bool:
    """Whether the text can be a component id: lower case letters, digits and hyphens."""
    return _COMPONENT_ID.match(text) is not None


def is_plain_text(text: object, limit: int) -> bool:
    """Whether it is text of 1 to `limit` characters that every database can store.

    Control characters and lone surrogates are not: PostgreSQL knows no NUL, and a surrogate
    alone has no UTF-8.
    """
    if not isinstance(text, str) or not 0 < len(text) <= limit:
        return False
    return text.isprintable() or not _CONTROL.search(text)


def without_surrogates(text: str) -> str:
    """The text with a question mark for each lone surrogate: those no JSON and no UTF-8 has.

    Example:
        >>> without_surrogates("a" + chr(0xD800))
        'a?'
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


def entity_ref(component: str, instance: str) -> EntityRef:
    """The checked address of an instance.

    Raises:
        InvalidIdError: The instance id is empty, over 255 characters long, not text, or has
            control characters (or lone surrogates) in it.
    """
    # str.isprintable is a quick yes for nearly every id; only the others are looked at closely.
    if not isinstance(instance, str):
        raise InvalidIdError(
            f"The instance id of {component!r} must be text, not {type(instance).__name__}."
        )
    if not 0 < len(instance) <= MAX_INSTANCE_ID:
        raise InvalidIdError(
            f"The instance id of {component!r} must have 1 to {MAX_INSTANCE_ID} characters; "
            f"this one has {len(instance)}."
        )
    if not instance.isprintable() and _CONTROL.search(instance):
        raise InvalidIdError(
            f"The instance id of {component!r} must not have control characters: {instance!r}."
        )
    return EntityRef(component, instance)


def slice_of(ref: EntityRef, slices: int) -> int:
    """The slice of the journal that an instance belongs to, for ever.

    `crc32(component + NUL + instance) % slices`: the same on every machine and version.
    """
    if slices == 1:
        return 0
    return crc32(f"{ref.component}\0{ref.instance}".encode()) % slices
