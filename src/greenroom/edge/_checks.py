"""What is wrong with what endpoints ask of callers: found at start, every breach at once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from greenroom.components import Access, Acl, Authorize, Issuer, Jwt, RateLimit, Security
from greenroom.components.security import Matcher
from greenroom.edge._jwt import expanded, issuer_of
from greenroom.edge._keys import ALGORITHMS, is_safe_address, key_of
from greenroom.edge._service_tokens import MIN_SECRET

if TYPE_CHECKING:
    from greenroom.components import McpEndpointDefinition
    from greenroom.settings import Settings

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")
"""A scope token of RFC 6749."""
_SERVICE: Final = re.compile(r"[A-Za-z0-9._*-]+\Z")
_HTTP: Final = range(400, 600)
_INSTALL: Final = 'pip install "greenroom[jwt]"'


def endpoint_problems(definition: McpEndpointDefinition, settings: Settings) -> Iterator[str]:
    """What is wrong with an MCP endpoint's security, by its class."""
    where = definition.cls.__qualname__
    security = definition.security
    yield from door_problems(definition.cls, security, settings)
    if security is None:
        return
    for tool in definition.tools:
        if tool.access is not None:
            yield from _access_problems(f"{where}: {tool.name}", tool.access, security, settings)


def door_problems(
    endpoint: type[Any], security: Security | None, settings: Settings
) -> Iterator[str]:
    """What is wrong with what an endpoint asks for all that it offers, by its class."""
    where = endpoint.__qualname__
    if settings.require_acl and (security is None or security.acl is None):
        yield f"{where}: has no acl=, and GREENROOM_REQUIRE_ACL asks for one; say who may call it"
    if security is not None:
        yield from security_problems(where, security, settings)


def security_problems(where: str, security: Security, settings: Settings) -> Iterator[str]:
    """What is wrong with the security of a door, which is named by `where`."""
    if security.acl is not None:
        yield from _acl_problems(f"{where}: acl=", security.acl, settings)
    if security.jwt is not None:
        yield from _jwt_problems(f"{where}: jwt=", security.jwt, settings)
    if security.rate_limit is not None:
        yield from _rate_problems(f"{where}: rate_limit=", security.rate_limit)
    if security.authorize is not None:
        yield from _authorize_problems(f"{where}: authorize=", security.authorize)
    yield from _scope_problems(f"{where}: scopes=", security.scopes)


def settings_problems(settings: Settings) -> Iterator[str]:
    """What is wrong with the settings that security needs."""
    secret = settings.service_secret
    if secret is not None:
        if len(secret.get_secret_value().encode()) < MIN_SECRET:
            yield f"GREENROOM_SERVICE_SECRET must have at least {MIN_SECRET} bytes"
        if find_spec("jwt") is None:
            yield f"GREENROOM_SERVICE_SECRET needs a package that is not installed: {_INSTALL}"
    url = settings.public_url
    if url is not None and not (
        urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname
    ):
        yield f"GREENROOM_PUBLIC_URL must be like https://shop.example.com, not {url!r}"


def _acl_problems(where: str, acl: object, settings: Settings) -> Iterator[str]:
    if not isinstance(acl, Acl):
        yield f"{where} must be an Acl, not {acl!r}"
        return
    if not isinstance(acl.allow, Collection) or not isinstance(acl.deny, Collection):
        yield f"{where} allow and deny must be lists, as Acl(allow=[Acl.INTERNET])"
        return
    matchers = [*acl.allow, *acl.deny]
    for one in matchers:
        if not isinstance(one, Matcher):
            yield f"{where} {one!r} matches nobody; use Acl.INTERNET, Acl.ALL or Acl.service(...)"
        elif one.kind == "service" and not _SERVICE.match(one.pattern):
            yield f"{where} no service can have the name {one.pattern!r}"
    if type(acl.deny_code) is not int or acl.deny_code not in _HTTP:
        yield f"{where} deny_code {acl.deny_code!r} is no HTTP status of an error (400 to 599)"
    allows_services = any(isinstance(one, Matcher) and one.kind == "service" for one in acl.allow)
    if allows_services and settings.service_secret is None:
        yield (
            f"{where} lets services in, but none can prove its name; set GREENROOM_SERVICE_SECRET"
        )


def _jwt_problems(where: str, jwt: object, settings: Settings) -> Iterator[str]:
    if not isinstance(jwt, Jwt):
        yield f"{where} must be a Jwt, not {jwt!r}"
        return
    installed = all(find_spec(name) is not None for name in ("jwt", "cryptography"))
    if not installed:
        yield f"{where} needs packages that are not installed: {_INSTALL}"
    if isinstance(jwt.issuers, str) or not jwt.issuers:
        yield f"{where} needs issuers=[...]: without one, no token can be believed"
    else:
        yield from _issuers_problems(where, jwt, check_keys=installed)
    if isinstance(jwt.audiences, str):
        yield f"{where} audiences must be a list, as [{jwt.audiences!r}]"
    elif not jwt.audiences and settings.public_url is None:
        yield (
            f"{where} needs audiences=[...], or GREENROOM_PUBLIC_URL: a token that was made for "
            "another service must not be taken"
        )
    else:
        yield from _variable_problems(f"{where} audiences", jwt.audiences)
    if not isinstance(jwt.claims, Mapping):
        yield f'{where} claims must be a mapping, as {{"tenant": "acme"}}'
    else:
        for name, wanted in jwt.claims.items():
            yield from _claim_problems(f"{where} claims[{name!r}]", wanted)
    if not (isinstance(jwt.subject, str) or callable(jwt.subject)):
        yield f"{where} subject must name a claim, or be a function of the claims"
    if isinstance(jwt.required, str):
        yield f"{where} required must be a list, as [{jwt.required!r}]"
    yield from _scope_problems(f"{where} scopes", jwt.scopes)
    yield from _time_problems(f"{where} leeway", jwt.leeway, timedelta(0), "0 s")


