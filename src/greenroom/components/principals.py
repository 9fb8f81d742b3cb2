"""Who makes a call: a principal, and what a token said about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final


class Claims(Mapping[str, Any]):
    """What a verified token says; a mapping, with the registered claims as attributes.

    Example:
        >>> claims = Claims({"iss": "https://login.example", "sub": "ada", "aud": "shop"})
        >>> claims.subject, claims.audiences, claims.get("tenant", "none")
        ('ada', ('shop',), 'none')
    """

    __slots__ = ("_claims",)

    def __init__(self, claims: Mapping[str, Any]) -> None:
        self._claims = dict(claims)

    @property
    def issuer(self) -> str | None:
        """Who made the token (`iss`)."""
        return self._claims.get("iss")

    @property
    def subject(self) -> str | None:
        """Whom it is about (`sub`), in the issuer's words."""
        return self._claims.get("sub")

    @property
    def audiences(self) -> tuple[str, ...]:
        """Whom it is meant for (`aud`)."""
        found = self._claims.get("aud", ())
        return (found,) if isinstance(found, str) else tuple(found)

    @property
    def expires_at(self) -> datetime | None:
        """When it ends (`exp`)."""
        return self._time("exp")

    @property
    def issued_at(self) -> datetime | None:
        """When it was made (`iat`)."""
        return self._time("iat")

    @property
    def id(self) -> str | None:
        """The token's own id (`jti`)."""
        return self._claims.get("jti")

    def _time(self, name: str) -> datetime | None:
        seconds = self._claims.get(name)
        return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)

    def __getitem__(self, name: str) -> Any:
        return self._claims[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def __repr__(self) -> str:
        # Values are personal; a log or an error message must not show them.
        return f"<Claims {', '.join(self._claims)}>"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call.

    Example:
        >>> Principal("ada").subject
        'ada'
        >>> ANONYMOUS.is_anonymous, ANONYMOUS.is_internet
        (True, True)
    """

    subject: str | None = None
    """Its name, which travels with every command and is kept beside what the command stored:
    from the token, or `service:NAME` for another service. None for somebody unknown."""
    service: str | None = None
    """The service that makes the call; None from the internet."""
    claims: Claims | None = None
    """What the verified token said; None without one."""
    scopes: frozenset[str] = frozenset()
    """What the token permits."""

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing is known of the caller."""
        return self.subject is None

    @property
    def is_internet(self) -> bool:
        """Whether the call comes from outside, and not from a service that proved its name."""
        return self.service is None

    def __str__(self) -> str:
        return self.subject or "anonymous"


ANONYMOUS: Final = Principal()
"""Somebody from the internet of whom nothing is known."""
