from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.sse import LONGEST_LINE, Event, LineTooLong, SseParser


def parsed(data: bytes, cuts: list[int] | None = None) -> list[Event]:
    parser = SseParser()
    events, begin = [], 0
    for cut in sorted({min(cut, len(data)) for cut in cuts or []} | {len(data)}):
        events += parser.feed(data[begin:cut])
        begin = cut
    return events + parser.finish()


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [Event("", "a"), Event("", "b")]),
        (b"data:a\r\n\r\ndata: b\r\n\r\n", [Event("", "a"), Event("", "b")]),
        (b"data: a\r\rdata: b\r\r", [Event("", "a"), Event("", "b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("", "a")]),
        (b": comment\n\n: ping\ndata: a\n\n", [Event("", "a")]),
        (b"event: error\ndata: a\ndata: b\n\n", [Event("error", "a\nb")]),
        (b"event: gone\n\ndata: a\n\n", [Event("", "a")]),
        (b"data: \n\ndata\n\n", [Event("", ""), Event("", "")]),
        (b"id: 1\nretry: 5\nnonsense\ndata:  two spaces\n\n", [Event("", " two spaces")]),
        (b"data: no empty line at the end", [Event("", "no empty line at the end")]),
        ("data: æ漢😀\n\n".encode(), [Event("", "æ漢😀")]),
        (b"data: \xff\xfe\n\n", [Event("", "\ufffd\ufffd")]),
        (b"", []),
    ],
)
def test_streams_become_events(data: bytes, events: list[Event]) -> None:
    assert parsed(data) == events


LINES = [b"data: a", b"data:b", b"data: \xe6\xbc\xa2", b"event: error", b": c", b"", b"", b"x: y"]
ENDS = [b"\n", b"\r\n", b"\r"]


@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(ENDS)), max_size=30),
    st.lists(st.integers(0, 300), max_size=40),
)
def test_every_cut_of_the_bytes_gives_the_same_events(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    data = b"".join(line + end for line, end in lines)
    assert parsed(data, cuts) == parsed(data) == parsed(data, list(range(len(data))))


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=40))
def test_any_bytes_are_survived(data: bytes, cuts: list[int]) -> None:
    assert parsed(data, cuts) == parsed(data)


def test_a_line_without_end_is_stopped() -> None:
    parser = SseParser()
    for _ in range(LONGEST_LINE // 1024):
        assert parser.feed(b"x" * 1024) == []
    with pytest.raises(LineTooLong):
        parser.feed(b"x")


def test_a_long_line_in_one_piece_is_stopped() -> None:
    with pytest.raises(LineTooLong):
        SseParser().feed(b"data: " + b"x" * LONGEST_LINE + b"\n\n")
