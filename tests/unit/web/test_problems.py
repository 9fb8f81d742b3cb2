"""Errors as HTTP problems."""

import json

import pytest

from greenroom.errors import (
    CommandError,
    DefinitionError,
    EntityDeletedError,
    GreenroomError,
    HandlerError,
    InvalidArgumentsError,
    OverloadedError,
    RuntimeStoppedError,
    StoreUnavailableError,
    VersionMismatchError,
)
from greenroom.ids import EntityRef
from greenroom.web import problem_response
from greenroom.web._problems import status_of

REF = EntityRef("cart", "c-1")


class CartClosedError(CommandError):
    """An application's own."""

    code = "cart-closed"


def test_a_problem_says_what_and_what_may_be_done() -> None:
    response = problem_response(CartClosedError("The cart is closed."), target="POST /carts")

    assert response.status_code == 400
    assert response.media_type == "application/problem+json"
    problem = json.loads(bytes(response.body))
    reference = problem.pop("correlation_id")
    assert reference
    assert problem == {
        "type": "urn:greenroom:error:cart-closed",
        "title": "Cart closed",
        "status": 400,
        "detail": "The cart is closed.",
        "code": "cart-closed",
        "retryable": False,
    }


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (CartClosedError("a\ud800\0\x1bb"), "a?\0\x1bb"),
        (InvalidArgumentsError("cart.add", ["a\ud800"]), "Invalid arguments for cart.add: a?"),
    ],
)
def test_any_text_can_be_told(error: GreenroomError, detail: str) -> None:
    """Even one that has no UTF-8."""
    response = problem_response(error, target="POST /carts")

    problem = json.loads(bytes(response.body))
    assert problem["detail"] == detail
    assert problem.get("problems", ["a?"]) == ["a?"]


def test_bad_arguments_are_listed() -> None:
    error = InvalidArgumentsError("cart.add", ["quantity: must be above 0"])
    response = problem_response(error, target="POST /carts")

    assert response.status_code == 422
    assert json.loads(bytes(response.body))["problems"] == ["quantity: must be above 0"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EntityDeletedError(REF), 410),
        (VersionMismatchError(REF, expected=1, actual=2), 409),
        (RuntimeStoppedError("not started"), 503),
        (HandlerError("cart.add", "r"), 500),
        (DefinitionError(["x"]), 500),
    ],
)
def test_each_kind_has_its_status(error: GreenroomError, status: int) -> None:
    assert problem_response(error, target="t").status_code == status


@pytest.mark.parametrize(
    ("error", "status"), [(OverloadedError(REF, limit=3), 429), (StoreUnavailableError("x"), 503)]
)
def test_what_may_be_repeated_says_when(error: GreenroomError, status: int) -> None:
    response = problem_response(error, target="t")

    assert (response.status_code, response.headers["retry-after"]) == (status, "1")


def test_an_error_of_another_kind_is_a_500() -> None:
    assert status_of(ZeroDivisionError) == 500
