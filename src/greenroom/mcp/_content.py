"""Content, icons and annotations as the protocol writes them."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from greenroom.components import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PdfContent,
    ResourceContent,
    ResourceLink,
    TextContent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.components import Icon, MessageContent


def content_block(content: str | MessageContent) -> dict[str, Any]:
    """One block of a result or a message."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    block = _block(content)
    annotations = annotations_of(content.audience, content.priority)
    return {**block, "annotations": annotations} if annotations else block


def _block(content: MessageContent) -> dict[str, Any]:
    match content:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent(data=data, mime_type=kind):
            return {"type": "image", "data": _base64(data), "mimeType": kind}
        case AudioContent(data=data, mime_type=kind):
            return {"type": "audio", "data": _base64(data), "mimeType": kind}
        case PdfContent(data=data, name=name):
            inner = ResourceContent(data, f"attachment:///{name}", "application/pdf")
            return {"type": "resource", "resource": resource_contents(inner)}
        case EmbeddedResource(resource=inner):
            return {"type": "resource", "resource": resource_contents(inner)}
        case ResourceLink():
            return {"type": "resource_link", **described_link(content)}
        case _:
            message = f"{type(content).__name__} is no content that MCP knows; use one of its kinds"
            raise TypeError(message)


def resource_contents(content: ResourceContent) -> dict[str, Any]:
    """What a resource holds."""
    if not content.uri:
        message = "ResourceContent that is embedded needs the uri of its resource"
        raise ValueError(message)
    made: dict[str, Any] = {"uri": content.uri}
    if content.mime_type:
        made["mimeType"] = content.mime_type
    if isinstance(content.data, str):
        return {**made, "text": content.data}
    return {**made, "blob": _base64(content.data)}


def described_link(link: ResourceLink) -> dict[str, Any]:
    """A resource as it is listed, or linked to."""
    return without_none(
        {
            "uri": link.uri,
            "name": link.name,
            "title": link.title,
            "description": link.description,
            "mimeType": link.mime_type,
            "size": link.size,
        }
    )


def annotations_of(audience: Iterable[str], priority: float | None) -> dict[str, Any]:
    """For whom something is meant, and how much it matters."""
    return without_none({"audience": list(audience) or None, "priority": priority})


def icons_of(icons: Iterable[Icon]) -> list[dict[str, Any]] | None:
    """Icons; None when there are none."""
    made = [
        without_none({"src": one.src, "mimeType": one.mime_type, "sizes": list(one.sizes) or None})
        for one in icons
    ]
    return made or None


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    """The members that say something."""
    return {name: value for name, value in members.items() if value is not None}


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
