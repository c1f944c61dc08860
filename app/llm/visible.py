"""What of a streamed answer may be shown now, and what the whole of it says: text, reasoning, and calls written as text.

The rule for streaming: shown at once is what can't turn into something else. A few characters wait while they may be the
beginning of a marker, a code span waits for its end or the end of its line, and from the first marker of a call on
everything waits for the end of the answer, where it is read with all of it at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.llm.base import ChatRequest, ToolCall
from app.llm.toolcalls import harmony
from app.llm.toolcalls.notations import LONGEST_MARKER, MARKERS, NOTATIONS, STRAY_TOKENS, Notation, held_back
from app.llm.toolcalls.shown import LINE_HEAD, Shown
from app.llm.toolcalls.source import Source
from app.llm.toolcalls.whole import possible, whole_message

RUN_OR_LINE_END = re.compile(r"`+|\n")
QUOTED_LINE = re.compile(r"[ \t]{0,3}>")
FENCE_MAY_FOLLOW = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?\Z")
FENCE_END = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*\n?\Z")
RECIPIENT = re.compile(r">>>([\w.-]{1,64})\n")
RECIPIENT_BEGUN = re.compile(r">>>[\w.-]{0,64}\Z")
LONGEST_RUN = 100
# What may matter in a text: a marker, a run of backticks or tildes.
NOTABLE = re.compile(rf"{MARKERS.pattern}|`{{1,{LONGEST_RUN}}}|~{{1,{LONGEST_RUN}}}")
LONGEST_SPAN = 2000
LONGEST_INFO = 200
# Markers of calls that turned out to be none; a text with more of them is about markers.
MOST_FAILURES = 100
# A model that writes more calls than this at once has lost itself: the rest of its answer is dropped.
MOST_CALLS = 100
MOST_STRAYS = 8


@dataclass(frozen=True)
class Reading:
    """A whole answer. `text` is what a person sees; `rest` is the end of it that `feed` has not given yet.

    `retracted`: the template had opened the reasoning, its closing tag came alone, and `feed` had given some of it as
    text; `text` is right, what was streamed is not its beginning.
    """

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    rest: str = ""
    retracted: bool = False


def read(text: str, names: frozenset[str]) -> Reading:
    """Reads an answer that came in one piece."""
    reader = VisibleText(names)
    reader.feed(text)
    return reader.finish()


def names_of(request: ChatRequest) -> frozenset[str]:
    """The tools that an answer to `request` may name: those offered, and those called before in its messages."""
    called = {call.name for message in request.messages for call in message.tool_calls}
    return frozenset({tool.name for tool in request.tools} | called)


@dataclass(frozen=True)
class _Opening:
    """How reasoning began: its marker as written, what closes it ("" for channels), whether text stood before it."""

    marker: str
    closer: str
    in_line: bool
    is_preamble: bool = False


class VisibleText:
    """Reads one answer, piece by piece; `names` are the tools of this turn. Any split gives the same Reading."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._state: Callable[[], bool] = self._text
        self._source = Source("", names)
        self._at = 0
        self._undecided = ""
        self._waiting: list[str] | None = None
        self._final = False
        self._seen = Shown()
        self._given = 0
        self._thoughts: list[str] = []
        self._thought: list[str] = []
        self._preamble: list[str] = []
        self._opening = _Opening("", "", in_line=False)
        self._orphans = 1
        self._fence = ""
        self._fence_line = ""
        self._calls: list[ToolCall] = []
        self._failures = 0
        self._retracted = False

    @property
    def is_thinking(self) -> bool:
        """Whether reasoning is open: what comes now is not shown."""
        return self._state == self._think

    def feed(self, text: str) -> str:
        """Takes the next piece; gives the visible text that is now certain."""
        if self._waiting is not None:
            self._waiting.append(text)
            return ""
        self._scan(self._undecided + text)
        return self._take()

    def finish(self) -> Reading:
        """The answer is over. Nothing that was held back is lost."""
        self._final = True
        self._scan(self._undecided + "".join(self._waiting or ()))
        if self._seen.blank and not self._calls and self._preamble:
            self._seen.show("".join(self._preamble))
        self._seen.end()
        rest = self._take()
        text = "".join(self._seen.pieces)
        return Reading(text, "\n".join(self._thoughts), tuple(self._calls), rest, self._retracted)

    def _take(self) -> str:
        text = "".join(self._seen.pieces[self._given :])
        self._given = len(self._seen.pieces)
        return text

    def _scan(self, text: str) -> None:
        """Goes on as far as it can be told; each state moves `_at` and is False where it must wait for more."""
        self._source, self._at = Source(text, self._names), 0
        while self._at < len(self._source.text) and self._state():
            pass
        self._undecided = self._source.text[self._at :]

    def _show(self, end: int) -> bool:
        self._seen.show(self._source.text[self._at : end])
        self._at = end
        return True

    def _cut(self, end: int) -> bool:
        self._seen.cut()
        self._at = end
        return True

    def _wait_for_all(self) -> bool:
        self._waiting = []
        return False

    # Text

    def _text(self) -> bool:
        source, at = self._source, self._at
        if self._seen.blank:
            begin = source.skip(at)
            if begin > at:
                return self._show(begin)
            if (told := self._whole_message()) is not None or (told := self._stripped_channels()) is not None:
                return told
        found = NOTABLE.search(source.low, at)
        if found is None:
            keep = 0 if self._final else held_back(source.low[max(at, len(source.low) - LONGEST_MARKER) :])
            self._show(len(source.text) - keep)
            return False
        if found.start() > at:
            self._show(found.start())
        if found.group()[0] in "`~":
            return self._code(found.group(), found.end())
        notation = NOTATIONS[found.group()]
        if QUOTED_LINE.match(self._seen.line):
            return self._show(found.end())
        return self._readers[notation.kind](self, notation, found.end())

    def _whole_message(self) -> bool | None:
        """Takes calls that are the whole message; None when this message is none of that kind."""
        told = possible(self._source, self._at)
        if told is False:
            return None
        if not self._final:
            return self._wait_for_all() if told else False
        calls = whole_message(self._source, self._at, self._before_strays())
        if calls is None:
            return None
        self._calls += calls
        return self._cut(len(self._source.text))

    def _stripped_channels(self) -> bool | None:
        """Takes apart a message whose channel tokens a server has dropped; None when this message is none of that kind."""
        told = harmony.maybe_stripped(self._source, self._at)
        if told is False:
            return None
        if not self._final:
            return self._wait_for_all() if told else False
        found = harmony.stripped(self._source, self._at)
        if found is None:
            return None
        self._thoughts += found.thoughts
        self._calls += found.calls
        return self._cut(found.end)

    def _before_strays(self) -> int:
        """Where the message ends, without the control tokens that leaked after it."""
        low = self._source.low.rstrip()
        for _ in range(MOST_STRAYS):
            stray = next((token for token in STRAY_TOKENS if low.endswith(token)), "")
            if not stray:
                break
            low = low.removesuffix(stray).rstrip()
        return len(low)

    # Code: what stands in it is an example, never a call

    def _code(self, run: str, end: int) -> bool:
        text = self._source.text
        if end == len(text) and len(run) < LONGEST_RUN and not self._final:
            return False
        if len(run) >= 3 and FENCE_MAY_FOLLOW.match(self._seen.line):
            line_end = text.find("\n", end, end + LONGEST_INFO) + 1
            if not line_end and not self._final and len(text) < end + LONGEST_INFO:
                return False
            if run[0] == "~" or "`" not in text[end : line_end or end + LONGEST_INFO]:
                self._fence, self._fence_line, self._state = run, "", self._fenced
                return self._show(line_end or end)
        return self._show(end) if run[0] == "~" else self._span(run, end)

    def _span(self, run: str, end: int) -> bool:
        """Code within a line: shown as a whole when it ends in that line, else its backticks are only characters."""
        text = self._source.text
        limit = end + LONGEST_SPAN
        for found in RUN_OR_LINE_END.finditer(text, end, limit):
            if found.end() == len(text) and not self._final and found.group() != "\n":
                return False
            if found.group() == run:
                return self._show(found.end())
            if found.group() == "\n":
                return self._show(end)
        return self._show(end) if self._final or len(text) >= limit else False

    def _fenced(self) -> bool:
        line_end = self._source.text.find("\n", self._at) + 1
        piece = self._source.text[self._at : line_end or len(self._source.text)]
        self._fence_line = (self._fence_line + piece)[:LINE_HEAD]
        self._show(self._at + len(piece))
        if line_end:
            closing = FENCE_END.match(self._fence_line)
            self._fence_line = ""
            if closing and closing[1].startswith(self._fence):
                self._state = self._text
        return True

    # Reasoning

    def _open(self, notation: Notation, end: int) -> bool:
        in_line = bool(self._seen.line.strip())
        if in_line and self._final and self._source.find(notation.closer, end) == len(self._source.text):
            return self._show(end)
        self._opening = _Opening(self._source.text[self._at : end], notation.closer, in_line=in_line)
        self._state = self._think
        return self._cut(end)

    def _think(self) -> bool:
        source, opening = self._source, self._opening
        ends = (opening.closer,) if opening.closer else harmony.ENDS
        end = source.first(ends, self._at)
        if end == len(source.text):
            return self._unfinished_thought()
        self._thought.append(source.text[self._at : end])
        self._end_thought()
        return self._cut(end + len(opening.closer))

    def _unfinished_thought(self) -> bool:
        text = self._source.text
        if not self._final:
            keep = min(len(text) - self._at, LONGEST_MARKER)
            self._thought.append(text[self._at : len(text) - keep])
            self._at = len(text) - keep
            return False
        self._thought.append(text[self._at :])
        if not self._opening.in_line:
            self._end_thought()
            return self._cut(len(text))
        # A tag in the middle of a line that is never closed was a word about tags: it and what follows are text.
        self._seen.uncut()
        self._seen.show(self._opening.marker)
        self._source, self._at = Source("".join(self._thought), self._names), 0
        self._thought, self._state = [], self._text
        return True

    def _end_thought(self) -> None:
        thought = "".join(self._thought)
        self._thoughts.append(thought)
        if self._opening.is_preamble:
            self._preamble.append(thought)
        # A block that opens another one inside leaves a closing tag over; what stands before that is reasoning too.
        nested = thought.count(self._opening.marker) if self._opening.closer else 0
        self._orphans, self._thought, self._state = nested, [], self._text

    def _close(self, notation: Notation, end: int) -> bool:
        """A closing tag without an opening one: the template had opened it, and all before was reasoning."""
        if self._orphans and (self._calls or not self._seen.blank):
            self._thoughts.append("".join(self._seen.pieces))
            self._retracted = self._retracted or self._given > 0
            self._seen, self._given, self._calls = Shown(), 0, []
        self._orphans = max(0, self._orphans - 1)
        return self._cut(end)

    def _channel(self, notation: Notation, end: int) -> bool:
        head = harmony.header(self._source, self._at)
        if head is None:
            may_come = not self._final and len(self._source.text) - self._at < harmony.LONGEST_HEADER
            return False if may_come else self._cut(end)
        if head.kind == "call":
            return self._call(notation, end)
        if head.kind == "thought":
            self._opening = _Opening("", "", in_line=False, is_preamble=head.is_preamble)
            self._state = self._think
        return self._cut(head.end)

    # Calls

    def _call(self, notation: Notation, end: int) -> bool:
        if not notation.token and not self._names:
            return self._show(end)
        if notation.marker == ">>>":
            return self._recipient(notation, end)
        return self._read(notation, end)

    def _recipient(self, notation: Notation, end: int) -> bool:
        named = RECIPIENT.match(self._source.text, self._at)
        if named is None and not self._final and RECIPIENT_BEGUN.match(self._source.text, self._at):
            return False
        if named is not None and named[1] == "all":
            return self._cut(named.end())
        known = named is not None and self._source.knows(named[1])
        return self._read(notation, end) if known else self._show(end)

    def _read(self, notation: Notation, end: int) -> bool:
        if not self._final:
            return self._wait_for_all()
        found = notation.read(self._source, self._at) if notation.read and self._failures < MOST_FAILURES else None
        if found is not None:
            self._calls += found.calls
            return self._cut(found.end if len(self._calls) < MOST_CALLS else len(self._source.text))
        self._failures += 1
        return self._cut(end) if notation.token else self._show(end)

    def _stray(self, notation: Notation, end: int) -> bool:
        # Where an opening tag was left in the text as an example, so is the closing one.
        spared = not notation.token and (self._failures or not self._names)
        return self._show(end) if spared else self._cut(end)

    _readers = {"call": _call, "opens": _open, "closes": _close, "stray": _stray, "channel": _channel}
