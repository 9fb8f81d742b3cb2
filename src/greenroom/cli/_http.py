"""Requests to a running service."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

from greenroom.cli._failure import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.settings import Settings


def local_url(settings: Settings) -> str:
    """Where `greenroom run` serves with these settings."""
    # An address to listen on everywhere is none to connect to.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    host = host.strip("[]")
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def with_path(url: str, path: str) -> str:
    """The URL of a service with a path; one that has a path already keeps it.

    Raises:
        CommandFailed: It is no URL.
    """
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CommandFailed(f"{url!r} is not the URL of a service.", usage=True)
    known = parts.path.rstrip("/") or path
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, known, "", ""))


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, late: str
) -> tuple[int, bytes]:
    """The status and the body of the answer.

    Args:
        url: Must be one of `with_path`.
        body: What is sent.
        headers: Beside it.
        timeout: In seconds.
        late: What to do when no answer came in time, for the message.

    Raises:
        CommandFailed: Nobody answers.
    """
    request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except TimeoutError:
        raise CommandFailed(
            f"No answer within {timeout:g} s; the command may still be carried out. {late}"
        ) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise CommandFailed(
            f"No service answers at {url}: {reason}. Start it with: greenroom run …"
        ) from None
