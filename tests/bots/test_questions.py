from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st

from app.bots import form, store
from app.bots.questions import tree
from app.bots.questions.tree import Wrong
from app.bots.review import decide, edit, version
from app.bots.review.version import effective
from app.infra.errors import BadInput
from tests.bots.conftest import bot
from tests.bots.review.conftest import actor, again, made, who

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "first-questions.json"


def answer(id: str = "a", next: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"id": id, "text": f"Answer {id}", "next": next} | extra


def question(id: str = "q", *answers: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"id": id, "text": f"Question {id}?", "answers": list(answers) or [answer()]} | extra


def questions(*asked: dict[str, Any], start: Any = "q") -> dict[str, Any]:
    return {"start": start, "questions": list(asked) or [question()]}


def test_the_example_of_the_documentation_is_taken_as_it_stands() -> None:
    written = json.loads(EXAMPLE.read_text())
    taken = tree.checked(written)
    assert taken == written
    assert [each.id for each in tree.by_id(taken).values()] == ["boat", "length"]


def test_nothing_is_no_questions() -> None:
    assert form.read({"onboarding": None}) == {"onboarding": None}
    assert tree.first(None) is None
    assert tree.by_id(None) == {}


def test_what_is_kept_has_one_form() -> None:
    given = {
        "start": " e\u0301t\u00e9 ",
        "questions": [
            {
                "id": "\u00e9te\u0301",
                "text": "  Where?\r\nAnd when? ",
                "answers": [{"id": "x", "text": " Here "}, {"id": "y", "type": "free_text"}],
            }
        ],
    }
    answers = [{"id": "x", "text": "Here", "next": None}, {"id": "y", "text": "", "next": None, "type": "free_text"}]
    assert tree.checked(given) == {
        "start": "été",
        "questions": [{"id": "été", "text": "Where?\nAnd when?", "answers": answers}],
    }
    assert tree.checked(tree.checked(given)) == tree.checked(given)


def test_a_question_may_be_reached_on_two_ways_and_stands_beside_own_words() -> None:
    diamond = questions(
        question("q", answer("a", "left"), answer("b", "right"), answer("own", None, type="free_text")),
        question("left", answer("a", "end")),
        question("right", answer("a", "end")),
        question("end"),
    )
    asked = tree.by_id(tree.checked(diamond))["q"]
    assert [each.id for each in asked.choices] == ["a", "b"]
    assert asked.own_words is not None
    assert asked.own_words.id == "own"


