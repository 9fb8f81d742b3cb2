"""What an endpoint and its tools ask of callers, as declarations; `edge` holds callers to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from re import Pattern
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from greenroom.components.contexts import ToolContext
    from greenroom.components.principals import Claims, Principal

FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class Matcher:
    """Which callers are meant; made by `Acl.INTERNET`, `Acl.ALL` and `Acl.service(...)`."""

    kind: Literal["all", "internet", "service"]
    pattern: str = ""
    """The name of a service; `*` stands for any characters."""


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may call: whoever an `allow` matches and no `deny` does, so nobody by default.

    A service always may call itself.

    Args:
        allow: Who may.
        deny: Who may not all the same.
        deny_code: The HTTP status that the others get.

    Example:
        >>> Acl(allow=[Acl.INTERNET, Acl.service("billing-*")], deny=[Acl.service("billing-test")])
        ... # doctest: +ELLIPSIS
        Acl(...)
    """

    allow: Sequence[Matcher] = ()
    deny: Sequence[Matcher] = ()
    deny_code: int = FORBIDDEN

    INTERNET = Matcher("internet")
    """Every caller that is not one of the project's services."""
    ALL = Matcher("all")
    """The internet and every service."""

    @staticmethod
    def service(name: str) -> Matcher:
        """The services of this name, in which `*` stands for any characters."""
        return Matcher("service", name)

    @classmethod
    def allow_internet(cls) -> Acl:
        """Callers from the internet, and no services."""
        return cls(allow=(cls.INTERNET,))

    @classmethod
    def allow_all(cls) -> Acl:
        """Everybody."""
        return cls(allow=(cls.ALL,))

    @classmethod
    def allow_services(cls, *names: str) -> Acl:
        """The services of these names, `*` in them for any characters; nobody from the internet."""
        return cls(allow=tuple(cls.service(name) for name in names))

    @classmethod
    def deny_all(cls) -> Acl:
        """Nobody but the service itself."""
        return cls()


@dataclass(frozen=True, slots=True)
class Issuer:
    """Somebody whose tokens are believed. `${NAME}` stands for an environment variable.

    Args:
        url: What its tokens say in `iss`, to the letter.
        jwks: Where its keys are; by default what its OpenID discovery document says.
        keys: Its public keys themselves, as JWKs or PEM text, instead of an address.
        algorithms: Which signatures are taken; by default those that fit its keys.
        refresh_every: Keys older than this are used no more; fetched again at half of it.

    Example:
        >>> Issuer("https://login.example.com", jwks="https://login.example.com/keys.json").url
        'https://login.example.com'
    """

    url: str
    jwks: str | None = None
    keys: Sequence[Mapping[str, Any] | str] = ()
    algorithms: Sequence[str] = ()
    refresh_every: timedelta = timedelta(hours=1)


SubjectOf = str | Callable[["Claims"], str]


@dataclass(frozen=True, slots=True)
class Jwt:
    """A bearer token is required; signatures, issuer, audience, times and claims are checked.

    Args:
        issuers: Whose tokens are believed, as `Issuer` or its URL.
        audiences: What a token must be made for, one of these; by default the address of the
            endpoint under `GREENROOM_PUBLIC_URL`. `${NAME}` stands for an environment variable.
        claims: What else a token must say: a text, several texts that must all be there, or a
            compiled pattern that one value must match as a whole.
        required: Claims that must be there, whatever they say.
        scopes: What a token must permit, for anything at this endpoint.
        subject: The claim that names the principal, or a function of the claims. To be given
            where there are several issuers, since two may use one name.
        leeway: How far clocks may be apart.

    Example:
        >>> Jwt(issuers=["https://login.example.com"], audiences=["https://shop.example.com/mcp"],
        ...     claims={"tenant": "acme"})              # doctest: +ELLIPSIS
        Jwt(...)
    """

    issuers: Sequence[Issuer | str]
    audiences: Sequence[str] = ()
    claims: Mapping[str, str | Sequence[str] | Pattern[str]] = field(default_factory=dict)
    required: Sequence[str] = ()
    scopes: Set[str] = frozenset()
    subject: SubjectOf = "sub"
    leeway: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How often one principal may call, as a bucket of tokens that fills up evenly.

    Callers without a name are told apart by their address. Each process counts for itself.

    Args:
        calls: How many in `per`, over time.
        per: The time.
        burst: How many at once, after a pause; `calls` by default.

    Example:
        >>> RateLimit(600, per=timedelta(minutes=1), burst=50).burst
        50
    """

    calls: int
    per: timedelta = timedelta(minutes=1)
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call that is to be allowed or not, after its arguments have been validated."""

    principal: Principal
    tool: str
    component: str
    """Of a method of the endpoint itself, the name of its class."""
    instance_id: str
    """Empty for a method of the endpoint itself."""
    arguments: Mapping[str, Any]
    """What the handler would get, by parameter, with defaults filled in."""
    context: ToolContext


Authorize = Callable[[ToolRequest], bool | Awaitable[bool]]
"""Whether a call may be made. Raise a `CommandError` to say why not.

It runs on the event loop, so it must not wait, unless it is a coroutine function."""


@dataclass(frozen=True, slots=True)
class Security:
    """What one endpoint asks of its callers; None asks nothing."""

    acl: Acl | None = None
    jwt: Jwt | None = None
    rate_limit: RateLimit | None = None
    authorize: Authorize | None = None
    scopes: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Access:
    """What one tool asks beyond its endpoint."""

    acl: Acl | None = None
    scopes: Set[str] = frozenset()
    authorize: Authorize | None = None
