"""How texts are searched: folded, word by word, without the words that stand in every sentence."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MOST_WORDS = 16
LONGEST_WORD = 64
PREFIX_FROM = 3
INSIDE_FROM = 5
WORD = re.compile(r"\w+")
# Scripts without spaces between words: Thai to Myanmar, Khmer, kana, ideographs. Hangul has spaces.
UNSPACED = re.compile(
    r"[\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Endings that a word may have or not, and how long it must be to lose one. The rest is looked for as a beginning.
ENDINGS = (("en", 7), ("s", 5), ("e", 6), ("n", 6))
STOP_WORDS = frozenset(
    WORD.findall(
        """
    a about all also am an and any are as at be been but by can could did do does for from had has have he her him his
    how i if in into is it its just me my no not of on one or our out she should so some than that the their them then
    there these they this those to too up us was we were what when where which who whom whose why will with would you
    your please tell say said know find search show give let lets again ever
    ab aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist bitte da damit dann das dass
    dein deine dem den denn der des dich die dir doch du durch ein eine einem einen einer eines er es etwas euch euer
    fur gibt habe haben hat hatte hatten hier ich ihm ihn ihr ihre im in ins ist ja jede jeder jetzt kann kein keine
    konnen konnte man mein meine mich mir mit muss nach nein nicht noch nun nur ob oder ohne sag schon sehr sein seine
    sich sie sind so soll sollen sollte uber um und uns unser unsere unter vom von vor wann war waren warum was weil
    welche welcher welches wem wen wenn wer werden wie wieder wir wird wo wollen wurde wurden zu zum zur
    as au aux avec avez avons c ca ce ces cet cette comme d dans de des dit donc dont du elle elles en est et etait
    etaient etre eu fait faut il ils j je l la le les leur leurs lui m ma mais me meme mes moi mon n ne nos notre nous
    on ont ou par pas peut plait plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si
    son sont sur t ta te tes toi ton tous tout toute toutes tu un une vos votre vous y
    """
    )
)


@dataclass(frozen=True)
class Wanted:
    """A word of a query as it is looked for; `inside` where it may stand within a word of the text."""

    text: str
    inside: bool = False
    whole: bool = False


def fold(text: str) -> str:
    """Lower case, without accents and width, without what nobody sees: the same for what is stored and what is asked."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(
        character
        for character in decomposed
        if not unicodedata.combining(character) and unicodedata.category(character) != "Cf"
    )


def wanted(query: str) -> tuple[Wanted, ...]:
    """The words of a query that say something, each once, at most MOST_WORDS; all of its words when none does."""
    words = list(dict.fromkeys(WORD.findall(fold(query))))
    telling = [word for word in words if word not in STOP_WORDS and (len(word) > 1 or not word.isascii())]
    found: dict[str, Wanted] = {}
    for word in telling or words:
        if len(found) >= MOST_WORDS:
            break
        for each in _looked_for(word[:LONGEST_WORD]):
            found.setdefault(each.text, each)
    return tuple(found.values())[:MOST_WORDS]


def matches(wanted: tuple[Wanted, ...], folded: str) -> int:
    """How many of the wanted words a folded text has."""
    words = set(WORD.findall(folded))
    return sum(_stands_in(each, folded, words) for each in wanted)


def is_of(name: str | None, speaker: str, actor: str) -> bool:
    """True when `name` is part of the speaker's name, or the id of the actor (users/ada); also without a name."""
    asked = fold(name or "").strip().removeprefix("@").strip('"')
    if not asked:
        return True
    known = fold(actor)
    return asked in fold(speaker) or known == asked or known.endswith(f"/{asked}")


def _looked_for(word: str) -> list[Wanted]:
    found = []
    at = 0
    for run in UNSPACED.finditer(word):
        found += _spaced(word[at : run.start()])
        found += [Wanted(pair, inside=True) for pair in _pairs(run[0])]
        at = run.end()
    return found + _spaced(word[at:])


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _spaced(word: str) -> list[Wanted]:
    if not word:
        return []
    stem = next((word.removesuffix(end) for end, least in ENDINGS if len(word) >= least and word.endswith(end)), word)
    return [Wanted(stem, inside=len(stem) >= INSIDE_FROM, whole=len(stem) < PREFIX_FROM)]


def _stands_in(each: Wanted, folded: str, words: set[str]) -> bool:
    if each.inside:
        return each.text in folded
    if each.whole:
        return each.text in words
    return any(word.startswith(each.text) for word in words)
