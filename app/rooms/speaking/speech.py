"""One answer while it is made: its pieces are written and sent as soon as they are complete and long enough awaited.

Only the text of the last model call is the answer. What an earlier call says before it calls a tool is said only when
somebody has waited that long for it, stays then, and is said to its end; nothing is said twice. What stands in the room
is never taken back: where the final answer turns out to be another, it follows as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.agent.events import AgentEvent, ModelAnswered, ModelAsked, ToolFinished, ToolStarted
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.i18n import say
from app.llm.base import ReasoningDelta, TextDelta
from app.rooms import deliver, parts
from app.rooms.deliver import Sent
from app.rooms.speaking import links
from app.rooms.speaking.links import Known
from app.rooms.speaking.pieces import SENTENCE_SECONDS, sayable
from app.rooms.thinking.question import Question
from app.settings import store

# How long the pieces must be, one after the other: what follows waits longer, and enough of the parts that an answer may
# have are left for the rest of it, so that it never has to be cut because of how it began.
LEAST = (0, 0, 0, 600, 4000)
THINKING = say("I am still working on this …")


class Unsaid(Exception):
    """Nothing more can be said to this room now: another worker has it, or it is gone."""

    def __init__(self, sent: Sent) -> None:
        super().__init__(sent.reason)
        self.sent = sent


@dataclass
class Speech:
    """What was said of an answer, and what of it waits. `prefix` stands before the first piece."""

    question: Question
    turn_id: int | None
    prefix: str
    renew: Callable[[], bool]
    known: Known
    earlier: list[str] = field(default_factory=list)
    text: str = ""
    at: int = 0
    pieces: int = 0
    is_quiet: bool = False
    _begun: float = field(default_factory=clock.monotonic)
    _spoke: float = 0.0
    _is_busy: bool = False
    _told: bool = False
    _sends_at: float = 0.0

    def __post_init__(self) -> None:
        values = store.several("stream_answers", "stream_after_seconds")
        self._after = float(values["stream_after_seconds"])
        self.is_quiet = not values["stream_answers"]

    @property
    def wait(self) -> float:
        """Seconds in which the server asked to be sent nothing."""
        return max(0.0, self._sends_at - clock.monotonic()) if self._sends_at else 0.0

    def take(self, event: AgentEvent) -> None:
        """Follows the loop, and says what may be said now. Raises Unsaid."""
        if isinstance(event, ModelAsked):
            self.text, self.at = "", 0
        elif isinstance(event, TextDelta):
            self.text += event.text
        elif isinstance(event, ReasoningDelta | ToolStarted):
            self._is_busy = True
        elif isinstance(event, ToolFinished):
            self.known.learn([event.text])
        elif isinstance(event, ModelAnswered) and event.calls:
            self._end_of_call(event.text)
        if not self.is_quiet and clock.monotonic() - self._begun >= self._after:
            self._look()

    def rest(self, text: str) -> str:
        """What of the final answer is still to be said, as it may be shown."""
        at = _after(text, self.text[: self.at])
        return links.plain(text if at is None else text[at:], self.known)

    def whole(self, text: str) -> str:
        """All that the room reads of the answer: what was said before the last call, too."""
        said = self.text[: self.at]
        replaced = [said] if _after(text, said) is None else []
        return "\n\n".join(each.strip() for each in [*self.earlier, *replaced, text] if each.strip())

    def _look(self) -> None:
        now = clock.monotonic()
        limit = self.question.place.platform.max_message
        waiting = self.text[self.at : self.at + limit]
        if self.pieces < parts.MOST_PIECES:
            since = self._spoke or self._begun + self._after - SENTENCE_SECONDS
            length = sayable(waiting, waited=now - since)
            if length >= max(1, min(LEAST[self.pieces], limit // 2)):
                self._say(waiting[:length])
                return
        if self._is_busy and not self._told and not self.pieces and not waiting.strip():
            self._told = True
            language = self.question.place.language
            if parts.notify(self.question.answer, self.question.place, "thinking", THINKING.text(language)):
                self._send()

    def _end_of_call(self, text: str) -> None:
        """A call follows: what was begun of this text is said to its end, and the rest of it was no answer."""
        if self.at:
            at = _after(text, self.text[: self.at])
            self.earlier.append(text)
            self._say(text if at is None else text[at:])
        self.text, self.at = "", 0

    def _say(self, text: str) -> None:
        if not text.strip():
            return
        shown = links.plain(text, self.known)
        answer, before = self.question.answer, self.pieces
        try:
            made = parts.add(
                answer,
                self.question.place,
                parts.prefixed(shown, "" if self.pieces else self.prefix),
                turn_id=self.turn_id,
            )
            if not made:
                raise Unsaid(Sent("lost", Reason.INTERRUPTED))
        finally:
            # It counts as said as soon as it is written: whatever ends this turn now, it will be sent.
            self.pieces = parts.standing(answer)
            self.at += len(text) if self.pieces > before else 0
        self._spoke = clock.monotonic()
        self._send()

    def _send(self) -> None:
        stopped = deliver.flush(self.question.answer.id, self.question.place, renew=self.renew)
        if stopped is None:
            return
        if stopped.state == "later":
            # The server takes nothing now: what is still to come is written at the end, and sent when it does.
            self.is_quiet = True
            self._sends_at = clock.monotonic() + stopped.delay
            return
        raise Unsaid(stopped)


def _after(text: str, said: str) -> int | None:
    """Where in `text` goes on what was said of it, however either is spaced; None where it begins otherwise."""
    at = 0
    for character in said:
        if character.isspace():
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text) or text[at] != character:
            return None
        at += 1
    return at
