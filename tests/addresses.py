"""Addresses of the databases that tests make."""


def on_database(url: str, name: str) -> str:
    """The same server, another database."""
    return f"{url.rsplit('/', 1)[0]}/{name}"


def sqlalchemy_url(url: str) -> str:
    """What `create_engine` wants where psycopg takes `postgresql://`."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def psycopg_url(url: str) -> str:
    """The inverse of `sqlalchemy_url`."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)
