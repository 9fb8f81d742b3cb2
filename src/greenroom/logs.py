"""What greenroom writes to the log, and the id that ties the lines of one call together.

Everything that logs or runs code on behalf of a call may read the correlation id, so this
module lies below components and persistence; it takes settings, so it lies above those.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from os import urandom
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.settings import Settings

correlation_id: ContextVar[str | None] = ContextVar("greenroom_correlation_id", default=None)
"""The id of the call that the running code works for; None outside a call."""

_TALKATIVE = ("alembic", "uvicorn.error")

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}\Z")

_STANDARD_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def new_correlation_id() -> str:
    """An id for a call that came without one: 32 hexadecimal digits, like a trace id."""
    return urandom(16).hex()


def acceptable_correlation_id(text: str) -> bool:
    """Whether an id that came from outside may be written into logs and headers as it is."""
    return _ACCEPTABLE_ID.match(text) is not None


def configure_logging(settings: Settings) -> None:
    """Write the log of this process to standard error, as text or as one JSON object a line.

    For programs; a library or an application with a logging configuration of its own leaves
    this alone and can use `TextFormatter` or `JsonFormatter` in it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for name in _TALKATIVE:
        # What they tell at INFO, greenroom tells in its own words.
        quiet = settings.log_level == "INFO"
        logging.getLogger(name).setLevel(logging.WARNING if quiet else logging.NOTSET)


class TextFormatter(logging.Formatter):
    """One line for a person: time, level, logger, message, correlation id."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the traceback below it when there is one."""
        line = (
            f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
            f"{_extras_as_text(record)}"
        )
        reference = _correlation_of(record)
        if reference is not None:
            line += f" [{reference}]"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for machines that collect logs."""

    def format(self, record: logging.LogRecord) -> str:
        """The line: time, level, logger, message, then what was given as `extra`."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        reference = _correlation_of(record)
        if reference is not None:
            line["correlation_id"] = reference
        line.update(_extras(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _correlation_of(record: logging.LogRecord) -> str | None:
    # A line about a call that is written elsewhere (a worker thread, a callback) says whose it
    # is with extra={"correlation_id": ...}; otherwise it is the call this code runs for.
    given = record.__dict__.get("correlation_id")
    return given if isinstance(given, str) else correlation_id.get()


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {
        name: value
        for name, value in record.__dict__.items()
        if name not in _STANDARD_ATTRIBUTES and name not in ("correlation_id", "color_message")
    }


def _extras_as_text(record: logging.LogRecord) -> str:
    return "".join(f" {name}={value}" for name, value in _extras(record).items())
