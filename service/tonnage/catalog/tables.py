"""The catalog's tables."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

release = sa.Table(
    "catalog_release",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column(
        "published_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
    ),
    sa.Column("idempotency_key", sa.Text, unique=True),
    sa.Column("change_digest", sa.Text, nullable=False),
    sa.CheckConstraint("number >= 1", name="number_positive"),
)

record = sa.Table(
    "catalog_record",
    metadata,
    sa.Column("row_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("released_in", sa.Integer, sa.ForeignKey("catalog_release.number"), nullable=False),
    sa.Column("retired_in", sa.Integer, sa.ForeignKey("catalog_release.number")),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("body", JSONB, nullable=False),
    sa.CheckConstraint("retired_in > released_in", name="retired_after_release"),
    sa.UniqueConstraint("kind", "id", "released_in"),
    sa.Index(
        "ix_catalog_record_current",
        "kind",
        "id",
        unique=True,
        postgresql_where=sa.text("retired_in IS NULL"),
    ),
    sa.Index("ix_catalog_record_released_in", "released_in", "retired_in"),
)
"""A record is valid from ``released_in`` up to, and without, ``retired_in``."""

api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("prefix", sa.Text, primary_key=True),
    sa.Column("secret_sha256", sa.LargeBinary, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", ARRAY(sa.Text), nullable=False),
    sa.Column(
        "created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
    ),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
)
