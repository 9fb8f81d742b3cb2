"""What the outside is told about an error: one table, for HTTP, MCP and models alike.

A caller learns what it may do next and nothing about the inside. Full detail is in the log,
under the correlation id that the caller is given.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from greenroom.errors import (
    CallTimeoutError,
    CommandError,
    CommitUnknownError,
    ConcurrentWriteError,
    EntityDeletedError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    InvalidCallError,
    NotOwnerError,
    OverloadedError,
    PayloadTooLargeError,
    RuntimeStoppedError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    TransitionNotAllowedError,
    VersionMismatchError,
    WorkflowSuspendedError,
)
from greenroom.ids import without_surrogates
from greenroom.logs import correlation_id as current_correlation_id
from greenroom.logs import new_correlation_id

_log = logging.getLogger("greenroom.edge")

OWN_TEXT = "{error}"
"""The error's own message goes out: it speaks of nothing but the call."""


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error as callers, MCP clients and models see it."""

    code: str
    text: str
    retryable: bool
    """Nothing was done, so the call may be made again."""
    correlation_id: str
    """Where the log has more about it."""


@dataclass(frozen=True, slots=True)
class _Row:
    text: str
    level: int | None = None
    """How it is logged; None is not at all, since nothing is wrong with the service."""


_NOTHING_DONE = "This could not be carried out just now; nothing was done. Try again in a moment."
_NOT_STORED = "Nothing can be stored at the moment; nothing was done. Reference: {reference}"

_TABLE: dict[type[BaseException], _Row] = {
    # The application declined, in its own words.
    CommandError: _Row(OWN_TEXT),
    # The caller can put these right.
    InvalidCallError: _Row(OWN_TEXT),
    PayloadTooLargeError: _Row(
        "{error.what} is {error.size:,} bytes; the limit is {error.limit:,}."
    ),
    EntityDeletedError: _Row(OWN_TEXT),
    VersionMismatchError: _Row(OWN_TEXT),
    TransitionNotAllowedError: _Row(OWN_TEXT),
    WorkflowSuspendedError: _Row(OWN_TEXT),
    # Nothing was done; the same call may succeed later.
    OverloadedError: _Row(OWN_TEXT, logging.WARNING),
    EntityUnavailableError: _Row(_NOTHING_DONE, logging.WARNING),
    StoreUnavailableError: _Row(_NOTHING_DONE, logging.ERROR),
    NotOwnerError: _Row(_NOTHING_DONE, logging.WARNING),
    ConcurrentWriteError: _Row(_NOTHING_DONE, logging.WARNING),
    RuntimeStoppedError: _Row(OWN_TEXT, logging.WARNING),
    StoreReadOnlyError: _Row(_NOT_STORED, logging.ERROR),
    StoreFullError: _Row(_NOT_STORED, logging.ERROR),
    # It may have been done.
    CallTimeoutError: _Row(OWN_TEXT, logging.WARNING),
    CommitUnknownError: _Row(
        "It is not known whether this was carried out. Read the state before trying again. "
        "Reference: {reference}",
        logging.ERROR,
    ),
    # The runtime has logged what the handler raised.
    HandlerError: _Row("Failed unexpectedly. Reference: {reference}"),
    # Everything else is a bug somewhere, and nobody's business outside.
    BaseException: _Row("Failed unexpectedly. Reference: {reference}", logging.ERROR),
}


def describe(error: BaseException, *, correlation_id: str | None = None) -> ErrorView:
    """What may be said about an error outside; logs nothing.

    Example:
        >>> describe(CommandError("The cart is closed."), correlation_id="r-1").text
        'The cart is closed.'
        >>> describe(ZeroDivisionError("in pricing.py"), correlation_id="r-1").text
        'Failed unexpectedly. Reference: r-1'
    """
    reference = _reference(error, correlation_id)
    row = _row_for(type(error))
    text = str(error) if row.text is OWN_TEXT else row.text.format(error=error, reference=reference)
    # What an application says may hold what no answer can.
    text = without_surrogates(text)
    if not isinstance(error, GreenroomError):
        return ErrorView("internal", text, retryable=False, correlation_id=reference)
    return ErrorView(error.code, text or error.code, error.retryable, reference)


def report(error: BaseException, *, target: str, correlation_id: str | None = None) -> ErrorView:
    """What may be said about an error outside, with the rest of it put into the log."""
    view = describe(error, correlation_id=correlation_id)
    level = _row_for(type(error)).level
    if level is not None:
        unexpected = not isinstance(error, GreenroomError)
        _log.log(
            level,
            "%s: %s: %s",
            target,
            view.code,
            error,
            exc_info=error if unexpected or level >= logging.ERROR else None,
            extra={"correlation_id": view.correlation_id},
        )
    return view


def _reference(error: BaseException, given: str | None) -> str:
    if isinstance(error, HandlerError) and error.correlation_id:
        return error.correlation_id
    return given or current_correlation_id.get() or new_correlation_id()


def _row_for(kind: type[BaseException]) -> _Row:
    return next(_TABLE[base] for base in kind.__mro__ if base in _TABLE)
