"""How the services of one project prove their names to each other.

A short-lived token, signed with the secret that they share, in a header of its own: so a call
may carry a user's bearer token too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from greenroom.clock import Clock

SERVICE_HEADER: Final = b"greenroom-service-token"
_ISSUER: Final = "greenroom"
_ALGORITHM: Final = "HS256"
_SECONDS: Final = 60
_LEEWAY: Final = 30
MIN_SECRET: Final = 32
"""Bytes; as many as the signature has."""


class ServiceTokens:
    """Makes and checks the tokens of services.

    Args:
        secret: What the services of the project share.
        own_name: The service that calls and is called here.
        clock: What time it is.
    """

    def __init__(self, secret: str, *, own_name: str, clock: Clock) -> None:
        self._secret = secret
        self._own_name = own_name
        self._clock = clock

    def issue(self, audience: str) -> str:
        """A token for one call of the service that is named so, good for a minute."""
        import jwt

        now = self._clock.now_ms() // 1000
        claims = {
            "iss": _ISSUER,
            "sub": self._own_name,
            "aud": audience,
            "iat": now,
            "exp": now + _SECONDS,
        }
        return jwt.encode(claims, self._secret, algorithm=_ALGORITHM)

    def caller(self, token: str) -> str | None:
        """The service that made a token for this one; None when it is not a good one."""
        import jwt

        now = self._clock.now_ms() // 1000
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is no good
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=[_ALGORITHM],
                audience=self._own_name,
                issuer=_ISSUER,
                # Times are the runtime's matter, not the machine's.
                options={
                    "require": ["sub", "exp", "iat"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
            # No longer than it is made for, whoever made it.
            if claims["iat"] - _LEEWAY <= now < claims["exp"] + _LEEWAY and (
                claims["exp"] - claims["iat"] <= _SECONDS
            ):
                return str(claims["sub"])
        return None
