"""URI templates of resources: named placeholders for whole path segments, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_AFTER_PATH: Final = re.compile(r"[?#]")


def uri_problem(uri: str) -> str | None:
    """Why a text can't be the URI of a resource; None when it can."""
    if not _SCHEME.match(uri):
        return "must begin with a scheme, as shop://terms"
    if re.search(r"[\s{}]", uri):
        return "must have no spaces and no braces; write placeholders with uri_template="
    return None


def normal_uri(uri: str) -> str:
    """A URI with scheme and authority in lower case, in which case means nothing."""
    head, rest = _split(uri)
    return head + rest


def _split(uri: str) -> tuple[str, str]:
    """Scheme and authority, and what follows: the path with what comes after it."""
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return "", uri
    start = scheme.end()
    if uri.startswith("//", start):
        found = re.compile(r"[/?#]").search(uri, start + 2)
        end = len(uri) if found is None else found.start()
        return uri[:end].lower(), uri[end:]
    return uri[:start].lower(), uri[start:]


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A template that was read; `match` gives the values for a URI.

    Example:
        >>> template, problem = UriTemplate.read("file:///images/{category}/{file}")
        >>> template.match("file:///images/bicycles/tall_bike.jpg")
        {'category': 'bicycles', 'file': 'tall_bike.jpg'}
    """

    text: str
    head: str
    segments: tuple[tuple[bool, str], ...]
    """For each segment of the path: whether it is a placeholder, and its name or text."""

    @classmethod
    def read(  # noqa: PLR0911 - one line per rule
        cls, text: str
    ) -> tuple[UriTemplate | None, str | None]:
        """The template, or what is wrong with it."""
        if not _SCHEME.match(text):
            return None, "must begin with a scheme, as shop://carts/{cart_id}"
        head, path = _split(text)
        if "{" in head or "}" in head:
            return None, (
                "has a placeholder outside the path; only whole path segments can be placeholders, "
                "as in shop:///{cart_id}"
            )
        if re.search(r"[?#]", path) or re.search(r"\s", text):
            return None, "must end with its path: no query, no fragment, no spaces"
        segments = [_segment(one) for one in path.split("/")]
        broken = [
            text
            for is_placeholder, text in segments
            if not is_placeholder and set(text) & set("{}")
        ]
        if broken:
            return None, (
                f"has {broken[0]!r} in its path; a placeholder is a whole segment with a plain "
                "name, as {cart_id}"
            )
        names = [name for is_placeholder, name in segments if is_placeholder]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            return None, f"has {', '.join('{' + name + '}' for name in twice)} more than once"
        if not names:
            return None, "has no placeholder; use uri= for a resource without parameters"
        return cls(text, head, tuple(segments)), None

    @property
    def names(self) -> tuple[str, ...]:
        """The placeholders, in order."""
        return tuple(name for is_placeholder, name in self.segments if is_placeholder)

    @property
    def shape(self) -> tuple[object, ...]:
        """The same for two templates that match the same URIs."""
        return (self.head, *(None if variable else text for variable, text in self.segments))

    @property
    def literals(self) -> int:
        """How many segments are given; of two templates the one with more is asked first."""
        return sum(not is_placeholder for is_placeholder, _ in self.segments)

    def match(self, uri: str, *, any_segment: bool = False) -> dict[str, str] | None:
        """The decoded values, or None when this is no URI of the template.

        Args:
            uri: The URI that is asked for.
            any_segment: Take values too that, once decoded, would be another path: with a slash
                or backslash, `.` or `..`, or NUL.
        """
        head, path = _split(uri)
        if head != self.head or _AFTER_PATH.search(path):
            return None
        parts = path.split("/")
        if len(parts) != len(self.segments):
            return None
        values: dict[str, str] = {}
        for part, (is_placeholder, text) in zip(parts, self.segments, strict=True):
            if not is_placeholder:
                if part != text:
                    return None
                continue
            value = _decoded(part)
            if not value or not (any_segment or _is_safe(value)):
                return None
            values[text] = value
        return values

    def expand(self, values: dict[str, str]) -> str:
        """The URI for some values; whatever is reserved in them is encoded."""
        path = "/".join(
            quote(values[text], safe="") if is_placeholder else text
            for is_placeholder, text in self.segments
        )
        return self.head + path


def _segment(text: str) -> tuple[bool, str]:
    placeholder = _PLACEHOLDER.fullmatch(text)
    return (True, placeholder[1]) if placeholder else (False, text)


def _decoded(part: str) -> str | None:
    """Percent-decoded once; None for what is no UTF-8."""
    if "%" not in part:
        return part
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        return None


def _is_safe(value: str) -> bool:
    return value not in (".", "..") and not any(one in value for one in ("/", "\\", "\0"))
