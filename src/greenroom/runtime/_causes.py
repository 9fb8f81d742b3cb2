"""Why an instance went on by itself, as its history tells it."""

from __future__ import annotations

from typing import Any

from greenroom.errors import GreenroomError

MAX_TEXT = 1000
"""Characters of an error, or of a name, that are stored."""


def cause_of_attempt(
    by: str,
    name: str,
    *,
    attempt: int,
    started_at: int,
    now: int,
    branch: int | None = None,
    error: BaseException | None = None,
) -> dict[str, Any]:
    """What is stored of an attempt that is over.

    Args:
        by: What it led to, as the history names it: `step`, `branch`, `fired`, `attempt`.
        name: Of what was attempted.
        attempt: Its number, from 1.
        started_at: In milliseconds since 1970, as `now`.
        now: The end of it.
        branch: Which branch it was, if there are several.
        error: Why it failed, if it did.
    """
    cause: dict[str, Any] = {
        "by": by,
        "name": name[:MAX_TEXT],
        "attempt": attempt,
        "started": started_at,
        "took": now - started_at,
    }
    if branch is not None:
        cause["branch"] = branch
    if error is not None:
        cause["error"] = said(error)
    return cause


def said(error: BaseException) -> str:
    """What is stored of an error: text that every database takes, and not too much of it."""
    ours = isinstance(error, GreenroomError)
    text = str(error) if ours else f"{type(error).__name__}: {error}"
    return "".join(one if one == "\n" or one.isprintable() else "?" for one in text[:MAX_TEXT])
