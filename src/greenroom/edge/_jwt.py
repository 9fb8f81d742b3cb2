"""From a bearer token to a principal: signature, issuer, audience, times, claims."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar

from greenroom.components import Claims, Issuer, Jwt, Principal
from greenroom.edge._keys import (
    Fetch,
    FetchedKeys,
    GivenKeys,
    IssuerKey,
    KeysUnavailableError,
    key_of,
)
from greenroom.edge._refusals import Refusal, RefusedError
from greenroom.ids import is_plain_text

if TYPE_CHECKING:
    from greenroom.clock import Clock

T = TypeVar("T")

_log = logging.getLogger("greenroom.edge")

SERVICE_PREFIX: Final = "service:"
"""Begins the subjects of services; no token may name somebody so."""
MAX_TOKEN: Final = 16 * 1024
_MAX_SUBJECT: Final = 255
_REMEMBERED: Final = 1024
"""Tokens that were found good; checking a signature costs as much as a whole call."""
_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999; no time that Python knows comes after."""
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


def expanded(text: str) -> str:
    """The text with `${NAME}` replaced by environment variables.

    Raises:
        KeyError: With the name of one that is not set.
    """
    return _VARIABLE.sub(lambda found: os.environ[found.group(1)], text)


def issuer_of(given: Issuer | str) -> Issuer:
    """An issuer with its variables filled in.

    Raises:
        KeyError: With the name of a variable that is not set.
    """
    issuer = Issuer(given) if isinstance(given, str) else given
    return replace(
        issuer,
        url=expanded(issuer.url),
        jwks=None if issuer.jwks is None else expanded(issuer.jwks),
        keys=tuple(expanded(one) if isinstance(one, str) else one for one in issuer.keys),
    )


def invalid_token(why: str) -> RefusedError:
    """A token that is not believed; what is wrong with it is told, since only its holder asks."""
    challenge = {"error": "invalid_token", "error_description": why}
    return RefusedError(
        Refusal(401, "invalid-token", f"The token is not accepted: {why}", challenge)
    )


class TokenVerifier:
    """Checks bearer tokens as a `Jwt` asks.

    Args:
        jwt: What is asked of tokens.
        audiences: For whom they must be made, one of these.
        clock: What time it is.
        fetch: Gets the JSON at an address; for tests.
    """

    def __init__(
        self, jwt: Jwt, audiences: Sequence[str], *, clock: Clock, fetch: Fetch | None = None
    ) -> None:
        self._jwt = jwt
        self._audiences = frozenset(expanded(one) for one in audiences)
        self._clock = clock
        self._leeway = jwt.leeway // timedelta(seconds=1)
        self._issuers = {
            issuer.url: _keys_of(issuer, clock, fetch) for issuer in map(issuer_of, jwt.issuers)
        }
        self._tests = [_claim_test(name, wanted) for name, wanted in jwt.claims.items()]
        self._good: dict[bytes, tuple[Principal, GivenKeys | FetchedKeys, int]] = {}

    @property
    def issuers(self) -> tuple[str, ...]:
        """Whose tokens are believed."""
        return tuple(self._issuers)

    async def verify(self, token: str) -> Principal:
        """Whom a token stands for.

        Raises:
            RefusedError: 401 for a token that is not believed, 403 for one that is believed but
                lacks a claim, 503 where the issuer's keys can't be had.
        """
        fingerprint = sha256(token.encode("utf-8", "replace")).digest()
        known = self._good.get(fingerprint)
        if known is not None:
            principal, keys, generation = known
            await _available(keys.keep_fresh())
            if keys.generation == generation:
                self._check_times(principal.claims or {})
                return principal
        claims, keys = await self._verified(token)
        self._check_times(claims)
        self._check_audience(claims)
        principal = self._principal(Claims(claims))
        self._check_claims(claims)
        if len(self._good) >= _REMEMBERED:
            self._good.clear()
        self._good[fingerprint] = (principal, keys, keys.generation)
        return principal

    async def _verified(self, token: str) -> tuple[dict[str, Any], GivenKeys | FetchedKeys]:
        if len(token) > MAX_TOKEN:
            raise invalid_token("it is too long")
        header, claimed = _read(token)
        issuer = claimed.get("iss")
        keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise invalid_token("its issuer is not trusted here")
        if "crit" in header:
            raise invalid_token("it has critical extensions")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            raise invalid_token("its header is malformed")
        candidates = await _available(keys.find(key_id, algorithm))
        for key in candidates:
            claims = _claims_if_signed(token, key, algorithm)
            if claims is not None:
                return claims, keys
        raise invalid_token("no key of its issuer has signed it")

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now_ms() / 1000
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        for name, seconds in times.items():
            if type(seconds) not in (int, float) or not math.isfinite(seconds):
                raise invalid_token(f"its {name} is not a time")
            if not 0 <= seconds <= _LAST_SECOND:
                raise invalid_token(f"its {name} is out of range")
        if "exp" not in times:
            raise invalid_token("it never expires")
        if now >= times["exp"] + self._leeway:
            raise invalid_token("it has expired")
        if now < times.get("nbf", 0) - self._leeway or now < times.get("iat", 0) - self._leeway:
            raise invalid_token("it is not valid yet")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        if self._audiences.isdisjoint(_texts(claims.get("aud"))):
            raise invalid_token("it is meant for somebody else")

    def _principal(self, claims: Claims) -> Principal:
        naming = self._jwt.subject
        try:
            subject = naming(claims) if callable(naming) else claims.get(naming)
        except Exception:
            _log.exception("Jwt(subject=...) failed")
            subject = None
        if not is_plain_text(subject, _MAX_SUBJECT) or str(subject).startswith(SERVICE_PREFIX):
            raise invalid_token("it names nobody")
        scopes = " ".join((*_texts(claims.get("scope")), *_texts(claims.get("scp"))))
        return Principal(str(subject), None, claims, frozenset(scopes.split()))

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        present = all(claims.get(name) is not None for name in self._jwt.required)
        if not present or not all(test(claims) for test in self._tests):
            raise RefusedError(
                Refusal(403, "claims-missing", "The token does not say what is asked for here.")
            )


