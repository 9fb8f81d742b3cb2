"""`greenroom check`: whether this code can run on this database, without running it.

For a deployment's pipeline: everything that would keep the service from starting, or an
instance from being recovered, is found before anybody is affected.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import add_target, load_service

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.runtime import StoredReader


def add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "check", help="check a service's definitions, and that the code can read its database"
    )
    add_target(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Print what is right; fail with everything that is not."""
    service = load_service(chosen.service)
    definitions = service.runtime.definitions
    print(f"definitions: {len(definitions)} component(s), {len(service.mcp_paths)} MCP endpoint(s)")
    with service.reading() as reader:
        problems = [line for one in definitions.values() for line in _unreadable(one, reader)]
    if problems:
        raise CommandFailed("The code can't read what is stored:\n  - " + "\n  - ".join(problems))
    print("database: at this version's migration; every stored type has a path to the code")


def _unreadable(definition: ComponentDefinition, reader: StoredReader) -> Iterator[str]:
    known = {info.name: info for info in definition.stored_types}
    for name, version in reader.stored_types(definition.id):
        info = known.get(name)
        if info is None:
            yield (
                f"{definition.id}: {name!r} is stored, but no type of {definition.cls.__name__} "
                f"is called so; it has: {', '.join(known)}"
            )
        elif version > info.version:
            yield (
                f"{definition.id}: {name!r} is stored in version {version}; "
                f"the code knows it up to {info.version}"
            )
