"""Whether a request comes from where it says: protection from DNS rebinding.

A web page on any site can make a browser send requests to a server on the same machine. Such a
request carries the page's `Origin`, and after DNS rebinding the attacker's `Host`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from greenroom.edge._refusals import Refusal

_REMEMBERED: Final = 256
"""Header values that are remembered as good; a bound, since they come from outside."""


class HostCheck:
    """Checks `Host` and `Origin` against what the service was told to answer to.

    Example:
        >>> check = HostCheck(["localhost"])
        >>> check.refusal(b"localhost:8000", None) is None
        True
        >>> check.refusal(b"evil.example", None).status
        421
    """

    def __init__(self, allowed_hosts: Iterable[str], allowed_origins: Iterable[str] = ()) -> None:
        self._hosts = {host.lower() for host in allowed_hosts}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        self._any_host = "*" in self._hosts
        self._good: set[tuple[bytes | None, bytes | None]] = set()

    def refusal_of(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """None when a request with these headers may be answered."""
        found = [one for one in headers if one[0] in (b"host", b"origin")]
        values = dict(found)
        if len(values) != len(found):
            # Readers of the first and of the last would see different requests.
            text = "The Host or the Origin header came more than once."
            return Refusal(400, "doubled-header", text)
        return self.refusal(values.get(b"host"), values.get(b"origin"))

    def refusal(self, host: bytes | None, origin: bytes | None) -> Refusal | None:
        """None when a request with this host, from this page, may be answered."""
        pair = (host, origin)
        if pair in self._good:
            return None
        refusal = self._host_refusal(host) or self._origin_refusal(origin)
        if refusal is None and len(self._good) < _REMEMBERED:
            self._good.add(pair)
        return refusal

    def _host_refusal(self, raw: bytes | None) -> Refusal | None:
        host = _text(raw)
        if self._any_host or host in self._hosts or without_port(host) in self._hosts:
            return None
        # 421 says: not wrong as such, but not a name this server answers to.
        return Refusal(
            421,
            "wrong-host",
            f"The host {host!r} is not one this service answers to; "
            "name it in GREENROOM_ALLOWED_HOSTS.",
        )

    def _origin_refusal(self, raw: bytes | None) -> Refusal | None:
        if raw is None:
            return None
        origin = _text(raw)
        if "*" in self._origins or origin in self._origins:
            return None
        scheme, separator, host = origin.partition("://")
        # "any host" says nothing about which pages may call, so it is not looked at here.
        if (
            separator
            and scheme in ("http", "https")
            and (host in self._hosts or without_port(host) in self._hosts)
        ):
            return None
        return Refusal(
            403,
            "wrong-origin",
            f"The origin {origin!r} may not call this service; name it in "
            "GREENROOM_ALLOWED_ORIGINS.",
        )


def without_port(host: str) -> str:
    """The host of `host:port`, with the brackets that an IPv6 address comes in."""
    if host.endswith("]"):
        return host
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() else host


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("latin-1").strip().lower()
