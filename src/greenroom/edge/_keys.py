"""The public keys of a token issuer: given, or fetched and kept for a while."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from jwt import PyJWK

    from greenroom.clock import Clock

_log = logging.getLogger("greenroom.edge")

Fetch = Callable[[str], Awaitable[Any]]

_OPENID: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
MAX_BYTES: Final = 1024**2
"""Of a key set; real ones have a few kilobytes."""
FETCH_SECONDS: Final = 5.0
COOLDOWN_MS: Final = 10_000
"""Between two attempts to fetch, so that tokens with made-up key ids fetch nothing."""

_BY_CURVE: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*_RSA, *_BY_CURVE.values(), "EdDSA")
"""Signatures that are taken. No shared secrets: whoever checks those could make tokens too."""


class KeysUnavailableError(Exception):
    """The keys can't be had at the moment."""


class IssuerKey:
    """One public key, with the signatures it may have made."""

    def __init__(self, jwk: PyJWK, algorithms: Sequence[str]) -> None:
        self.jwk = jwk
        self.id = jwk.key_id
        self.algorithms = frozenset(algorithms)


def key_of(given: Mapping[str, Any] | str, allowed: Sequence[str] = ()) -> IssuerKey | None:
    """A JWK or PEM text as a key; None when it is not one for signatures that are taken.

    Raises:
        ValueError: It is no key at all.
    """
    import jwt

    try:
        described = _jwk_of_pem(given) if isinstance(given, str) else given
        if described.get("use", "sig") != "sig" or described.get("kty") == "oct":
            return None
        if "d" in described:
            raise ValueError("it is a private key")
        fitting = _fitting(described)
        algorithms = [name for name in fitting if not allowed or name in allowed]
        if not algorithms:
            return None
        return IssuerKey(jwt.PyJWK(dict(described), algorithm=algorithms[0]), algorithms)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _jwk_of_pem(text: str) -> Mapping[str, Any]:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    key = load_pem_public_key(text.encode())
    if isinstance(key, RSAPublicKey):
        return RSAAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, EllipticCurvePublicKey):
        return ECAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, Ed25519PublicKey | Ed448PublicKey):
        return OKPAlgorithm.to_jwk(key, as_dict=True)
    return {}


def _fitting(jwk: Mapping[str, Any]) -> Sequence[str]:
    kind = jwk.get("kty")
    if kind == "RSA":
        fitting: Sequence[str] = _RSA
    elif kind == "EC":
        fitting = [_BY_CURVE[jwk["crv"]]] if jwk.get("crv") in _BY_CURVE else []
    else:
        fitting = ["EdDSA"] if kind == "OKP" and jwk.get("crv") in ("Ed25519", "Ed448") else []
    said = jwk.get("alg")
    return [name for name in fitting if said in (None, name)]


class GivenKeys:
    """Keys that never change."""

    generation = 0

    def __init__(self, keys: Sequence[IssuerKey]) -> None:
        self._keys = keys

    async def keep_fresh(self) -> None:
        """Nothing; they never change."""

    async def find(self, key_id: str | None, algorithm: str) -> list[IssuerKey]:
        """The keys that may have made a signature."""
        return _matching(self._keys, key_id, algorithm)


