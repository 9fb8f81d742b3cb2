"""`greenroom db`: the database's schema."""

from __future__ import annotations

import argparse

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
    print(upgrade(_settings(chosen)))


def run_current(chosen: argparse.Namespace) -> None:
    """Where the schema is, and whether that is where the code wants it."""
    print(current(_settings(chosen)))


def run_history(chosen: argparse.Namespace) -> None:
    """Every migration, the newest first."""
    for line in history():
        print(line)


def _settings(chosen: argparse.Namespace) -> Settings:
    given = {} if chosen.database_url is None else {"database_url": chosen.database_url}
    return load_settings(**given)
