"""`greenroom db`: the database's schema."""

from __future__ import annotations

import argparse

from greenroom.cli._failure import CommandFailed
from greenroom.migrations import current, history, upgrade
from greenroom.settings import Settings, load_settings


def add_db(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands' arguments."""
    parser = commands.add_parser("db", help="look after the database's schema")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, run, text in (
        ("upgrade", run_upgrade, "bring the schema to this version"),
        ("current", run_current, "say where the schema is"),
        ("history", run_history, "list every migration"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--database-url", help="instead of GREENROOM_DATABASE_URL")
        verb.set_defaults(run=run)


def run_upgrade(chosen: argparse.Namespace) -> None:
    """Apply what is missing, under a lock."""
    print(f"at {upgrade(_settings(chosen))}")


def run_current(chosen: argparse.Namespace) -> None:
    """Where the schema is, and what is missing to where the code wants it."""
    settings = _settings(chosen)
    at = current(settings) if _exists(settings) else None
    pending = [one.revision for one in history(settings) if not one.applied] if at else []
    missing = f", lacks {', '.join(pending)}: run `greenroom db upgrade`" if pending else ""
    print(f"at {at}{missing}" if at else "not set up: run `greenroom db upgrade`")


def run_history(chosen: argparse.Namespace) -> None:
    """Every migration, the oldest first."""
    settings = _settings(chosen)
    if not _exists(settings):
        raise CommandFailed(f"There is no database at {settings.sqlite_file}.")
    for one in history(settings):
        print(f"{one.revision}  {'applied' if one.applied else 'missing'}  {one.summary}")


def _exists(settings: Settings) -> bool:
    # Looking must not make a file: SQLite creates one where there is none.
    return settings.sqlite_file is None or settings.sqlite_file.exists()


def _settings(chosen: argparse.Namespace) -> Settings:
    given = {} if chosen.database_url is None else {"database_url": chosen.database_url}
    return load_settings(**given)
