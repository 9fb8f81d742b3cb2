"""Workflows: what an instance is in the middle of."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

additive = True
"""Whether code that does not know this revision can still use the database."""


def upgrade() -> None:
    """Add the column, and the index of the few rows that have something in it."""
    op.add_column("greenroom_instance", sa.Column("step", sa.Text()))
    op.create_index(
        "ix_greenroom_instance_step",
        "greenroom_instance",
        ["instance_id"],
        sqlite_where=sa.text("step IS NOT NULL"),
        postgresql_where=sa.text("step IS NOT NULL"),
    )


def downgrade() -> None:
    """Databases go forward; take a backup to go back."""
    raise NotImplementedError
