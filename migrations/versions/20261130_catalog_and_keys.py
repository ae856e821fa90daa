"""Catalog releases and records, API keys."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "20261130_catalog"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "catalog_release",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column(
            "published_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("change_digest", sa.Text(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_catalog_release_number_positive")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_catalog_release")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_catalog_release_idempotency_key")),
    )
    op.create_table(
        "catalog_record",
        sa.Column("row_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("released_in", sa.Integer(), nullable=False),
        sa.Column("retired_in", sa.Integer(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.CheckConstraint(
            "retired_in > released_in", name=op.f("ck_catalog_record_retired_after_release")
        ),
        sa.ForeignKeyConstraint(
            ["released_in"],
            ["catalog_release.number"],
            name=op.f("fk_catalog_record_released_in_catalog_release"),
        ),
        sa.ForeignKeyConstraint(
            ["retired_in"],
            ["catalog_release.number"],
            name=op.f("fk_catalog_record_retired_in_catalog_release"),
        ),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_catalog_record")),
        sa.UniqueConstraint("kind", "id", "released_in", name=op.f("uq_catalog_record_kind")),
    )
    op.create_index(
        "ix_catalog_record_current",
        "catalog_record",
        ["kind", "id"],
        unique=True,
        postgresql_where=sa.text("retired_in IS NULL"),
    )
    op.create_index(
        "ix_catalog_record_released_in", "catalog_record", ["released_in", "retired_in"]
    )
    op.create_table(
        "api_key",
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("prefix", name=op.f("pk_api_key")),
    )


def downgrade() -> None:
    op.drop_table("api_key")
    op.drop_table("catalog_record")
    op.drop_table("catalog_release")
