"""What the environment may set, read once and passed down."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

PREFIX = "TONNAGE_"


class SettingsError(Exception):
    """An environment variable does not hold what it must."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``TONNAGE_<NAME>`` for each field, but for ``DATABASE_URL`` and ``PORT``."""

    database_url: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8000
    data_directory: str = ".tonnage"
    pool_size: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    pooler_in_front: bool = False
    """True behind PgBouncer in transaction mode older than 1.21: no prepared statements."""
    listen_url: str | None = None
    """A direct connection for LISTEN, where DATABASE_URL goes through a pooler."""
    reads_need_key: bool = False
    largest_body_bytes: Annotated[int, msgspec.Meta(ge=1024, le=2**30)] = 4 * 2**20
    request_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    log_format: Literal["json", "plain", "none"] = "json"

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises SettingsError naming the variable."""
        names = {f: f"{PREFIX}{f.upper()}" for f in cls.__struct_fields__}
        names.update(database_url="DATABASE_URL", port="PORT")
        given = {f: environment[name] for f, name in names.items() if environment.get(name)}
        try:
            return msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            what, _, path = str(error).partition(" - at `$.")
            name = names.get(path.rstrip("`"), "an environment variable")
            raise SettingsError(f"{name}: {what}") from None

    @property
    def sqlalchemy_url(self) -> str:
        """DATABASE_URL for psycopg 3, whatever scheme it was written with."""
        if self.database_url is None:
            raise SettingsError("DATABASE_URL is not set")
        _, _, rest = self.database_url.partition("://")
        return f"postgresql+psycopg://{rest}"

    @property
    def libpq_url(self) -> str:
        _, _, rest = (self.listen_url or self.sqlalchemy_url).partition("://")
        return f"postgresql://{rest}"
