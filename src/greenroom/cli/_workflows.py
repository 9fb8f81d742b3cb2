"""`greenroom workflows`: where workflows stand, read-only; `greenroom workflow`: steer one.

Looking reads the database alone. Steering goes through the running service, with a token that
only those have who can read its database.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_args

from pydantic_core import to_jsonable_python

from greenroom.cli._failure import CommandFailed
from greenroom.cli._http import local_url, post, with_path
from greenroom.cli._load import add_target, load_service, parse_ref
from greenroom.cli._look import add_looking, check_exists, count, print_json
from greenroom.components import Status
from greenroom.web import STEERING_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.components import HistoryEntry, WorkflowStatus
    from greenroom.ids import EntityRef
    from greenroom.runtime import StoredReader
    from greenroom.service import Service

STATUSES = (*get_args(Status), "suspended")
LATE = "It does no harm to say it again."


def add_workflows(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands' arguments."""
    parser = add_looking(
        commands, "workflows", look, "list workflows, or show one with its history"
    )
    parser.add_argument(
        "what",
        metavar="COMPONENT[/INSTANCE]",
        nargs="?",
        help="a workflow, or one of its instances (default: every workflow of the service)",
    )
    parser.add_argument("--status", choices=STATUSES, help="list only instances of this status")
    parser.add_argument("--after", help="begin after this instance id, or sequence number")
    parser.add_argument("--limit", type=count, default=100, help="at most so many (100)")

    parser = commands.add_parser(
        "workflow",
        help="suspend, resume or terminate a workflow of a running service",
        description="Steers an instance of a workflow through the running service.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb, text in (
        ("suspend", "stop a workflow where it is, until it is resumed"),
        ("resume", "let a suspended workflow go on"),
        ("terminate", "end a workflow for good; nothing is compensated"),
    ):
        one = verbs.add_parser(verb, help=text)
        add_target(one)
        one.add_argument("instance", metavar="COMPONENT/INSTANCE")
        if verb != "resume":
            one.add_argument("--reason", help="why; stored, logged and shown")
        one.add_argument(
            "--url", help="where the service runs (default: http://GREENROOM_HOST:GREENROOM_PORT)"
        )
        one.add_argument("--timeout", type=float, default=30.0, help="seconds to wait (30)")
        one.set_defaults(run=steer, verb=verb, reason=None)


# -- looking -------------------------------------------------------------------------------


def look(chosen: argparse.Namespace) -> None:
    """One line per workflow; or where one stands, and one line per entry of its history."""
    service = load_service(chosen.service)
    if chosen.what is not None and "/" in chosen.what:
        _show(service, parse_ref(chosen.what), chosen)
        return
    components = _workflows(service, chosen.what)
    with service.reading() as reader:
        found = list(_listed(reader, components, chosen))
    if chosen.json:
        print_json([{"instance": str(ref), **_plain(one)} for ref, one in found])
        return
    for ref, one in found:
        print(f"{ref}  {_told(one)}")


def _listed(
    reader: StoredReader, components: list[str], chosen: argparse.Namespace
) -> Iterator[tuple[EntityRef, WorkflowStatus]]:
    left = chosen.limit
    for component in components:
        found = reader.workflows(component, status=chosen.status, after=chosen.after, limit=left)
        for one in found:
            left -= 1
            yield one
        if not left:
            return


def _show(service: Service, ref: EntityRef, chosen: argparse.Namespace) -> None:
    _workflows(service, ref.component)
    try:
        after = int(chosen.after or 0)
    except ValueError:
        raise CommandFailed(
            f"--after is a sequence number here, not {chosen.after!r}.", usage=True
        ) from None
    with service.reading() as reader:
        check_exists(reader, ref, chosen)
        status = reader.workflow_status(ref)
        entries = reader.history(ref, after=after, limit=chosen.limit)
    if chosen.json:
        print_json({"status": _plain(status), "history": [_plain(one) for one in entries]})
        return
    print(_told(status))
    for one in entries:
        print(_line(one))


def _workflows(service: Service, component: str | None) -> list[str]:
    """The workflows that are meant, by their ids."""
    known = [one.id for one in service.runtime.definitions.values() if one.kind == "workflow"]
    if component is None:
        return known
    if component not in known:
        raise CommandFailed(
            f"The service has no workflow {component!r}; it has: {', '.join(known) or 'none'}."
        )
    return [component]


def _plain(value: Any) -> Any:
    return to_jsonable_python(asdict(value))


def _told(status: WorkflowStatus) -> str:
    parts = [f"suspended ({status.status})" if status.suspended else status.status]
    if status.reason is not None:
        parts.append(f"[{status.reason}]")
    if status.steps:
        parts.append(f"step={','.join(status.steps)} attempt={status.attempt}")
    if status.next_at is not None:
        parts.append(f"next={status.next_at.isoformat()}")
    if status.deadline is not None:
        parts.append(f"deadline={status.deadline.isoformat()}")
    if status.last_error is not None:
        parts.append(f"error={status.last_error}")
    return "  ".join(parts)


def _line(entry: HistoryEntry) -> str:
    parts = [str(entry.sequence_number), entry.timestamp.isoformat(), entry.cause]
    parts += [entry.name] if entry.name else []
    parts += [f"attempt={entry.attempt}"] if entry.attempt is not None else []
    if entry.duration is not None:
        parts.append(f"took={entry.duration.total_seconds():g}s")
    to = f"{entry.status} {','.join(entry.steps)}".strip()
    parts.append(f"-> {to}")
    parts += [f"[{entry.reason}]"] if entry.reason else []
    parts += [f"error={entry.error}"] if entry.error else []
    return "  ".join(parts)


# -- steering ------------------------------------------------------------------------------


def steer(chosen: argparse.Namespace) -> None:
    """Ask the running service, and say where the workflow stands then."""
    service = load_service(chosen.service)
    ref = parse_ref(chosen.instance)
    _workflows(service, ref.component)
    url = with_path(chosen.url or local_url(service.settings), "")
    with service.reading() as reader:
        check_exists(reader, ref, chosen)
        token = reader.steering_token()
    body = {"component": ref.component, "instance": ref.instance, "reason": chosen.reason}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    status, text = post(
        f"{url}{STEERING_PATH}/{chosen.verb}",
        json.dumps(body).encode(),
        headers,
        timeout=chosen.timeout,
        late=LATE,
    )
    answer = _read(text, url)
    if status == HTTPStatus.FORBIDDEN:
        raise CommandFailed(
            f"The service at {url} runs on another database than the one this command reads. "
            "Give both the same GREENROOM_DATABASE_URL, or name another service with --url."
        )
    if status != HTTPStatus.OK:
        raise CommandFailed(f"The service refused: {answer.get('detail')}")
    suspended = "suspended, " if answer["suspended"] else ""
    reason = f" [{answer['reason']}]" if answer["reason"] else ""
    print(f"{ref} is {suspended}{answer['status']}{reason}")


def _read(text: bytes, url: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise CommandFailed(f"What answers at {url} is no greenroom service of this version.")
    return answer
