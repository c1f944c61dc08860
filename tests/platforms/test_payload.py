from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.platforms.base import LARGEST_ID, BadPayload, IncomingEvent
from app.platforms.nextcloud_talk.payload import MOST_PLACEHOLDERS, envelope, parse, room_title

ADA = {"type": "Person", "id": "users/ada", "name": "Ada Lovelace", "talkParticipantType": "3"}
ROOM = {"type": "Collection", "id": "r00mtok1", "name": "Harbour crew"}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def event(
    content: Any = None, *, kind: str = "Create", actor: Any = ADA, target: Any = ROOM, **thing: Any
) -> IncomingEvent:
    data = {
        "type": kind,
        "actor": actor,
        "object": {"type": "Note", "id": "7", "name": "message", "content": content} | thing,
    }
    return parse(encoded(data | {"target": target}))


def said(message: str, parameters: Any = (), **values: Any) -> IncomingEvent:
    return event(json.dumps({"message": message, "parameters": parameters}), **values)


def user(name: str, id: str = "bob") -> dict[str, str]:
    return {"type": "user", "id": id, "name": name, "mention-id": id}


def test_placeholders_are_filled_once_and_what_was_put_in_is_never_looked_at_again() -> None:
    found = said("{a} and {b} and {c}", {"a": user("{b}"), "b": user("Bob")})
    assert found.text == "{b} and Bob and {c}"
    assert [(spot.start, spot.end, spot.name) for spot in found.named] == [(0, 3, "{b}"), (8, 11, "Bob")]


def test_positions_count_code_points_of_the_filled_text() -> None:
    found = said("😀 {a}{a} 😀", {"a": user("Åsa 😀")})
    assert found.text == "😀 Åsa 😀Åsa 😀 😀"
    assert [found.text[spot.start : spot.end] for spot in found.named] == ["Åsa 😀", "Åsa 😀"]


@pytest.mark.parametrize("parameters", [[], {}, None, "x", 5, {"a": "text"}, {"a": {}}, {"a": None}, {"a": [1]}])
def test_a_placeholder_without_a_usable_parameter_stays_as_it_is(parameters: Any) -> None:
    assert said("hi {a} {} {{a}} {a", parameters).text == "hi {a} {} {{a}} {a"


def test_a_parameter_without_a_name_shows_its_id() -> None:
    assert said("hi {a}", {"a": {"type": "user", "id": 12}}).text == "hi 12"


def test_a_message_of_very_many_placeholders_can_not_be_abused_to_fill_the_memory() -> None:
    found = said("{a}" * (MOST_PLACEHOLDERS + 100), {"a": user("n" * 10_000)})
    assert len(found.named) == MOST_PLACEHOLDERS
    assert found.text.endswith("{a}" * 100)
    assert len(found.text) < 6_000_000


@pytest.mark.parametrize(
    "content", ["@kelp plain text, not JSON", '{"message": 5}', "[1, 2]", "123", "null", "{", "[" * 100_000]
)
def test_a_content_that_is_no_message_object_is_the_text_itself(content: str) -> None:
    assert event(content).text == content


@pytest.mark.parametrize("content", [None, 5, ["x"], True, {"text": "x"}])
def test_a_content_of_another_type_is_an_empty_text(content: Any) -> None:
    assert event(content).text == ""


def test_a_content_that_is_an_object_already_is_read() -> None:
    assert event({"message": "hi {a}", "parameters": {"a": user("Bob")}}).text == "hi Bob"


def test_a_file_with_a_caption_is_a_message_with_the_file() -> None:
    sheet = {
        "type": "file",
        "id": 4711,
        "name": "plan.pdf",
        "size": 20480,
        "mimetype": "Application/PDF",
        "hide-download": "yes",
    }
    for name in ("", "message"):
        found = said("@atlas what is this?", {"actor": user("Ada", "ada"), "file": sheet}, kind="Activity", name=name)
        (file,) = found.files
        assert (found.kind, found.text, found.words) == ("message", "@atlas what is this?", "@atlas what is this?")
        assert (file.id, file.name, file.mimetype, file.size) == ("4711", "plan.pdf", "application/pdf", 20480)
        assert (file.kind, file.hide_download) == ("document", True)


def test_a_file_alone_has_no_words_of_its_own() -> None:
    found = said(
        "{file}",
        {"file": {"type": "file", "id": "1", "name": "a.mp3", "mimetype": "audio/mpeg"}},
        kind="Activity",
        name="",
    )
    assert (found.text, found.words, found.files[0].kind, found.files[0].size) == ("a.mp3", "", "audio", None)


@pytest.mark.parametrize("size", [-1, "x", "1e3", True, None, 2**70, "9" * 5000, 1.5, []])
def test_a_size_that_is_no_size_is_untold(size: Any) -> None:
    found = said("{file}", {"file": {"type": "file", "id": "1", "name": "a", "size": size}}, kind="Activity", name="")
    assert found.files[0].size is None


