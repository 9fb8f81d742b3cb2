"""What the outside is told about each kind of error."""

import logging

import pytest

from greenroom.edge import describe, report
from greenroom.errors import (
    CallTimeoutError,
    CommandError,
    CommitUnknownError,
    EntityDeletedError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    InternalError,
    InvalidArgumentsError,
    OverloadedError,
    PayloadTooLargeError,
    PersistenceError,
    RuntimeStoppedError,
    StoreFullError,
    StoreUnavailableError,
    ToolError,
    UnreadableRecordError,
)
from greenroom.ids import EntityRef

REF = EntityRef("cart", "c-1")
SECRET = "psycopg: host=10.0.0.7 password=hunter2"


class CartClosedError(CommandError):
    """An application's own."""

    code = "cart-closed"


@pytest.mark.parametrize("kind", [CommandError, ToolError, CartClosedError])
def test_the_text_of_a_command_error_goes_out_unchanged(kind: type[CommandError]) -> None:
    view = describe(kind("The cart is {closed}."))

    assert view.text == "The cart is {closed}."
    assert view.code == kind.code
    assert not view.retryable


def test_a_command_error_without_a_text_is_told_by_its_code() -> None:
    assert describe(CartClosedError()).text == "cart-closed"


def test_what_no_answer_can_hold_is_replaced() -> None:
    """A lone surrogate has no UTF-8; control characters are for JSON to escape."""
    assert describe(CommandError("a\ud800b\0")).text == "a?b\0"


def test_bad_arguments_are_named() -> None:
    error = InvalidArgumentsError("cart_add_item", ["quantity: must be above 0", "sku: missing"])

    assert describe(error).text == (
        "Invalid arguments for cart_add_item: quantity: must be above 0; sku: missing"
    )


@pytest.mark.parametrize("error", [EntityUnavailableError(SECRET), StoreUnavailableError(SECRET)])
def test_what_was_not_done_may_be_tried_again(error: GreenroomError) -> None:
    view = describe(error)

    assert view.retryable
    assert "nothing was done" in view.text
    assert SECRET not in view.text


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (CallTimeoutError(REF, "add", seconds=5), "read the state"),
        (CommitUnknownError(SECRET), "Read the state"),
    ],
)
def test_what_may_have_been_done_is_not_called_retryable(
    error: GreenroomError, advice: str
) -> None:
    view = describe(error)

    assert not view.retryable
    assert advice in view.text
    assert SECRET not in view.text


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(SECRET),
        InternalError(SECRET),
        PersistenceError(SECRET),
        UnreadableRecordError(SECRET),
        StoreFullError(SECRET),
        GreenroomError(SECRET),
    ],
)
def test_anything_else_is_a_reference_into_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    view = report(error, target="cart.add", correlation_id="r-1")

    assert SECRET not in view.text
    assert "r-1" in view.text
    [record] = caplog.records
    assert record.__dict__["correlation_id"] == "r-1"
    assert SECRET in caplog.text
    assert record.exc_info is not None


def test_what_a_handler_raised_is_found_under_the_reference_of_the_runtime(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The runtime has logged it; a second line would only confuse."""
    view = report(HandlerError("cart.add", "r-9"), target="cart.add", correlation_id="r-1")

    assert view.correlation_id == "r-9"
    assert "r-9" in view.text
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (CommandError("no"), None),
        (InvalidArgumentsError("t", ["x"]), None),
        (EntityDeletedError(REF), None),
        (OverloadedError(REF, limit=5), logging.WARNING),
        (StoreUnavailableError("x"), logging.ERROR),
    ],
)
def test_only_what_is_wrong_with_the_service_is_logged(
    error: GreenroomError, level: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    report(error, target="cart.add")

    assert [record.levelno for record in caplog.records] == ([] if level is None else [level])


def test_a_payload_is_told_its_limit_but_not_the_setting() -> None:
    error = PayloadTooLargeError("The event", size=2_000_000, limit=1_000_000, setting="X_SECRET")

    assert describe(error).text == "The event is 2,000,000 bytes; the limit is 1,000,000."


def test_a_runtime_that_does_not_run_is_told_so() -> None:
    text = "The runtime is new. Start it first."

    assert describe(RuntimeStoppedError(text)).text == text


def test_every_kind_of_error_has_a_row() -> None:
    kinds = [GreenroomError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())

    for kind in kinds:
        error = kind.__new__(kind)
        error.__dict__.update(what="x", size=1, limit=1, correlation_id="r")
        assert describe(error).text


def test_a_text_that_is_no_unicode_can_be_answered_all_the_same() -> None:
    view = describe(CommandError("caf\ud800"), correlation_id="r-1")

    assert view.text.encode() == b"caf?"