class FetchedKeys:
    """A key set at an address, fetched when it is first needed and when it may have changed.

    Args:
        issuer: Whose keys they are.
        jwks: Where they are; None asks the issuer's OpenID discovery document.
        allowed: Signatures that are taken; empty takes all that fit a key.
        refresh_every: Older keys are not used.
        clock: What time it is.
        fetch: Gets the JSON at an address.
    """

    def __init__(
        self,
        issuer: str,
        jwks: str | None,
        allowed: Sequence[str],
        refresh_every: timedelta,
        *,
        clock: Clock,
        fetch: Fetch | None = None,
    ) -> None:
        self.generation = 0
        """Counts the key sets; what was found good under an older one is looked at again."""
        self._issuer = issuer
        self._jwks = jwks
        self._allowed = allowed
        self._lasts_ms = refresh_every // timedelta(milliseconds=1)
        self._clock = clock
        self._fetch = fetch or fetch_json
        self._keys: list[IssuerKey] = []
        self._fetched_at: int | None = None
        self._tried_at: int | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def keep_fresh(self) -> None:
        """Fetch the keys when that is due.

        Raises:
            KeysUnavailableError: There are none that are fresh enough.
        """
        if self._is_stale():
            await self._refresh()
            if self._is_stale():
                raise KeysUnavailableError(f"no fresh keys of {self._issuer}")
        elif self._age_ms() >= self._lasts_ms // 2:
            self._refresh_beside()

    async def find(self, key_id: str | None, algorithm: str) -> list[IssuerKey]:
        """The keys that may have made a signature, fetched again for an unknown id.

        Raises:
            KeysUnavailableError: There are none that are fresh enough.
        """
        await self.keep_fresh()
        found = _matching(self._keys, key_id, algorithm)
        if not found and key_id is not None:
            # Unless it was just tried; whoever comes while it is being tried waits for that.
            await self._refresh()
            found = _matching(self._keys, key_id, algorithm)
        return found

    def _is_stale(self) -> bool:
        return self._fetched_at is None or self._age_ms() >= self._lasts_ms

    def _age_ms(self) -> int:
        return self._clock.now_ms() - (self._fetched_at or 0)

    def _may_try(self) -> bool:
        return self._tried_at is None or self._clock.now_ms() - self._tried_at >= COOLDOWN_MS

    async def _refresh(self) -> None:
        task = self._refresh_beside()
        if task is not None:
            # Who waits may go away; the others still want the keys.
            await asyncio.shield(task)

    def _refresh_beside(self) -> asyncio.Task[None] | None:
        """The one attempt that is under way, begun if that may be; it never fails."""
        task = self._fetching
        loop = asyncio.get_running_loop()
        if task is not None and not task.done() and task.get_loop() is loop:
            return task
        if not self._may_try():
            return None
        self._tried_at = self._clock.now_ms()
        self._fetching = loop.create_task(self._replace(), name=f"keys of {self._issuer}")
        return self._fetching

    async def _replace(self) -> None:
        started = self._clock.now_ms()
        try:
            # A server that sends a byte now and then keeps every single read short.
            async with asyncio.timeout(3 * FETCH_SECONDS):
                address = self._jwks or await self._discovered()
                described = await self._fetch(address)
            keys = [key for one in described["keys"] if (key := self._key(one)) is not None]
        except Exception as error:
            _log.warning("The keys of %s can't be had: %r", self._issuer, error)
            return
        self._keys = keys
        self._fetched_at = started
        self.generation += 1

    async def _discovered(self) -> str:
        about = await self._about()
        if about["issuer"] != self._issuer:
            raise ValueError(f"its discovery document is that of {about['issuer']!r}")
        address = str(about["jwks_uri"])
        if not is_safe_address(address):
            raise ValueError(f"its discovery document names {address!r}, which is not https")
        return address

    async def _about(self) -> Any:
        try:
            return await self._fetch(self._issuer.rstrip("/") + _OPENID)
        except OSError:
            # Who only gives out tokens has the other document (RFC 8414), which stands in front
            # of the issuer's path.
            parts = urlsplit(self._issuer)
            return await self._fetch(
                f"{parts.scheme}://{parts.netloc}{_OAUTH}{parts.path.rstrip('/')}"
            )

    def _key(self, described: Any) -> IssuerKey | None:
        try:
            return key_of(described, self._allowed)
        except ValueError as error:
            # One broken key, or one of a kind we don't know, is no reason to do without the others.
            _log.warning("A key of %s can't be read: %s", self._issuer, error)
            return None


def _matching(keys: Sequence[IssuerKey], key_id: str | None, algorithm: str) -> list[IssuerKey]:
    return [
        key
        for key in keys
        if algorithm in key.algorithms and (key_id is None or key.id in (None, key_id))
    ]


def is_safe_address(url: str) -> bool:
    """Whether what is at an address can be believed: https, or this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")


async def fetch_json(url: str) -> Any:
    """The JSON at an address, on a thread; no redirects, since they may lead anywhere."""
    return await asyncio.to_thread(_fetch_json, url)


def _fetch_json(url: str) -> Any:
    # Which addresses are asked is checked at start, and for what a discovery document names.
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
    with _opener.open(request, timeout=FETCH_SECONDS) as answer:
        body = answer.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ValueError(f"{url} is over {MAX_BYTES:,} bytes")
    return json.loads(body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None makes an error of it."""


_opener = urllib.request.build_opener(_NoRedirects)