WRONG: list[tuple[Any, str]] = [
    ("text", "an object with a start"),
    ([], "an object with a start"),
    ({}, "an object with a start"),
    ({"start": "q"}, "an object with a start"),
    (questions() | {"more": 1}, "an object with a start"),
    (questions() | {"questions": []}, "1 to 15"),
    (questions() | {"questions": {"q": 1}}, "1 to 15"),
    (questions(*[question(f"q{number}", answer("a", f"q{number + 1}" if number < 15 else None)) for number in range(16)],
               start="q0"), "1 to 15"),
    (questions("q"), "question 1 must be"),  # type: ignore[arg-type]
    (questions(question("q", answer("a", "r")), {"id": "r", "text": "R?"}), "question 2 must be"),
    (questions(question() | {"hint": "x"}), "question 1 must be"),
    (questions(question(""), start=""), "id of first question 1"),
    (questions(question("x" * 65), start="x" * 65), "id of first question 1"),
    (questions(question("a\nb"), start="a\nb"), "id of first question 1"),
    (questions(question(7), start=7), "id of first question 1"),  # type: ignore[arg-type]
    (questions(question("q"), question("q")), 'have the id "q"'),
    (questions(question("e\u0301"), question("é"), start="é"), 'have the id "é"'),
    (questions(start="r"), "The start is"),
    (questions(start=None), "The start is"),
    (questions(start=["q"]), "The start is"),
    (questions(question(text="")), '"q" has 1 to 1000'),
    (questions(question(text=" \n ")), '"q" has 1 to 1000'),
    (questions(question(text="x" * 1001)), '"q" has 1 to 1000'),
    (questions(question(text="a\x07b")), '"q" has 1 to 1000'),
    (questions(question(text=5)), '"q" has 1 to 1000'),
    (questions(question(answers=[])), '"q" has 1 to 4 answers'),
    (questions(question(answers=[answer(id) for id in "abcde"])), '"q" has 1 to 4 answers'),
    (questions(question(answers={"a": 1})), '"q" has 1 to 4 answers'),
    (questions(question(answers=["a"])), 'Answer 1 to the question "q" must be'),
    (questions(question("q", answer() | {"points": 3})), 'Answer 1 to the question "q" must be'),
    (questions(question("q", answer(), answer(""))), 'id of answer 2 to the question "q"'),
    (questions(question("q", answer("x" * 65))), 'id of answer 1 to the question "q"'),
    (questions(question("q", answer("a"), answer("A"))), '"q" have the same id'),
    (questions(question("q", answer(text=""))), 'text of answer 1 to the question "q"'),
    (questions(question("q", answer(text="a\nb"))), 'text of answer 1 to the question "q"'),
    (questions(question("q", answer(text="x" * 201))), 'text of answer 1 to the question "q"'),
    (questions(question("q", answer(text="x" * 201, type="free_text"))), 'text of answer 1 to the question "q"'),
    (questions(question("q", answer(type="choice"))), '"q" has a type other'),
    (questions(question("q", answer(type=[]))), '"q" has a type other'),
    (questions(question("q", answer("a", type="free_text"), answer("b", type="free_text"))), '"q" has more than one'),
    (questions(question("q", answer(next="r"))), 'to the question "q" leads to a question that is not there'),
    (questions(question("q", answer(next=""))), 'to the question "q" leads to a question that is not there'),
    (questions(question("q", answer(next=7))), 'to the question "q" leads to a question that is not there'),
    (questions(question("q", answer(next="q"))), '"q" leads back to itself'),
    (questions(question("q", answer("a", "r")), question("r", answer("a", "s")), question("s", answer("a", "r"))),
     '"r" leads back to itself'),
    (questions(question("q"), question("island")), 'No answer leads to the question "island"'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "sentence"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_is_wrong_is_told_with_the_question_that_is(value: Any, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        form.read({"onboarding": value})
    assert sentence in error.value.fields["onboarding"]
    assert error.value.fields["onboarding"].endswith(".")


IDS = [f"q{number}" for number in range(8)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Questions that lead anywhere; often onwards, so that many of them are fine."""
    ids = IDS[: draw(st.integers(1, 8))]
    asked = []
    for number, id in enumerate(ids):
        onwards = st.sampled_from([*ids[number + 1 :], None])
        anywhere = st.sampled_from([*ids, None, "nowhere"])
        follows = draw(st.lists(st.one_of(onwards, onwards, onwards, anywhere), min_size=1, max_size=4))
        asked.append(question(id, *[answer(str(place), next) for place, next in enumerate(follows)]))
    return questions(*draw(st.permutations(asked)), start=draw(st.sampled_from([ids[0], ids[0], *ids])))


def comes_to_an_end(value: dict[str, Any]) -> bool:
    """Says independently whether everything leads somewhere, ends, and can be reached (in order of Kahn)."""
    follows = {each["id"]: {one["next"] for one in each["answers"]} - {None} for each in value["questions"]}
    if any(id not in follows for ids in follows.values() for id in ids):
        return False
    entered = {id: sum(id in ids for ids in follows.values()) for id in follows}
    if [id for id, count in entered.items() if not count] != [value["start"]]:
        return False
    ready, done = deque([value["start"]]), 0
    while ready:
        done += 1
        for id in follows[ready.popleft()]:
            entered[id] -= 1
            if not entered[id]:
                ready.append(id)
    return done == len(follows)


@given(graphs())
def test_exactly_what_ends_and_can_be_reached_is_taken(value: dict[str, Any]) -> None:
    try:
        taken = tree.checked(value)
    except Wrong:
        taken = None
    assert taken == (value if comes_to_an_end(value) else None)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["start", "questions", "id", "text", "answers", "next", "type"]), inner)
    ),
    max_leaves=12,
)


@given(JUNK, JUNK)
def test_whatever_is_sent_is_taken_or_told_in_a_sentence(whole: Any, part: Any) -> None:
    places = (questions(part), questions(question(answers=[part])), questions(question("q", answer(next=part))))
    for value in (whole, *places):
        refused = {}
        try:
            form.read({"onboarding": value})
        except BadInput as error:
            refused = error.fields
        assert all(sentence.endswith(".") for sentence in refused.values())


def test_they_are_checked_on_every_way_in(app: Flask) -> None:
    circle = questions(question("q", answer(next="q")))
    with pytest.raises(BadInput):
        bot(onboarding=circle)
    kept = bot(onboarding=questions())
    assert kept.onboarding == questions()
    with pytest.raises(BadInput):
        store.update(kept.id, {"onboarding": circle})
    live = made("muse", by="carol", onboarding=questions())
    for uid in ("bob", "carol"):
        with pytest.raises(BadInput):
            edit.change(who(uid), live, {"onboarding": circle})
    assert again(live).onboarding == questions()


def test_a_change_waits_for_its_review_and_owner_and_tester_meet_it(app: Flask) -> None:
    live = made(by="carol", onboarding=questions())
    other = questions(question("q", text="Other?"))
    waits = edit.change(who("bob"), live, {"onboarding": other})
    assert waits.pending == {"onboarding": other}
    assert decide.changed_fields(waits) == ["onboarding"]
    assert version.target(waits)["onboarding"] == other
    assert effective(waits, actor("bob")).bot.onboarding == other
    assert effective(waits, actor("ada")).bot.onboarding == questions()
    tested = decide.test(who("carol"), waits)
    assert effective(tested, actor("carol")).bot.onboarding == other
    assert decide.approve(who("carol"), tested).onboarding == other


def test_taking_the_questions_away_is_not_lost_in_a_review(app: Flask) -> None:
    live = made(by="carol", onboarding=questions())
    waits = edit.change(who("bob"), live, {"onboarding": None})
    assert waits.pending == {"onboarding": None}
    assert waits.onboarding == questions()
    assert effective(waits, actor("bob")).bot.onboarding is None
    assert decide.approve(who("carol"), waits).onboarding is None


def test_sending_them_back_unchanged_changes_nothing(app: Flask) -> None:
    live = made(by="carol", onboarding=questions())
    assert edit.change(who("bob"), live, {"onboarding": questions()}).revision == live.revision
