from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from app.config import BadConfig, load


def test_without_any_variable_everything_has_a_value() -> None:
    config = load({})
    assert config.data_dir == Path("var").absolute()
    assert config.database_url == f"sqlite:///{Path('var').absolute() / 'parley.db'}"
    assert (config.host, config.port, config.base_url) == ("127.0.0.1", 8000, "http://127.0.0.1:8000")
    assert config.embedded_worker
    assert config.is_sqlite
    assert config.secret_key is None


def test_a_variable_that_is_set_to_nothing_is_as_good_as_unset() -> None:
    assert load({"PARLEY_PORT": "", "PARLEY_DATABASE_URL": "", "PARLEY_BROKER_URL": ""}) == load({})


def test_the_base_address_follows_the_port() -> None:
    assert load({"PARLEY_PORT": "9000"}).base_url == "http://127.0.0.1:9000"
    assert load({"PARLEY_BASE_URL": "https://parley.example/talk/"}).base_url == "https://parley.example/talk"


def test_what_a_command_gives_wins_over_the_environment() -> None:
    assert load({"PARLEY_PORT": "9000"}, given={"PARLEY_PORT": "9001"}).port == 9001


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://p@localhost/x", "postgresql+psycopg"),
        ("mysql://root:secret@localhost/x", "mysql+pymysql"),
        ("mariadb://root@localhost/x?unix_socket=/run/m.sock", "mysql+pymysql"),
        ("postgresql+psycopg://p@localhost/x", "postgresql+psycopg"),
        ("sqlite:////tmp/x.db", "sqlite"),
    ],
)
def test_a_database_address_gets_the_driver_that_is_installed(url: str, driver: str) -> None:
    found = load({"PARLEY_DATABASE_URL": url}).database_url
    assert found.partition(":")[0] == driver
    assert unquote(found.partition("://")[2]) == url.partition("://")[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PARLEY_PORT", "eighty"),
        ("PARLEY_PORT", "-1"),
        ("PARLEY_PORT", "65536"),
        ("PARLEY_PORT", "²"),
        ("PARLEY_DATABASE_URL", "not an address"),
        ("PARLEY_DATABASE_URL", "oracle://x/y"),
        ("PARLEY_BASE_URL", "parley.example"),
        ("PARLEY_BASE_URL", "ftp://parley.example"),
        ("PARLEY_BASE_URL", "http://parley.example/?x=1"),
        ("PARLEY_SECRET_KEY_FILE", "/nowhere/at/all"),
    ],
)
def test_a_bad_value_is_refused_by_a_sentence_that_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(BadConfig, match=name):
        load({name: value})


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("a-key-from-a-file-of-its-own\n")
    assert load({"PARLEY_SECRET_KEY_FILE": str(path)}).secret_key == "a-key-from-a-file-of-its-own"