@pytest.mark.parametrize(
    "name", ["user_added", "message_deleted", "some_future_event", "history_cleared", "thread_created"]
)
def test_an_activity_with_a_name_is_an_event_of_the_room_and_not_a_message(name: str) -> None:
    found = said("{actor} did @atlas", {"actor": user("Ada")}, kind="Activity", name=name)
    assert (found.kind, found.name, found.text) == ("system", name, "Ada did @atlas")


@pytest.mark.parametrize(
    ("id", "kind", "uid"),
    [
        ("users/ada", "users", "ada"),
        ("users/ada/guests/eve", "users", "ada/guests/eve"),
        ("users/Åsa Berg", "users", "Åsa Berg"),
        ("users/A\u030asa", "users", "Åsa"),
        ("guests/7d0c", "guests", "7d0c"),
        ("federated_users/ada@https://host/ada", "federated_users", "ada@https://host/ada"),
        ("emails/x", "emails", "x"),
        ("bots/bot-1", "bots", "bot-1"),
        ("bridged/x", "bridged", "x"),
        ("deleted_users/deleted_users", "deleted_users", "deleted_users"),
    ],
)
def test_an_actor_is_split_at_the_first_slash_only(id: str, kind: str, uid: str) -> None:
    found = said("x", actor=ADA | {"id": id}).actor
    assert (found.kind, found.id) == (kind, uid)


@pytest.mark.parametrize(
    "id", ["", "ada", "Users/ada", "users/", "users/ad\x00a", "users/ad\ud800a", "users/" + "a" * 191, 5, None, [], {}]
)
def test_an_actor_that_could_be_taken_for_another_one_is_nobody(id: Any) -> None:
    assert said("x", actor=ADA | {"id": id}).actor.kind == "unknown"


@pytest.mark.parametrize(
    ("role", "moderator"),
    [
        ("1", True),
        ("2", True),
        ("6", True),
        (1, True),
        ("3", False),
        (4, False),
        ("5", False),
        (None, None),
        ("", None),
        (True, None),
    ],
)
def test_owners_moderators_and_guest_moderators_are_moderators(role: Any, moderator: bool | None) -> None:
    assert said("x", actor=ADA | {"talkParticipantType": role}).actor.moderator is moderator


def test_join_and_leave_name_the_room_in_their_object() -> None:
    for kind, want in (("Join", "join"), ("Leave", "leave")):
        data = {"type": kind, "actor": {"type": "Application", "id": "bots/bot-1", "name": "Talk AI"}, "object": ROOM}
        found = parse(encoded(data))
        assert (found.kind, found.room, found.room_name, found.object_id) == (want, "r00mtok1", "Harbour crew", None)


def test_a_reaction_and_its_removal_name_the_message_and_the_emoji() -> None:
    like = {
        "type": "Like",
        "actor": ADA,
        "object": {"type": "Note", "id": "3", "name": "", "content": "{}"},
        "content": "👍",
    }
    liked = parse(encoded(like | {"target": ROOM}))
    undone = parse(encoded({"type": "Undo", "actor": ADA, "object": like, "target": ROOM}))
    assert (liked.kind, liked.object_id, liked.reaction, liked.text) == ("reaction", "3", "👍", "")
    assert (undone.kind, undone.object_id, undone.reaction) == ("unreaction", "3", "👍")


def test_an_undo_of_something_else_is_unknown() -> None:
    assert parse(encoded({"type": "Undo", "actor": ADA, "object": {"type": "Note"}, "target": ROOM})).kind == "unknown"


def test_a_quoted_parent_is_rendered_with_its_own_parameters() -> None:
    quoted = {
        "type": "Note",
        "id": 1490,
        "content": json.dumps({"message": "hi {a}", "parameters": {"a": user("Bob")}}),
    }
    found = said(
        "and then?", inReplyTo={"type": "Note", "actor": {"id": "bots/bot-1", "name": "Bot"}, "object": quoted}
    )
    assert found.parent is not None
    assert (found.parent.message_id, found.parent.actor.key, found.parent.text) == (1490, "bots/bot-1", "hi Bob")


@pytest.mark.parametrize(
    ("id", "want"),
    [("17", 17), (17, 17), ("x", None), (None, None), ("0", None), ("9" * 30, None), (LARGEST_ID, LARGEST_ID)],
)
def test_a_message_id_is_a_number_or_nothing(id: Any, want: int | None) -> None:
    assert said("x", id=id).message_id == want


@pytest.mark.parametrize(
    "token", ["", "../etc", "a/b", "room token", "å", "a" * 65, 5, None, "r00mtok1\x00", "\ud800r00mtok1", "r00mtok1\n"]
)
def test_the_token_of_a_room_can_not_be_abused_to_become_anothers_or_a_path(token: Any) -> None:
    found = said("@atlas hi", target=ROOM | {"id": token})
    assert (found.kind, found.room, found.text) == ("unknown", "", "")


