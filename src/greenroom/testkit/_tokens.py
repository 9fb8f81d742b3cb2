"""Tokens for a service under test, without the servers that give them out."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from greenroom.testkit._clock import ManualClock

_KEY_ID: Final = "testkit"
_WELL_KNOWN: Final = "/.well-known/"


class TokenMaker:
    """Stands for every issuer whose keys are fetched: it has one key, and signs for all of them."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._key: Any = None
        self._issuers: dict[str, str] = {}

    def token(
        self,
        subject: str,
        issuer: str,
        audience: str,
        scopes: Collection[str],
        expires_in: timedelta,
        claims: dict[str, Any],
    ) -> str:
        """A signed token."""
        import jwt

        self._issuers[issuer.rstrip("/")] = issuer
        now = self._clock.now_ms() // 1000
        said = {
            "iss": issuer,
            "sub": subject,
            "aud": audience,
            "iat": now,
            "exp": now + expires_in // timedelta(seconds=1),
            **({"scope": " ".join(sorted(scopes))} if scopes else {}),
            **claims,
        }
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self._private_key(), "ES256", headers={"kid": _KEY_ID})

    async def fetch(self, url: str) -> Any:
        """What an issuer answers: where its keys are, and they."""
        from jwt.algorithms import ECAlgorithm

        base, found, _ = url.partition(_WELL_KNOWN)
        if found:
            issuer = self._issuers.get(base, base)
            return {"issuer": issuer, "jwks_uri": f"https://{_KEY_ID}/keys"}
        public = ECAlgorithm.to_jwk(self._private_key().public_key(), as_dict=True)
        return {"keys": [{**public, "kid": _KEY_ID}]}

    def _private_key(self) -> Any:
        # Made when it is first needed: most services under test take no tokens.
        if self._key is None:
            from cryptography.hazmat.primitives.asymmetric import ec

            self._key = ec.generate_private_key(ec.SECP256R1())
        return self._key
