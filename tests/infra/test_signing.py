from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra import signing

SECRET, RANDOM = "S" * 64, "R" * 64
# Known answers of the spec (nextcloud.md 9.1).
JOIN = "18f65b5d68a2e7408757150191f838938fc7e6bf6b86161efdc1b7bf19903f32"
MESSAGE = "b76cdbfbb5bed6b55c448bdc608bd028937eaa794e476c19163c2773aa662654"


def test_the_known_answers_come_out() -> None:
    assert signing.sign(SECRET, RANDOM, b'{"type":"Join"}') == JOIN
    assert signing.sign(SECRET, RANDOM, "Héllo 😀 /x".encode()) == MESSAGE


def test_upper_case_hex_is_taken() -> None:
    assert signing.valid(SECRET, RANDOM, b'{"type":"Join"}', JOIN.upper())


@pytest.mark.parametrize("body", [b'{"type": "Join"}', b'{"type":"Join"}\n', b""])
def test_one_other_byte_does_not_fit(body: bytes) -> None:
    assert not signing.valid(SECRET, RANDOM, body, JOIN)


@pytest.mark.parametrize("length", [0, 1, 31])
def test_a_short_random_text_fits_nothing_even_when_it_is_rightly_signed(length: int) -> None:
    random = "r" * length
    assert not signing.valid(SECRET, random, b"x", signing.sign(SECRET, random, b"x"))


def test_an_empty_secret_can_not_be_abused_to_sign() -> None:
    for known in ("", signing.NO_SECRET):
        assert not signing.valid("", RANDOM, b"x", signing.sign(known, RANDOM, b"x"))
        assert signing.valid_any((None, None), RANDOM, b"x", signing.sign(known, RANDOM, b"x")) is None


def test_the_secret_that_fits_is_told() -> None:
    for position, secret in enumerate(("new" * 20, "old" * 20)):
        made = signing.sign(secret, RANDOM, b"x")
        assert signing.valid_any(("new" * 20, "old" * 20), RANDOM, b"x", made) == position


def test_every_secret_is_tried_whether_it_fits_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = signing.sign

    def counted(secret: str, random: str, payload: bytes) -> str:
        tried.append(secret)
        return real(secret, random, payload)

    monkeypatch.setattr(signing, "sign", counted)
    for candidates in (("a" * 64, "b" * 64), ("a" * 64, None), (None, None)):
        for signature in (real("a" * 64, RANDOM, b"x"), "", "0" * 64):
            tried.clear()
            signing.valid_any(candidates, RANDOM, b"x", signature)
            assert len(tried) == 2


def test_fresh_random_texts_are_long_and_never_the_same() -> None:
    made = {signing.fresh_random() for _ in range(100)}
    assert len(made) == 100
    assert {len(each) for each in made} == {64}


@given(secret=st.text(), random=st.text(), body=st.binary(), signature=st.text())
def test_nothing_in_a_header_makes_it_raise(secret: str, random: str, body: bytes, signature: str) -> None:
    assert signing.valid(secret, random, body, signature) is False


@given(
    secret=st.text(min_size=1), random=st.text(alphabet=st.characters(max_codepoint=255), min_size=32), body=st.binary()
)
def test_what_was_signed_fits(secret: str, random: str, body: bytes) -> None:
    made = signing.sign(secret, random, body)
    assert made == made.lower()
    assert len(bytes.fromhex(made)) == hashlib.sha256().digest_size
    assert signing.valid(secret, random, body, made)
