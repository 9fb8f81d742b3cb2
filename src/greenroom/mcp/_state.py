"""Seals what a client carries from one round of a call to the next, so that any worker reads it."""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from time import time
from typing import Any, Final

import orjson

from greenroom.mcp._wire import INVALID_PARAMS, WireError

LIFETIME_SECONDS: Final = 600
"""How long a client may take for one round; people fill in forms in it."""

_MAC_BYTES: Final = 32
_PURPOSE: Final = b"greenroom mcp state "


class StateSeal:
    """Signs states, and opens only its own.

    A state is bound to who calls, to the method and to its arguments, and lives ten minutes. It
    is signed and not encrypted: it holds nothing but what this client was asked and has answered.

    Args:
        secret: Gives what all processes of a service know and nobody else does.
        now: Seconds since 1970.

    Example:
        >>> seal = StateSeal(lambda: "between us")
        >>> seal.open(seal.seal({"name": "Ada"}, "request"), "request")
        {'name': 'Ada'}
    """

    def __init__(self, secret: Callable[[], str], *, now: Callable[[], float] = time) -> None:
        self._secret = secret
        self._now = now

    def seal(self, content: Mapping[str, Any], request: str) -> str:
        """A text that only this seal opens, and only for the same request."""
        body = orjson.dumps({"until": int(self._now()) + LIFETIME_SECONDS, "content": content})
        return self.sign(_PURPOSE, body, request)

    def open(self, state: Any, request: str) -> dict[str, Any]:
        """What was sealed.

        Raises:
            WireError: It was not sealed here, not for this request, or too long ago.
        """
        body = self.signed(_PURPOSE, state, request)
        if body is None:
            raise WireError(INVALID_PARAMS, "requestState is not one of this request's; start over")
        opened = orjson.loads(body)
        if opened["until"] < self._now():
            raise WireError(INVALID_PARAMS, "requestState is too old; start over")
        content: dict[str, Any] = opened["content"]
        return content

    def sign(self, purpose: bytes, body: bytes, bound: str) -> str:
        """A text that holds the body, and that nobody else can make."""
        return urlsafe_b64encode(self._mac(purpose, body, bound) + body).decode()

    def signed(self, purpose: bytes, text: Any, bound: str) -> bytes | None:
        """The body that was signed for the same purpose and bound to the same; else None."""
        try:
            # The text itself and not what it decodes to: base64 has several texts for some bytes.
            sealed = urlsafe_b64decode(text)
            genuine = urlsafe_b64encode(sealed).decode() == text
        except (binascii.Error, ValueError, TypeError):
            return None
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not (genuine and hmac.compare_digest(mac, self._mac(purpose, body, bound))):
            return None
        return body

    def _mac(self, purpose: bytes, body: bytes, bound_to: str) -> bytes:
        # The secret has other uses; what is signed here must mean nothing there.
        key = hashlib.sha256(purpose + self._secret().encode()).digest()
        bound = hashlib.sha256(bound_to.encode()).digest()
        return hmac.digest(key, bound + body, "sha256")


def fingerprint(path: str, method: str, params: Mapping[str, Any], principal: str | None) -> str:
    """The same for every round of one call at the endpoint with a path, and for no other call."""
    call = [params.get(name) for name in ("name", "uri", "arguments")]
    salient = [path, method, *call, principal]
    return hashlib.sha256(orjson.dumps(salient, option=orjson.OPT_SORT_KEYS)).hexdigest()