async def _available(answer: Awaitable[T]) -> T:
    """What the keys answer; that there are none is no fault of the token."""
    try:
        return await answer
    except KeysUnavailableError as error:
        _log.error("A token can't be verified: %s", error)
        raise RefusedError(
            Refusal(
                503,
                "keys-unavailable",
                "Tokens can't be verified at the moment; nothing was done. Try again later.",
                headers=((b"retry-after", b"10"),),
            )
        ) from None


def _keys_of(issuer: Issuer, clock: Clock, fetch: Fetch | None) -> GivenKeys | FetchedKeys:
    if issuer.keys:
        given = [key_of(one, issuer.algorithms) for one in issuer.keys]
        return GivenKeys([one for one in given if one is not None])
    return FetchedKeys(
        issuer.url,
        issuer.jwks,
        issuer.algorithms,
        issuer.refresh_every,
        clock=clock,
        fetch=fetch,
    )


def _read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token, of which nothing is believed yet."""
    try:
        header, claims, _ = (part.encode("ascii") for part in token.split("."))
        read = [
            json.loads(urlsafe_b64decode(one + b"=" * (-len(one) % 4))) for one in (header, claims)
        ]
    except (ValueError, RecursionError):
        raise invalid_token("it is not a signed token") from None
    if not all(type(one) is dict for one in read):
        raise invalid_token("it is not a signed token")
    return read[0], read[1]


def _claims_if_signed(token: str, key: IssuerKey, algorithm: str) -> dict[str, Any] | None:
    import jwt

    try:
        # The signature alone: all else is checked here, with the runtime's clock.
        claims: dict[str, Any] = jwt.decode(
            token,
            key.jwk.key,
            algorithms=[algorithm],
            options={
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.InvalidSignatureError:
        return None
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        _log.info("A token can't be checked with a key of its issuer: %s", error)
        return None
    return claims


def _claim_test(
    name: str, wanted: str | Sequence[str] | re.Pattern[str]
) -> Callable[[Mapping[str, Any]], bool]:
    if isinstance(wanted, re.Pattern):
        return lambda claims: any(wanted.fullmatch(one) for one in _texts(claims.get(name)))
    values = {expanded(one) for one in ([wanted] if isinstance(wanted, str) else wanted)}
    return lambda claims: values <= set(_texts(claims.get(name)))


def _texts(claim: Any) -> list[str]:
    """A claim's values as texts: one, or those of an array."""
    values = claim if isinstance(claim, list) else [] if claim is None else [claim]
    return [
        one if isinstance(one, str) else json.dumps(one)
        for one in values
        if isinstance(one, str | int | float | bool)
    ]