def test_null_members_and_missing_members_make_an_unknown_event() -> None:
    for data in (
        {"type": "Create", "actor": None, "object": {"id": None}, "target": None},
        {},
        {"type": 5},
        {"type": "Update"},
    ):
        assert parse(encoded(data)).kind == "unknown"


def test_an_unknown_type_keeps_its_name() -> None:
    assert parse(encoded({"type": "Announce", "target": ROOM})).name == "Announce"


@pytest.mark.parametrize(
    ("name", "title", "one_to_one"),
    [
        ('["ada","bob"]', "ada, bob", True),
        ('["ada"]', "ada", True),
        ('["a","b","c"]', "a, b, c", False),
        ("[draft] plans", "[draft] plans", False),
        ("[]", "[]", False),
        ("[1,2]", "[1,2]", False),
        ("[" * 100_000, "[" * 100_000, False),
        ("Note to self", "Note to self", False),
    ],
)
def test_the_name_of_a_one_to_one_room_is_readable(name: str, title: str, one_to_one: bool) -> None:
    assert room_title(name) == (title, one_to_one)


def test_nul_and_lone_surrogates_never_reach_the_database() -> None:
    body = (
        rb'{"type":"Create","actor":{"id":"users\/ada","name":"A\ud800\u0000da"},"object":{"id":"7\u0000","name":"mess\u0000age",'
        rb'"content":"{\"message\":\"a\\u0000\\udfff{x}\",\"parameters\":{\"x\":{\"name\":\"\\ud83dBob\"}}}"},'
        rb'"target":{"id":"r00mtok1","name":"R\ud800"}}'
    )
    found = parse(body)
    assert (found.actor.name, found.text, found.room_name, found.name) == ("A?da", "a??Bob", "R?", "message")
    assert [found.text[spot.start : spot.end] for spot in found.named] == ["?Bob"]


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert (
        parse(encoded({"type": "Create", "actor": ADA, "object": {"content": "\ud83d\ude00"}, "target": ROOM})).text
        == "😀"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"type":"Create",',
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe{}",
        '{"type":"Join"}'.encode("utf-16"),
        b'{"a":' * 200_000,
        b"[" * 1_000_000,
        b'{"id":' + b"9" * 5_000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
)
def test_a_body_that_is_no_json_object_is_a_bad_payload(body: bytes) -> None:
    with pytest.raises(BadPayload):
        parse(body)


def test_huge_numbers_are_no_ids() -> None:
    found = said("x", id=10**4000, actor=ADA | {"talkParticipantType": 10**4000}, threadId=10**4000)
    assert (found.object_id, found.actor.moderator, found.thread) == (None, None, None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(
        [
            "users/ada",
            "message",
            "",
            "{file}",
            "1",
            "Like",
            "r00mtok1",
            "bots/x",
            '{"message":"{a}","parameters":{"a":5}}',
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "name", "type", "content", "a", "size"]) | st.text(), inner, max_size=5
        )
    ),
    max_leaves=20,
)
notes = st.fixed_dictionaries(
    {},
    optional={
        "id": json_values,
        "name": json_values,
        "type": json_values,
        "threadId": json_values,
        "inReplyTo": json_values,
        "content": json_values
        | st.fixed_dictionaries({}, optional={"message": json_values, "parameters": json_values}).map(json.dumps),
    },
)
events = st.fixed_dictionaries(
    {"type": st.sampled_from(["Create", "Activity", "Like", "Undo", "Join", "Leave", "Other"]) | json_values},
    optional={
        "actor": json_values | notes,
        "object": notes | json_values,
        "target": notes | json_values,
        "content": json_values,
    },
)


@settings(max_examples=400, deadline=None)
@given(events)
def test_whatever_stands_in_an_event_it_is_understood_or_told_apart(data: Any) -> None:
    found = parse(json.dumps(data).encode())
    found.text.encode()
    found.actor.key.encode()
    assert len(found.room) <= 64
    assert len(found.actor.key) <= 255
    assert len(found.name) <= 64
    assert len(found.object_id or "") <= 64
    assert all(found.text[spot.start : spot.end] == spot.name for spot in found.named)
    assert found.message_id is None or found.message_id <= LARGEST_ID
    assert isinstance(found.words, str)


@settings(max_examples=300, deadline=None)
@given(events)
def test_the_envelope_tells_what_the_whole_event_does(data: Any) -> None:
    body = json.dumps(data).encode()
    told, event = envelope(body), parse(body)
    assert told == (event.kind, event.room, event.actor, event.object_id, event.name)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_the_envelope_of_no_json_object_is_a_bad_payload(body: bytes) -> None:
    with pytest.raises(BadPayload):
        envelope(body)


@settings(max_examples=300, deadline=None)
@given(st.binary() | st.text().map(str.encode) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise_anything_but_bad_payload(body: bytes) -> None:
    with contextlib.suppress(BadPayload):
        assert isinstance(parse(body), IncomingEvent)
