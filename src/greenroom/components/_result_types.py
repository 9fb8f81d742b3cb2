"""What the types of parameters and results mean at an MCP endpoint."""

from __future__ import annotations

from asyncio import Future, Task
from collections.abc import Awaitable, Coroutine, Sequence
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from greenroom.components._hints import union_members
from greenroom.components.content import MessageContent, PromptMessage
from greenroom.components.endpoint_methods import BYTES, JSON, TEXT
from greenroom.components.schema import shape_of


def without_awaitable(annotation: Any) -> Any:
    """What a method answers with in the end: of `Awaitable[T]`, T."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return without_awaitable(get_args(annotation)[0])
    if origin in (Awaitable, Coroutine, Future, Task):
        return without_awaitable(get_args(annotation)[-1])
    return annotation


def tool_shape(reply_type: Any) -> str | None:
    """How the result is shown; None for media in a place where they can't be."""
    inner = [one for one in union_members(reply_type) if one is not NoneType]
    if inner and all(_is_content(one) or _is_content_list(one) for one in inner):
        return "content"
    return None if _mentions_content(reply_type) else shape_of(reply_type)


def _is_content(python_type: Any) -> bool:
    return isinstance(python_type, type) and issubclass(python_type, MessageContent)


def _is_content_list(python_type: Any) -> bool:
    if get_origin(python_type) not in (list, Sequence):
        return False
    members = [one for one in union_members(get_args(python_type)[0]) if one is not NoneType]
    return bool(members) and all(map(_is_content, members))


def _mentions_content(python_type: Any) -> bool:
    return _is_content(python_type) or any(map(_mentions_content, get_args(python_type)))


def is_message(reply_type: Any) -> bool:
    if get_origin(reply_type) in (list, Sequence):
        return is_message(get_args(reply_type)[0])
    members = union_members(reply_type)
    return all(one in (str, PromptMessage) or _is_content(one) for one in members)


def mime_type(reply_type: Any) -> str:
    members = {one for one in union_members(reply_type) if one is not NoneType}
    if members == {str}:
        return TEXT
    if members and members <= {bytes, bytearray, memoryview}:
        return BYTES
    return JSON


def choices_of(python_type: Any) -> tuple[str, ...]:
    """The texts that a type allows, where it names them."""
    found: list[str] = []
    for one in union_members(python_type):
        if get_origin(one) is Literal:
            found += [str(value) for value in get_args(one)]
        elif isinstance(one, type) and issubclass(one, Enum):
            found += [str(member.value) for member in one]
    return tuple(found)
