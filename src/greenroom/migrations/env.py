"""Alembic's entry: runs on the connection it is handed, and reads no URL from anywhere."""

from alembic import context

from greenroom.persistence.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table="greenroom_alembic_version",
    transaction_per_migration=False,
    render_as_batch=connection.dialect.name == "sqlite",
)
# The transaction is the caller's: it holds the lock that keeps other processes from migrating.
context.run_migrations()
