"""Entities: instances, their journal, snapshots, owners of slices."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

additive = False
"""Whether code that does not know this revision can still use the database."""


def _key() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the first tables."""
    meta = op.create_table(
        "greenroom_meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_greenroom_meta"),
    )
    op.create_table(
        "greenroom_owner",
        sa.Column("owner_id", _key(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("last_batch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", name="pk_greenroom_owner"),
    )
    op.create_table(
        "greenroom_slice",
        sa.Column("slice", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner_id", sa.BigInteger()),
        sa.Column("purged_to", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("slice", name="pk_greenroom_slice"),
    )
    op.create_table(
        "greenroom_instance",
        sa.Column("instance_id", _key(), autoincrement=False, nullable=False),
        sa.Column("component", _id(), nullable=False),
        sa.Column("instance", _id(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("instance_id", name="pk_greenroom_instance"),
        sa.UniqueConstraint(
            "component", "instance", name="uq_greenroom_instance_component_instance"
        ),
    )
    for column in ("expires_at", "deleted_at"):
        present = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            f"ix_greenroom_instance_{column}",
            "greenroom_instance",
            [column],
            sqlite_where=present,
            postgresql_where=present,
        )
    op.create_table(
        "greenroom_journal",
        sa.Column("record_id", _key(), autoincrement=False, nullable=False),
        sa.Column("instance_id", sa.BigInteger(), nullable=False),
        sa.Column("sequence_number", sa.BigInteger()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("type_name", sa.Text()),
        sa.Column("type_version", sa.Integer()),
        sa.Column("payload", sa.Text()),
        sa.Column("metadata", sa.Text()),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("idempotency_key", _id()),
        sa.Column("handler", sa.Text()),
        sa.Column("principal", sa.Text()),
        sa.Column("fingerprint", sa.Text()),
        sa.Column("reply", sa.Text()),
        sa.Column("receipt_expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("record_id", name="pk_greenroom_journal"),
        sa.UniqueConstraint(
            "instance_id",
            "sequence_number",
            name="uq_greenroom_journal_instance_id_sequence_number",
        ),
    )
    keyed = sa.text("idempotency_key IS NOT NULL")
    op.create_index(
        "uq_greenroom_journal_instance_id_idempotency_key",
        "greenroom_journal",
        ["instance_id", "idempotency_key"],
        unique=True,
        sqlite_where=keyed,
        postgresql_where=keyed,
    )
    op.create_index(
        "ix_greenroom_journal_receipt_expires_at",
        "greenroom_journal",
        ["receipt_expires_at"],
        sqlite_where=keyed,
        postgresql_where=keyed,
    )
    op.create_table(
        "greenroom_snapshot",
        sa.Column("instance_id", _key(), autoincrement=False, nullable=False),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("type_name", sa.Text(), nullable=False),
        sa.Column("type_version", sa.Integer(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name="pk_greenroom_snapshot"),
    )
    op.create_table(
        "greenroom_blob",
        sa.Column("record_id", _key(), autoincrement=False, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("record_id", name="pk_greenroom_blob"),
    )
    op.bulk_insert(meta, [{"name": f"revision:{revision}", "value": "breaking"}])


def downgrade() -> None:
    """Databases go forward; take a backup to go back."""
    raise NotImplementedError
