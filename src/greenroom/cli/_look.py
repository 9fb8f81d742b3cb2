"""`greenroom components|instances|events|state`: what a service has stored, read-only.

The database is only read, so this works while the service runs, and never disturbs it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import add_target, load_service, parse_ref

if TYPE_CHECKING:
    from datetime import datetime

    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.persistence import InstanceSummary
    from greenroom.runtime import StoredEvent, StoredReader

Commands = argparse._SubParsersAction


def add_look(commands: Commands[argparse.ArgumentParser]) -> None:
    """The commands' arguments."""
    add_looking(commands, "components", components, "list the components of a service")

    parser = add_looking(commands, "instances", instances, "list the instances of a component")
    parser.add_argument("component", metavar="COMPONENT")
    parser.add_argument("--after", metavar="ID", help="begin after this instance id")
    parser.add_argument("--limit", type=count, default=100, help="at most so many (100)")

    parser = add_looking(commands, "events", events, "show what an instance has been through")
    parser.add_argument("instance", metavar="COMPONENT/INSTANCE")
    parser.add_argument("--after", type=int, default=0, help="begin after this sequence number")
    parser.add_argument("--limit", type=count, default=1000, help="at most so many (1000)")

    parser = add_looking(commands, "state", state, "show the state of an instance")
    parser.add_argument("instance", metavar="COMPONENT/INSTANCE")
    parser.add_argument("--at", type=int, metavar="N", help="as it was after this sequence number")


def components(chosen: argparse.Namespace) -> None:
    """One line per component, one below it per command."""
    definitions = load_service(chosen.service).runtime.definitions
    if chosen.json:
        print_json([_component(one) for one in definitions.values()])
        return
    for one in definitions.values():
        print(f"{one.id}  {one.kind}  {one.cls.__module__}.{one.cls.__qualname__}")
        for command in _component(one)["commands"]:
            kind = "reads" if command["read_only"] else "writes"
            if one.kind == "timed-action":
                kind = "run by timers"
            tool = f"  tool {command['tool']}" if command["tool"] else ""
            print(f"    {command['name']}({', '.join(command['parameters'])})  {kind}{tool}")


def instances(chosen: argparse.Namespace) -> None:
    """One line per instance: id, version, times."""
    with load_service(chosen.service).reading() as reader:
        found = reader.instances(chosen.component, after=chosen.after, limit=chosen.limit)
    if chosen.json:
        print_json([_instance(one) for one in found])
        return
    for one in found:
        notes = " ".join(f"{name}={value}" for name, value in _instance(one).items() if value)
        print(notes)


def events(chosen: argparse.Namespace) -> None:
    """One line per record: number, time, type, content."""
    ref = parse_ref(chosen.instance)
    with load_service(chosen.service).reading() as reader:
        check_exists(reader, ref, chosen)
        found = reader.events(ref, after=chosen.after, limit=chosen.limit)
    if chosen.json:
        print_json([_event(one) for one in found])
        return
    for one in found:
        content = json.dumps(to_jsonable_python(one.value), ensure_ascii=False)
        print(f"{one.sequence_number}  {one.timestamp.isoformat()}  {one.type_name}  {content}")


def state(chosen: argparse.Namespace) -> None:
    """The state as JSON."""
    ref = parse_ref(chosen.instance)
    with load_service(chosen.service).reading() as reader:
        check_exists(reader, ref, chosen)
        print_json(to_jsonable_python(reader.state_at(ref, chosen.at)))


def check_exists(reader: StoredReader, ref: EntityRef, chosen: argparse.Namespace) -> None:
    """An instance that nothing was stored for is more likely a slip of the pen than of interest."""
    if not reader.exists(ref):
        raise CommandFailed(
            f"There is no instance {ref}: nothing was ever stored for it. List those there are "
            f"with: greenroom instances {chosen.service} {ref.component}"
        )


def add_looking(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    text: str,
) -> argparse.ArgumentParser:
    """A command that looks at a service, and can print JSON."""
    parser = commands.add_parser(name, help=text)
    add_target(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON, for programs (a state is JSON anyway)"
    )
    parser.set_defaults(run=run)
    return parser


def count(text: str) -> int:
    """A number of lines."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _component(definition: ComponentDefinition) -> dict[str, Any]:
    tools = {tool.handler.name: tool.name for tool in definition.tools}
    return {
        "id": definition.id,
        "kind": definition.kind,
        "class": f"{definition.cls.__module__}.{definition.cls.__qualname__}",
        "description": definition.description,
        "commands": [
            {
                "name": handler.name,
                "parameters": [parameter.name for parameter in handler.parameters],
                "read_only": handler.read_only,
                "tool": tools.get(handler.name),
            }
            for handler in definition.handlers.values()
        ],
        "stored_types": [f"{info.name} v{info.version}" for info in definition.stored_types],
    }


def _instance(summary: InstanceSummary) -> dict[str, Any]:
    return {
        "id": summary.ref.instance,
        "version": summary.sequence_number,
        "created": _time(summary.created_at),
        "updated": _time(summary.updated_at),
        "deleted": _time(summary.deleted_at),
        "expires": _time(summary.expires_at),
    }


def _event(event: StoredEvent[Any]) -> dict[str, Any]:
    return {
        "sequence_number": event.sequence_number,
        "timestamp": event.timestamp.isoformat(),
        "type": event.type_name,
        "value": to_jsonable_python(event.value),
        "metadata": list(_pairs(event.metadata)),
    }


def _pairs(metadata: Any) -> Iterator[list[str]]:
    for name, value in metadata:
        yield [name, value]


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def print_json(value: Any) -> None:
    """For programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
