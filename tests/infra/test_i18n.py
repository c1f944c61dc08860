from __future__ import annotations

import gettext

import pytest

from app.infra import i18n
from app.infra.i18n import LANGUAGES, say


class Translations(gettext.NullTranslations):
    def __init__(self, sentences: dict[str, str]) -> None:
        super().__init__()
        self.sentences = sentences

    def gettext(self, message: str) -> str:
        return self.sentences.get(message, message)


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    sentences: dict[str, str] = {}
    monkeypatch.setattr(i18n, "catalog", lambda language: Translations(sentences if language == "de" else {}))
    return sentences


def test_a_sentence_is_english_until_somebody_reads_it_in_another_language(german: dict[str, str]) -> None:
    german["Hello {name}."] = "Hallo {name}."
    hello = say("Hello {name}.", name="Ada")
    assert str(hello) == "Hello Ada."
    assert hello.text("de") == "Hallo Ada."
    assert hello.text("fr") == "Hello Ada."


def test_a_sentence_in_a_sentence_goes_along(german: dict[str, str]) -> None:
    german["It failed: {reason}"] = "Es ging nicht: {reason}"
    german["no answer"] = "keine Antwort"
    assert say("It failed: {reason}", reason=say("no answer")).text("de") == "Es ging nicht: keine Antwort"


@pytest.mark.parametrize("slip", ["Hallo {nmae}.", "Hallo {}.", "Hallo {name", "Hallo {name:%%}."])
def test_a_slip_of_a_translator_shows_the_english(german: dict[str, str], slip: str) -> None:
    german["Hello {name}."] = slip
    assert say("Hello {name}.", name="Ada").text("de") == "Hello Ada."


def test_values_are_never_read_as_formats() -> None:
    assert str(say("You wrote {text}", text="{secret} %s {0}")) == "You wrote {secret} %s {0}"


@pytest.mark.parametrize("language", [*LANGUAGES, "xx", ""])
def test_every_language_shows_something(language: str) -> None:
    assert say("You may not do this.").text(language)
