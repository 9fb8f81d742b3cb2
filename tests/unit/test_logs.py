"""Lines of the log, for people and for machines."""

import json
import logging
from collections.abc import Iterator

import pytest

from greenroom.logs import (
    JsonFormatter,
    TextFormatter,
    acceptable_correlation_id,
    configure_logging,
    correlation_id,
    new_correlation_id,
)
from greenroom.settings import Settings


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("alembic", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_libraries_below_are_quiet_unless_one_looks_closely(root: logging.Logger) -> None:
    below = [logging.getLogger(name) for name in ("alembic.runtime.migration", "uvicorn.error")]
    for level, heard in (("INFO", False), ("DEBUG", True), ("INFO", False), ("WARNING", False)):
        configure_logging(Settings(log_level=level))
        assert [one.isEnabledFor(logging.INFO) for one in below] == [heard, heard]
        assert all(one.isEnabledFor(logging.WARNING) for one in below)


def test_a_line_for_machines_is_one_json_object() -> None:
    line = json.loads(JsonFormatter().format(_record("added %s", "tea", extra={"cart": "c-1"})))

    assert line.pop("time") == "2026-12-01T00:00:00.250Z"
    assert line == {
        "level": "info",
        "logger": "greenroom.test",
        "message": "added tea",
        "cart": "c-1",
    }


def test_a_line_for_people_is_one_line() -> None:
    line = TextFormatter().format(_record("added %s", "tea", extra={"cart": "c-1"}))

    assert line == "2026-12-01T00:00:00.250Z INFO    greenroom.test: added tea cart=c-1"


def test_both_say_which_call_they_belong_to() -> None:
    token = correlation_id.set("order-7")
    try:
        assert TextFormatter().format(_record("x")).endswith(" [order-7]")
        assert json.loads(JsonFormatter().format(_record("x")))["correlation_id"] == "order-7"
        other = _record("x", extra={"correlation_id": "order-8"})
        assert TextFormatter().format(other).endswith(" [order-8]")
    finally:
        correlation_id.reset(token)


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        record = _record("failed", error=error)

    assert "ValueError: broken" in TextFormatter().format(record)
    assert "ValueError: broken" in json.loads(JsonFormatter().format(record))["exception"]


def test_what_json_does_not_know_is_written_as_text() -> None:
    line = json.loads(JsonFormatter().format(_record("x", extra={"what": {1}})))

    assert line["what"] == "{1}"


def test_the_log_goes_where_the_settings_say(root: logging.Logger) -> None:
    configure_logging(Settings(log_format="json", log_level="WARNING"))
    configure_logging(Settings(log_format="json", log_level="WARNING"))

    [handler] = root.handlers
    assert isinstance(handler.formatter, JsonFormatter)
    assert root.level == logging.WARNING


def test_ids_are_fresh_and_acceptable() -> None:
    first, second = new_correlation_id(), new_correlation_id()

    assert first != second
    assert acceptable_correlation_id(first)


def _record(
    message: str,
    *args: object,
    extra: dict[str, object] | None = None,
    error: Exception | None = None,
) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("greenroom.test", logging.INFO, __file__, 1, message, args, info)
    record.created = 1796083200.25
    record.__dict__.update(extra or {})
    return record
