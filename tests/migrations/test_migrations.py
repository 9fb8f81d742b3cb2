"""The schema's history: where a database can be, and what becomes of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from greenroom import migrations
from greenroom.errors import SchemaError, StoreInUseError
from greenroom.persistence.tables import metadata
from greenroom.settings import Settings
from tests.support.journals import CART, a_write, an_event, commit_ok, fresh, open_journal, payloads

ROOT = Path(__file__).parents[2]


def execute(url: str, *statements: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_an_empty_database_is_set_up(database_url: str) -> None:
    settings = Settings(database_url=database_url)
    assert migrations.current(settings) is None
    assert not any(one.applied for one in migrations.history(settings))

    migrations.prepare(settings)

    assert migrations.current(settings) == migrations.history(settings)[-1].revision
    assert all(one.applied for one in migrations.history(settings))


def test_the_migrations_make_just_the_tables_of_the_code(database_url: str) -> None:
    """What Alembic would have to change is nothing."""
    migrations.prepare(Settings(database_url=database_url))
    engine = create_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"compare_type": True, "version_table": migrations.VERSION_TABLE},
        )
        differences = compare_metadata(context, metadata)
    engine.dispose()

    assert differences == []


def test_a_database_behind_the_code_is_refused_when_migrating_is_off(database_url: str) -> None:
    settings = Settings(database_url=database_url, migrate="off")

    with pytest.raises(SchemaError, match="greenroom db upgrade"):
        migrations.prepare(settings)

    migrations.upgrade(settings)
    migrations.prepare(settings)


def test_a_database_ahead_that_only_added_is_used(database_url: str) -> None:
    """An older process may run beside a newer one."""
    settings = Settings(database_url=database_url)
    migrations.prepare(settings)
    execute(
        database_url,
        f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'",
        "INSERT INTO greenroom_meta (name, value) VALUES ('revision:9999', 'additive')",
    )

    migrations.prepare(settings)
    with open_journal(database_url) as (store, _):
        commit_ok(store, CART, fresh(), a_write(an_event()))


def test_a_database_ahead_in_another_way_is_refused(database_url: str) -> None:
    settings = Settings(database_url=database_url)
    migrations.prepare(settings)
    execute(
        database_url,
        f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'",
        "INSERT INTO greenroom_meta (name, value) VALUES ('revision:9999', 'breaking')",
    )

    with pytest.raises(SchemaError, match=r"9999.*Install the newer"):
        migrations.prepare(settings)
    with pytest.raises(SchemaError, match="newer"):
        migrations.upgrade(settings)


def test_what_is_stored_survives_another_upgrade(database_url: str) -> None:
    with open_journal(database_url) as (store, _):
        commit_ok(store, CART, fresh(), a_write(an_event("kept")))

    migrations.upgrade(Settings(database_url=database_url))

    with open_journal(database_url) as (store, _):
        assert payloads(store, CART) == ["kept"]


@pytest.mark.parametrize(("asked", "expected"), [(None, None), (7, 7)])
def test_the_number_of_slices_is_decided_once(
    database_url: str, asked: int | None, expected: int | None
) -> None:
    """1 on SQLite and 64 on PostgreSQL unless told otherwise; later settings change nothing."""
    usual = 1 if "sqlite" in database_url else 64
    with open_journal(database_url, slices=asked) as (store, _):
        assert store.ownership.slices == (expected or usual)
    with open_journal(database_url, slices=99) as (store, _):
        assert store.ownership.slices == (expected or usual)


def test_a_sqlite_file_is_not_upgraded_under_its_owner(sqlite_url: str) -> None:
    """That one would find other tables under its hands; nothing to be done is no problem."""
    settings = Settings(database_url=sqlite_url)
    with open_journal(sqlite_url) as (store, _):
        migrations.upgrade(settings)
        execute(sqlite_url, f"DELETE FROM {migrations.VERSION_TABLE}")
        with pytest.raises(StoreInUseError, match="pid"):
            migrations.prepare(settings)
        commit_ok(store, CART, fresh(), a_write(an_event()))


def test_several_processes_may_set_up_a_database_at_once(database_url: str) -> None:
    """One does, the others find it done."""
    program = (
        "import sys; from greenroom.migrations import prepare; "
        "from greenroom.settings import Settings; prepare(Settings(database_url=sys.argv[1]))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, database_url], cwd=ROOT) for _ in range(3)
    ]

    assert [process.wait(timeout=30) for process in processes] == [0, 0, 0]
    with open_journal(database_url) as (store, _):
        commit_ok(store, CART, fresh(), a_write(an_event()))


def test_migrations_never_import_what_may_change() -> None:
    """A revision is frozen: it must do tomorrow what it does today."""
    for file in (ROOT / "src/greenroom/migrations/versions").glob("*.py"):
        assert "greenroom." not in file.read_text().replace('"greenroom_', "")
