"""`greenroom timers`: which timers wait, which fail, which were given up; read-only."""

from __future__ import annotations

import argparse
import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_jsonable_python

from greenroom.cli._load import add_target, load_service
from greenroom.cli._look import count
from greenroom.clock import to_datetime

if TYPE_CHECKING:
    from greenroom.components import TimerStatus

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])\Z")


def add_timers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "timers",
        help="list the timers of a service",
        description="Lists timers in the order of their names. The database is only read: code "
        "cancels and resumes timers, with client.timers.",
    )
    add_target(parser)
    parser.add_argument("--name", metavar="TEXT", help="only names with this text in them")
    parser.add_argument(
        "--failing", action="store_true", help="only those whose last attempt failed"
    )
    parser.add_argument("--dead", action="store_true", help="only those that were given up")
    parser.add_argument(
        "--upcoming",
        type=_duration,
        metavar="TIME",
        help="only those that do something within this time: 90s, 30m, 2h, 7d",
    )
    parser.add_argument("--after", metavar="NAME", help="begin after this name")
    parser.add_argument("--limit", type=count, default=100, help="at most so many (100)")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """One line per timer: name, status, when, what it calls, what was wrong."""
    service = load_service(chosen.service)
    due_before: datetime | None = None
    if chosen.upcoming is not None:
        due_before = to_datetime(service.runtime.now_ms()) + chosen.upcoming
    with service.reading() as reader:
        found = reader.timers(
            name_contains=chosen.name,
            failing_only=chosen.failing,
            dead_only=chosen.dead,
            due_before=due_before,
            after=chosen.after,
            limit=chosen.limit,
        )
    if chosen.json:
        print(json.dumps(to_jsonable_python(found), indent=2, ensure_ascii=False))
        return
    for one in found:
        print("  ".join(_parts(one)))


def _parts(timer: TimerStatus) -> list[str]:
    parts = [timer.name, timer.status]
    parts.append(f"due {timer.due_at.isoformat(timespec='seconds')}")
    if timer.next_at is not None and timer.next_at != timer.due_at:
        parts.append(f"next {timer.next_at.isoformat(timespec='seconds')}")
    if timer.every is not None:
        parts.append(f"every {timer.every}")
    if timer.cron is not None:
        parts.append(f"cron {timer.cron!r} {timer.timezone}")
    parts.append(f"calls {timer.call}")
    if timer.failures:
        parts.append(f"failed {timer.failures} time(s): {timer.last_error}")
    return parts


def _duration(text: str) -> timedelta:
    match = _DURATION.match(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 30m, 2h or 7d")
    unit: dict[str, Any] = {_UNITS[match[2]]: float(match[1])}
    try:
        return timedelta(**unit)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a time") from None
