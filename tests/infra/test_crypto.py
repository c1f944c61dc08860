from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import config as configuration
from app.infra import crypto, logs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    use({"PARLEY_DATA_DIR": str(tmp_path)})
    return tmp_path


def use(values: dict[str, str]) -> configuration.Config:
    config = configuration.load(values)
    crypto.init_app(config)
    return config


def test_the_first_start_makes_a_key_that_only_its_owner_reads(folder: Path) -> None:
    path = folder / crypto.KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().strip()) >= 40
    assert list(folder.iterdir()) == [path]


def test_the_next_start_opens_what_the_first_sealed(folder: Path) -> None:
    sealed = crypto.seal("a secret of ours")
    use({"PARLEY_DATA_DIR": str(folder)})
    assert crypto.unseal(sealed) == "a secret of ours"


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    config = configuration.load({"PARLEY_DATA_DIR": str(tmp_path / "new")})
    keys: list[list[str]] = []
    threads = [threading.Thread(target=lambda: keys.append(crypto.keys_of(config))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 12
    assert all(found == keys[0] and len(found) == 1 for found in keys)


@given(st.text())
def test_what_is_sealed_comes_back_whole_and_never_shows(text: str) -> None:
    crypto.init_app(configuration.load({"PARLEY_SECRET_KEY": "0123456789abcdef"}))
    sealed = crypto.seal(text)
    assert crypto.unseal(sealed) == text
    assert len(text) < 4 or text not in sealed
    assert crypto.unseal(crypto.reseal(sealed)) == text


def test_a_newer_key_seals_and_older_ones_still_open(tmp_path: Path) -> None:
    values = {"PARLEY_DATA_DIR": str(tmp_path)}
    use({**values, "PARLEY_SECRET_KEY": "the-old-key-of-before"})
    old = crypto.seal("secret text")
    use({**values, "PARLEY_SECRET_KEY": "the-new-key-of-today,the-old-key-of-before"})
    assert crypto.unseal(old) == "secret text"
    assert not crypto.opens_with_newest(old)
    fresh = crypto.reseal(old)
    assert crypto.opens_with_newest(fresh)
    use({**values, "PARLEY_SECRET_KEY": "the-new-key-of-today"})
    assert crypto.unseal(fresh) == "secret text"
    with pytest.raises(crypto.BrokenSeal) as broken:
        crypto.unseal(old)
    assert "secret" in str(broken.value.sentence)


@pytest.mark.parametrize("sealed", ["", "plain text", "gAAAAA", "ä", "x" * 5000])
def test_what_was_never_sealed_does_not_open(folder: Path, sealed: str) -> None:
    with pytest.raises(crypto.BrokenSeal):
        crypto.unseal(sealed)
    with pytest.raises(crypto.BrokenSeal):
        crypto.reseal(sealed)
    assert not crypto.opens_with_newest(sealed)


def test_a_key_file_that_another_process_replaced_takes_effect_at_once(folder: Path) -> None:
    old = crypto.keys_of(configuration.load({"PARLEY_DATA_DIR": str(folder)}))
    sealed = crypto.seal("before")
    crypto.store_keys(folder / crypto.KEY_FILE, ["a-fresh-key-for-the-test", *old])
    assert crypto.unseal(sealed) == "before"
    fresh = crypto.seal("after")
    assert crypto.opens_with_newest(fresh)
    assert not crypto.opens_with_newest(sealed)
    assert stat.S_IMODE((folder / crypto.KEY_FILE).stat().st_mode) == 0o600


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(configuration.BadConfig, match="16 characters"):
        use({"PARLEY_SECRET_KEY": "short"})


def test_a_secret_that_was_opened_is_masked_from_then_on(folder: Path) -> None:
    sealed = crypto.seal("canary-4711-canary")
    crypto.unseal(sealed)
    assert "4711" not in logs.mask("it is canary-4711-canary here")


@pytest.mark.parametrize(
    ("plain", "shown"), [(None, ""), ("", ""), ("short", "set"), ("a-long-secret-3f2", "set, ends in …3f2")]
)
def test_a_secret_is_shown_by_its_end_only(plain: str | None, shown: str) -> None:
    assert crypto.masked(plain) == shown


def test_keys_for_different_purposes_differ() -> None:
    assert crypto.derive("k" * 20, "seal") != crypto.derive("k" * 20, "session")
    assert crypto.derive("k" * 20, "seal") == crypto.derive("k" * 20, "seal")


def test_a_password_fits_its_own_hash_only() -> None:
    phc = crypto.hash_password("correct horse")
    assert phc.startswith("$argon2id$")
    assert crypto.password_fits("correct horse", phc)
    assert not crypto.password_fits("correct horsf", phc)
    assert crypto.hash_password("correct horse") != phc


@pytest.mark.parametrize("phc", ["", "nonsense", "$argon2id$v=19$m=1", "$2b$12$abcdefghijklmnopqrstuv"])
def test_a_damaged_hash_fits_no_password(phc: str) -> None:
    assert not crypto.password_fits("correct horse", phc)
