"""What tools, prompts and resources answer with when text is not enough: media and resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Icon:
    """A picture for an endpoint, a tool, a resource or a prompt in a client's interface."""

    src: str
    """A URL (`https:` or `data:`)."""
    mime_type: str | None = None
    sizes: tuple[str, ...] = ()
    """As `"48x48"`, or `"any"`."""


@dataclass(frozen=True, kw_only=True)
class MessageContent:
    """One piece of what a tool or a prompt answers with; use one of its subclasses."""

    audience: tuple[Role, ...] = ()
    """For whom it is meant; both when empty."""
    priority: float | None = None
    """How much it matters, from 0 to 1."""


@dataclass(frozen=True)
class TextContent(MessageContent):
    """Text, where it stands beside other content."""

    text: str


@dataclass(frozen=True)
class _Bytes(MessageContent):
    data: bytes
    mime_type: str

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Self:
        """From bytes and what they are, as `"image/png"`."""
        return cls(data, mime_type)


@dataclass(frozen=True)
class ImageContent(_Bytes):
    """An image, inline.

    Example:
        >>> ImageContent.from_bytes(b"...", "image/png").mime_type
        'image/png'
    """


@dataclass(frozen=True)
class AudioContent(_Bytes):
    """Sound, inline."""


@dataclass(frozen=True)
class PdfContent(MessageContent):
    """A PDF document, inline."""

    data: bytes
    name: str = "document.pdf"

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "document.pdf") -> Self:
        """From the document's bytes."""
        return cls(data, name)


@dataclass(frozen=True)
class ResourceLink(MessageContent):
    """A resource that the client may read, or leave alone; also how one is listed."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """In bytes, when it is known."""


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """What a resource holds; a read may answer with several.

    Args:
        data: Text, or bytes.
        uri: Its own URI; by default the one that was read.
        mime_type: What it is; by default that of the resource.
    """

    data: str | bytes
    uri: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True)
class EmbeddedResource(MessageContent):
    """A resource with its content, inside a result or a prompt; the content names its URI."""

    resource: ResourceContent


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt.

    Example:
        >>> PromptMessage("assistant", "What do you like?").role
        'assistant'
    """

    role: Role
    content: str | MessageContent
