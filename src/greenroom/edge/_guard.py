"""Who comes in at one door, and what they may do there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from greenroom.components import ANONYMOUS, Acl, Principal, Security
from greenroom.edge._acl import AclCheck
from greenroom.edge._jwt import SERVICE_PREFIX, TokenVerifier
from greenroom.edge._rate_limit import RateLimiter
from greenroom.edge._refusals import Refusal, RefusedError
from greenroom.edge._requests import target_of
from greenroom.edge._service_tokens import SERVICE_HEADER, ServiceTokens
from greenroom.logs import correlation_id

if TYPE_CHECKING:
    from greenroom.clock import Clock
    from greenroom.components import Tool, ToolContext
    from greenroom.edge._audit import Audit
    from greenroom.edge._keys import Fetch
    from greenroom.settings import Settings

    Scope = MutableMapping[str, Any]

_log = logging.getLogger("greenroom.edge")

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_BEARER: Final = "bearer "
_NO_SCOPES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What doors need to know of the service they belong to."""

    name: str
    settings: Settings
    clock: Clock
    fetch: Fetch | None = None
    """Gets the JSON at an address; for tests."""

    def service_tokens(self) -> ServiceTokens | None:
        """What services prove their names with; None where no secret is set."""
        secret = self.settings.service_secret
        if secret is None:
            return None
        return ServiceTokens(secret.get_secret_value(), own_name=self.name, clock=self.clock)

    def resource(self, path: str) -> str | None:
        """The address under which the outside knows a path, where the settings say."""
        base = self.settings.public_url
        return None if base is None else base.rstrip("/") + path


