"""Settings come from the environment once, and say which variable is not right."""

import pytest

from tonnage.settings import Settings, SettingsError


def test_defaults_need_nothing() -> None:
    settings = Settings.read({})
    assert (settings.host, settings.port, settings.database_url) == ("127.0.0.1", 8000, None)


def test_variables_are_read_and_converted() -> None:
    settings = Settings.read(
        {
            "PORT": "9000",
            "DATABASE_URL": "postgres://a:b@c/d",
            "TONNAGE_READS_NEED_KEY": "true",
            "TONNAGE_REQUEST_SECONDS": "2.5",
        }
    )
    assert settings.port == 9000
    assert settings.reads_need_key is True
    assert settings.request_seconds == 2.5
    assert settings.sqlalchemy_url == "postgresql+psycopg://a:b@c/d"
    assert settings.libpq_url == "postgresql://a:b@c/d"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("TONNAGE_POOL_SIZE", "-1"),
        ("TONNAGE_LOG_FORMAT", "xml"),
        ("TONNAGE_READS_NEED_KEY", "perhaps"),
    ],
)
def test_a_variable_that_is_not_right_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.read({name: value})
