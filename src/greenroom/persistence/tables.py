"""The tables, once: read by the SQL adapters and compared with the migrations by a test.

What decides their speed (docs/decisions/0002): instances are interned to an integer, whose row
is also the head; a record's key is one integer that grows at the right edge of the tree; the
idempotency key and the reply stand in the last record of their command.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SLICE_BITS = 44
"""`record_id = slice << 44 | slice_seq` and `instance_id = slice << 44 | n`.

One key gives both the slice and the place in it: 17 million million records in each of at most
1,024 slices, in 54 bits.
"""
LOW_BITS = (1 << SLICE_BITS) - 1

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite makes only an INTEGER PRIMARY KEY the key of the table itself.
_Key = BigInteger().with_variant(Integer, "sqlite")
# Compared byte by byte on both databases: quicker than a language's order, and the same.
_Id = Text().with_variant(Text(collation="C"), "postgresql")

meta = Table(
    "greenroom_meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

owner = Table(
    "greenroom_owner",
    metadata,
    Column("owner_id", _Key, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    # The number of the last batch: how an owner learns whether a commit went in when the
    # connection broke during it.
    Column("last_batch", BigInteger, nullable=False, server_default="0"),
    Column("address", Text),
    Column("process", Text, nullable=False),
    Column("lease_expires_at", BigInteger, nullable=False),
)

slice_table = Table(
    "greenroom_slice",
    metadata,
    Column("slice", Integer, primary_key=True, autoincrement=False),
    Column("owner_id", BigInteger),
    # The highest slice_seq whose record was removed. The next one is counted from this or from
    # the last record, so that no number is given twice: a reader would miss the second.
    Column("purged_to", BigInteger, nullable=False, server_default="0"),
)

instance = Table(
    "greenroom_instance",
    metadata,
    Column("instance_id", _Key, primary_key=True, autoincrement=False),
    Column("component", _Id, nullable=False),
    Column("instance", _Id, nullable=False),
    Column("kind", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("sequence_number", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # When the instance is due: an entity deletes itself, a workflow goes on.
    Column("expires_at", BigInteger),
    # What a workflow is in the middle of, so that it is found after a crash without reading it.
    Column("step", Text),
    UniqueConstraint("component", "instance"),
)
_expires = instance.c.expires_at.is_not(None)
Index(
    "ix_greenroom_instance_expires_at",
    instance.c.expires_at,
    sqlite_where=_expires,
    postgresql_where=_expires,
)
_deleted = instance.c.deleted_at.is_not(None)
Index(
    "ix_greenroom_instance_deleted_at",
    instance.c.deleted_at,
    sqlite_where=_deleted,
    postgresql_where=_deleted,
)
_in_a_step = instance.c.step.is_not(None)
Index(
    "ix_greenroom_instance_step",
    instance.c.instance_id,
    sqlite_where=_in_a_step,
    postgresql_where=_in_a_step,
)

journal = Table(
    "greenroom_journal",
    metadata,
    Column("record_id", _Key, primary_key=True, autoincrement=False),
    Column("instance_id", BigInteger, nullable=False),
    Column("sequence_number", BigInteger),
    Column("kind", Text, nullable=False),
    Column("type_name", Text),
    Column("type_version", Integer),
    # None when the payload is empty or stands in greenroom_blob.
    Column("payload", Text),
    Column("metadata", Text),
    Column("written_at", BigInteger, nullable=False),
    Column("idempotency_key", _Id),
    Column("handler", Text),
    Column("principal", Text),
    Column("fingerprint", Text),
    Column("reply", Text),
    Column("receipt_expires_at", BigInteger),
    UniqueConstraint("instance_id", "sequence_number"),
)
_keyed = text("idempotency_key IS NOT NULL")
Index(
    "uq_greenroom_journal_instance_id_idempotency_key",
    journal.c.instance_id,
    journal.c.idempotency_key,
    unique=True,
    sqlite_where=_keyed,
    postgresql_where=_keyed,
)
# Receipts expire about in the order they were written, so this index grows at its right edge.
Index(
    "ix_greenroom_journal_receipt_expires_at",
    journal.c.receipt_expires_at,
    sqlite_where=_keyed,
    postgresql_where=_keyed,
)

snapshot = Table(
    "greenroom_snapshot",
    metadata,
    Column("instance_id", _Key, primary_key=True, autoincrement=False),
    Column("sequence_number", BigInteger, nullable=False),
    Column("type_name", Text, nullable=False),
    Column("type_version", Integer, nullable=False),
    Column("payload", Text, nullable=False),
)

blob = Table(
    "greenroom_blob",
    metadata,
    Column("record_id", _Key, primary_key=True, autoincrement=False),
    Column("payload", Text, nullable=False),
)
