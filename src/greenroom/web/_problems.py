"""Errors as HTTP problems (RFC 9457). The only place that knows HTTP statuses of errors."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request

from greenroom.edge import report
from greenroom.errors import (
    CallTimeoutError,
    CommandError,
    CommitUnknownError,
    ConcurrentWriteError,
    EntityDeletedError,
    EntityUnavailableError,
    GreenroomError,
    IdempotencyKeyReusedError,
    InvalidArgumentsError,
    InvalidCallError,
    NotOwnerError,
    OverloadedError,
    PayloadTooLargeError,
    RuntimeStoppedError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownComponentError,
    UnknownHandlerError,
    VersionMismatchError,
)
from greenroom.ids import without_surrogates
from greenroom.logs import correlation_id

_STATUSES: Final[dict[type[GreenroomError], int]] = {
    CommandError: 400,
    InvalidCallError: 400,
    UnknownComponentError: 404,
    UnknownHandlerError: 404,
    EntityDeletedError: 410,
    VersionMismatchError: 409,
    PayloadTooLargeError: 413,
    InvalidArgumentsError: 422,
    IdempotencyKeyReusedError: 422,
    OverloadedError: 429,
    EntityUnavailableError: 503,
    RuntimeStoppedError: 503,
    StoreUnavailableError: 503,
    StoreReadOnlyError: 503,
    StoreFullError: 507,
    NotOwnerError: 503,
    ConcurrentWriteError: 503,
    CallTimeoutError: 504,
    CommitUnknownError: 504,
    GreenroomError: 500,
}

_RETRY_AFTER_SECONDS: Final = "1"


def add_problem_handlers(app: FastAPI) -> None:
    """Answer errors of greenroom that leave a route with a problem; others stay as they are."""

    async def handle(request: Request, error: Exception) -> JSONResponse:
        return problem_response(error, target=f"{request.method} {request.url.path}")

    app.add_exception_handler(GreenroomError, handle)


def problem_response(error: Exception, *, target: str) -> JSONResponse:
    """The problem an error is told as, with the rest of it in the log."""
    view = report(error, target=target, correlation_id=correlation_id.get())
    status = status_of(type(error))
    problem: dict[str, Any] = {
        "type": f"urn:greenroom:error:{view.code}",
        "title": view.code.replace("-", " ").capitalize(),
        "status": status,
        "detail": view.text,
        "code": view.code,
        "retryable": view.retryable,
        "correlation_id": view.correlation_id,
    }
    if isinstance(error, InvalidArgumentsError):
        problem["problems"] = [without_surrogates(one) for one in error.problems]
    headers = {"Retry-After": _RETRY_AFTER_SECONDS} if view.retryable else None
    return JSONResponse(problem, status, headers, media_type="application/problem+json")


def status_of(kind: type[Exception]) -> int:
    """The HTTP status for a kind of error."""
    return next((_STATUSES[base] for base in kind.__mro__ if base in _STATUSES), 500)