def _issuers_problems(where: str, jwt: Jwt, *, check_keys: bool) -> Iterator[str]:
    urls = []
    for given in jwt.issuers:
        if not isinstance(given, Issuer | str):
            yield f"{where} {given!r} is no Issuer"
            continue
        named = given if isinstance(given, str) else given.url
        try:
            issuer = issuer_of(given)
        except KeyError as error:
            yield f"{where} issuer {named!r}: the environment variable {error.args[0]} is not set"
            continue
        urls.append(issuer.url)
        yield from _issuer_problems(f"{where} issuer {issuer.url!r}", issuer, check_keys=check_keys)
    for url in sorted({one for one in urls if urls.count(one) > 1}):
        yield f"{where} the issuer {url!r} is named twice"
    if len(jwt.issuers) > 1 and jwt.subject == "sub":
        yield (
            f"{where} has several issuers, which may use one name for two people; say how "
            'principals are named, as subject=lambda claims: f"{claims.issuer}#{claims.subject}"'
        )


def _issuer_problems(where: str, issuer: Issuer, *, check_keys: bool) -> Iterator[str]:
    if not issuer.url:
        yield f"{where} has no url"
    elif not issuer.keys:
        address = issuer.jwks or issuer.url
        if not is_safe_address(address):
            yield f"{where}: keys from {address!r} can't be believed; it must be https"
    if issuer.keys and issuer.jwks is not None:
        yield f"{where} has both keys= and jwks=; give one"
    unknown = sorted(set(issuer.algorithms) - set(ALGORITHMS))
    if unknown:
        yield f"{where}: {', '.join(unknown)} is not taken; only {', '.join(ALGORITHMS)}"
    yield from _time_problems(
        f"{where}: refresh_every", issuer.refresh_every, timedelta(minutes=1), "a minute"
    )
    for number, key in enumerate(issuer.keys if check_keys else (), 1):
        try:
            found = key_of(key, issuer.algorithms)
        except ValueError as error:
            yield f"{where}: key {number} can't be read: {error}"
            continue
        if found is None:
            yield f"{where}: key {number} is not a public key for the signatures that are taken"


def _variable_problems(where: str, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        try:
            expanded(text)
        except KeyError as error:
            yield f"{where} {text!r}: the environment variable {error.args[0]} is not set"
        except TypeError:
            yield f"{where} {text!r} is no text"


def _claim_problems(where: str, wanted: Any) -> Iterator[str]:
    if isinstance(wanted, re.Pattern):
        if not isinstance(wanted.pattern, str):
            yield f"{where} must be a pattern of text"
        return
    values = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(values, Sequence | set | frozenset) or not all(
        isinstance(one, str) for one in values
    ):
        yield f"{where} must be a text, several, or a compiled pattern, not {wanted!r}"
    elif not values:
        yield f"{where} asks for nothing; name a value, or use required="
    else:
        yield from _variable_problems(where, values)


def _scope_problems(where: str, scopes: Any) -> Iterator[str]:
    if isinstance(scopes, str) or not isinstance(scopes, Collection):
        yield f"{where} must be a set, as {{{scopes!r}}}"
        return
    for scope in scopes:
        if not isinstance(scope, str) or not _SCOPE.match(scope):
            yield f"{where}: {scope!r} can't be a scope: no spaces, quotes or backslashes"


def _rate_problems(where: str, limit: object) -> Iterator[str]:
    if not isinstance(limit, RateLimit):
        yield f"{where} must be a RateLimit, not {limit!r}"
        return
    burst = limit.calls if limit.burst is None else limit.burst
    if type(limit.calls) is not int or type(burst) is not int:
        yield f"{where} calls and burst must be whole numbers"
    else:
        if limit.calls < 1:
            yield f"{where} must allow one call at least; to let nobody in, use acl=Acl.deny_all()"
        if limit.burst is not None and burst < 1:
            yield f"{where} burst= must be one call at least"
    yield from _time_problems(
        f"{where} per=", limit.per, timedelta(milliseconds=1), "a millisecond"
    )


def _time_problems(where: str, given: object, least: timedelta, told: str) -> Iterator[str]:
    if not isinstance(given, timedelta):
        yield f"{where} must be a timedelta, as timedelta(seconds=60), not {given!r}"
    elif given < least:
        yield f"{where} must be {told} at least"


def _authorize_problems(where: str, function: Authorize) -> Iterator[str]:
    if not callable(function):
        yield f"{where} must be a function of a ToolRequest, not {function!r}"
        return
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        yield f"{where} must be a function of one argument, the ToolRequest"
    except ValueError:  # a built-in without a signature
        return


def _access_problems(
    where: str, access: Access, security: Security, settings: Settings
) -> Iterator[str]:
    if access.acl is not None:
        yield from _acl_problems(f"{where}: acl=", access.acl, settings)
    yield from _scope_problems(f"{where}: scopes=", access.scopes)
    if access.scopes and security.jwt is None:
        yield f"{where}: scopes= ask for tokens, but its endpoint takes none; give that jwt="
    if access.authorize is not None:
        yield from _authorize_problems(f"{where}: authorize=", access.authorize)
