"""`greenroom check`: whether this code can run on this database, without running it.

For a deployment's pipeline: everything that would keep the service from starting, or an
instance from being recovered, is found before anybody is affected. Where there is no database
to look at, the definitions alone are checked, and it says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import add_target, load_service
from greenroom.components import TIMERS
from greenroom.errors import StoreUnavailableError
from greenroom.migrations import history

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.runtime import StoredReader
    from greenroom.settings import Settings


def add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "check", help="check a service's definitions, and that the code can read its database"
    )
    add_target(parser)
    parser.add_argument(
        "--require-database",
        action="store_true",
        help="fail where the database can't be looked at, or is not at this version's migration",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Print what is right; fail with everything that is not."""
    service = load_service(chosen.service)
    definitions = service.runtime.definitions
    print(f"definitions: {len(definitions)} component(s), {len(service.mcp_paths)} MCP endpoint(s)")
    reason = _why_not_now(service.settings)
    if reason is not None:
        if chosen.require_database:
            raise CommandFailed(f"The database was not checked: {reason}.")
        print(f"database: not checked: {reason}")
        return
    with service.reading() as reader:
        problems = [line for one in definitions.values() for line in _unreadable(one, reader)]
        lost = [f"{TIMERS}: {line}" for line in reader.stranded_timers()]
        stranded = [str(one) for one in reader.stranded_steps()]
    found = {
        "The code can't read what is stored": problems,
        "What timers call leads nowhere": lost,
        "Workflows can't go on": stranded,
    }
    if any(found.values()):
        told = ["\n  - ".join((f"{what}:", *lines)) for what, lines in found.items() if lines]
        raise CommandFailed("\n".join(told))
    print("database: at this version's migration; every stored type has a path to the code")


def _why_not_now(settings: Settings) -> str | None:
    """What keeps the database from being looked at, and is no mistake by itself.

    Definitions are checked on machines that have no database, and before the first start.
    """
    file = settings.sqlite_file
    if file is not None and not file.exists():
        return f"there is no {file}; the service would make it"
    try:
        pending = [one.revision for one in history(settings) if not one.applied]
    except StoreUnavailableError as error:
        if file is not None:
            # A file that is there and can't be opened is not merely out of reach.
            raise
        return f"it can't be reached. {str(error).rstrip('.')}"
    if pending and settings.migrate == "auto":
        return f"it lacks the migration(s) {', '.join(pending)}, which the service would apply"
    return None


def _unreadable(definition: ComponentDefinition, reader: StoredReader) -> Iterator[str]:
    if definition.kind == "timed-action":
        return
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
