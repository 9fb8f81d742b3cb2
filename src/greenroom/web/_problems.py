"""Errors as HTTP problems (RFC 9457). The only place that knows HTTP statuses of errors."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request

from greenroom.edge import Refusal, RefusedError, report, target_of
from greenroom.errors import (
    AccessDeniedError,
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
    TransitionNotAllowedError,
    UnknownComponentError,
    UnknownHandlerError,
    VersionMismatchError,
    WorkflowSuspendedError,
)
from greenroom.ids import without_surrogates
from greenroom.logs import correlation_id, new_correlation_id

_STATUSES: Final[dict[type[GreenroomError], int]] = {
    CommandError: 400,
    InvalidCallError: 400,
    AccessDeniedError: 403,
    UnknownComponentError: 404,
    UnknownHandlerError: 404,
    EntityDeletedError: 410,
    TransitionNotAllowedError: 409,
    VersionMismatchError: 409,
    WorkflowSuspendedError: 409,
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
        return problem_response(error, target=target_of(request.scope))

    async def handle_refusal(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RefusedError)
        return _refused(error.refusal)

    app.add_exception_handler(GreenroomError, handle)
    app.add_exception_handler(RefusedError, handle_refusal)


def _refused(refusal: Refusal) -> JSONResponse:
    problem = _problem(
        refusal.code,
        refusal.status,
        refusal.text,
        retryable=refusal.status in (429, 503),
        reference=correlation_id.get() or new_correlation_id(),
    )
    response = JSONResponse(problem, refusal.status, media_type="application/problem+json")
    response.raw_headers.extend(refusal.headers)
    return response


def problem_response(error: Exception, *, target: str) -> JSONResponse:
    """The problem an error is told as, with the rest of it in the log."""
    view = report(error, target=target, correlation_id=correlation_id.get())
    status = status_of(type(error))
    problem = _problem(
        view.code, status, view.text, retryable=view.retryable, reference=view.correlation_id
    )
    if isinstance(error, InvalidArgumentsError):
        problem["problems"] = [without_surrogates(one) for one in error.problems]
    headers = {"Retry-After": _RETRY_AFTER_SECONDS} if view.retryable else None
    return JSONResponse(problem, status, headers, media_type="application/problem+json")


def _problem(
    code: str, status: int, text: str, *, retryable: bool, reference: str
) -> dict[str, Any]:
    return {
        "type": f"urn:greenroom:error:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "detail": text,
        "code": code,
        "retryable": retryable,
        "correlation_id": reference,
    }


def status_of(kind: type[Exception]) -> int:
    """The HTTP status for a kind of error."""
    return next((_STATUSES[base] for base in kind.__mro__ if base in _STATUSES), 500)