class Guard:
    """Admits callers to one door, as its `Security` asks.

    Args:
        security: What is asked of callers.
        around: The service that the door belongs to.
        path: Of the endpoint, when it describes itself to OAuth clients; else None.
        tools: Those of the endpoint.
        audit: Where calls that are refused for their tool are recorded.
    """

    def __init__(
        self,
        security: Security,
        around: Surroundings,
        *,
        path: str | None = None,
        tools: Sequence[Tool] = (),
        audit: Audit | None = None,
    ) -> None:
        self.path = path
        self._audit = audit
        self._around = around
        self._acl = None if security.acl is None else self._check(security.acl)
        self._services = around.service_tokens()
        jwt = security.jwt
        self._scopes = frozenset(security.scopes) | (_NO_SCOPES if jwt is None else jwt.scopes)
        self._verifier: TokenVerifier | None = None
        if jwt is not None:
            own = around.resource(path or "")
            audiences = jwt.audiences or ([] if own is None else [own])
            self._verifier = TokenVerifier(jwt, audiences, clock=around.clock, fetch=around.fetch)
        limit = security.rate_limit
        self._limiter = None if limit is None else RateLimiter(limit, around.clock)
        self._acls = {
            tool.name: self._check(tool.access.acl)
            for tool in tools
            if tool.access is not None and tool.access.acl is not None
        }
        self.scopes_supported = sorted(
            self._scopes.union(*(one.access.scopes for one in tools if one.access is not None))
        )

    @property
    def takes_tokens(self) -> bool:
        """Whether callers show a bearer token."""
        return self._verifier is not None

    def _check(self, acl: Acl) -> AclCheck:
        return AclCheck(acl, own_name=self._around.name)

    async def admit(self, scope: Scope, known: Principal | None = None) -> Principal:
        """Who makes a request.

        Args:
            scope: Of the request.
            known: Whom another guard has found already.

        Raises:
            RefusedError: They may not come in, or not now, or must show who they are.
        """
        try:
            principal = self._service_of(scope) if known is None else known
            if self._acl is not None and not self._acl.allows(principal):
                raise _denied(self._acl)
            if self._verifier is not None:
                principal = await self._with_token(principal, self._verifier, scope)
            self._require(self._scopes, principal)
            self.spend(principal, scope)
        except RefusedError as error:
            _log.info(
                "%s: refused: %s",
                target_of(scope),
                error.refusal.code,
                extra={"correlation_id": correlation_id.get()},
            )
            raise
        return principal

    def _service_of(self, scope: Scope) -> Principal:
        token = _header(scope, SERVICE_HEADER)
        if token is None:
            return ANONYMOUS
        name = None if self._services is None else self._services.caller(token)
        if name is None:
            raise RefusedError(
                Refusal(401, "invalid-service-token", "The service token is not accepted.")
            )
        return Principal(SERVICE_PREFIX + name, name)

    async def _with_token(
        self, caller: Principal, verifier: TokenVerifier, scope: Scope
    ) -> Principal:
        header = _header(scope, b"authorization")
        if header is None:
            raise RefusedError(
                Refusal(401, "token-missing", "A bearer token is required.", self._asking())
            )
        if header[: len(_BEARER)].lower() != _BEARER:
            challenge = self._asking()
            raise RefusedError(
                Refusal(401, "token-missing", "Authorization must be a Bearer token.", challenge)
            )
        found = await verifier.verify(header[len(_BEARER) :].strip())
        return Principal(found.subject, caller.service, found.claims, found.scopes)

    def _asking(self) -> dict[str, str]:
        return {"scope": " ".join(sorted(self._scopes))} if self._scopes else {}

    def _require(self, scopes: frozenset[str], principal: Principal) -> None:
        if not scopes <= principal.scopes:
            # Everything that is needed, not just what lacks: the next token replaces this one.
            challenge = {
                "error": "insufficient_scope",
                "scope": " ".join(sorted(scopes | self._scopes)),
            }
            missing = " ".join(sorted(scopes - principal.scopes))
            raise RefusedError(
                Refusal(
                    403, "insufficient-scope", f"The token lacks the scope {missing}.", challenge
                )
            )

    def spend(self, principal: Principal, scope: Scope, calls: int = 1) -> None:
        """Count calls against the principal's rate.

        Raises:
            RefusedError: There were too many; 429 with `Retry-After`.
        """
        if self._limiter is None or calls == 0:
            return
        waits_ms = self._limiter.spend(_name_for_counting(principal, scope), calls)
        if waits_ms:
            seconds = -(-waits_ms // 1000)
            raise RefusedError(
                Refusal(
                    429,
                    "rate-limited",
                    f"Too many calls; nothing was done. Try again in {seconds} s.",
                    headers=((b"retry-after", b"%d" % seconds),),
                )
            )

    def offers(self, tool: Tool, principal: Principal) -> bool:
        """Whether a tool is shown to somebody; one that lacks only a scope is."""
        acl = self._acls.get(tool.name)
        return acl is None or acl.allows(principal)

    def check_tool(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        traceparent: str | None,
    ) -> None:
        """Whether somebody who came in may call a tool at all.

        Raises:
            RefusedError: They may not, or not with this token.
        """
        if tool.access is None:
            return
        try:
            acl = self._acls.get(tool.name)
            if acl is not None and not acl.allows(context.principal):
                raise _denied(acl)
            self._require(frozenset(tool.access.scopes), context.principal)
        except RefusedError as error:
            if self._audit is not None:
                self._audit.record(
                    tool,
                    arguments,
                    context,
                    outcome="denied",
                    code=error.refusal.code,
                    traceparent=traceparent,
                )
            raise

    def headers(self, refusal: Refusal, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that a refusal is told with."""
        if refusal.challenge is None:
            return refusal.headers
        said = dict(refusal.challenge)
        if self.path is not None and self._verifier is not None:
            said["resource_metadata"] = self._base(scope) + METADATA_PATH + self.path
        value = "Bearer " + ", ".join(f'{name}="{_quoted(text)}"' for name, text in said.items())
        return (*refusal.headers, (b"www-authenticate", value.strip().encode("latin-1", "replace")))

    def metadata(self, scope: Scope) -> dict[str, Any] | None:
        """What OAuth clients are told about the endpoint (RFC 9728); None where it takes no tokens."""
        if self._verifier is None or self.path is None:
            return None
        return {
            "resource": self._around.resource(self.path) or self._base(scope) + self.path,
            "authorization_servers": list(self._verifier.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": self._around.name,
            **({"scopes_supported": self.scopes_supported} if self.scopes_supported else {}),
        }

    def _base(self, scope: Scope) -> str:
        # The Host has been checked: it is a name that this service answers to.
        known = self._around.resource("")
        return known or f"{scope.get('scheme', 'http')}://{_header(scope, b'host') or ''}"


def _denied(acl: AclCheck) -> RefusedError:
    return RefusedError(Refusal(acl.deny_code, "access-denied", "You may not do this."))


def _name_for_counting(principal: Principal, scope: Scope) -> str:
    if principal.subject is not None:
        return principal.subject
    client = scope.get("client")
    # Not a possible subject: those have no control characters.
    return "\0" + (client[0] if client else "")


def _header(scope: Scope, name: bytes) -> str | None:
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        # Readers of the first and of the last would see different callers.
        raise RefusedError(
            Refusal(400, "doubled-header", f"The {name.decode()} header came more than once.")
        )
    return found[0].decode("latin-1").strip(" \t") if found else None


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
