"""The turn: history, prompt and tools go into the agent loop, and what the bot says comes out.

Each event of the loop renews the room's lane, is written into the trace, and counts its tokens; the wish to stop is
looked at by the loop itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.exc import SQLAlchemyError

from app.agent import budget, loop
from app.agent.events import Finished, ModelAsked, ToolFinished
from app.agent.turn import HARD_MODEL_CALLS, HARD_SECONDS, Limits, Turn
from app.conversations import cancel
from app.inbox import claim
from app.inbox.reasons import Reason
from app.infra.errors import ParleyError
from app.infra.i18n import say
from app.llm import endpoints
from app.llm.endpoints import Resolved
from app.rooms import parts, waiting
from app.rooms.deliver import Sent
from app.rooms.parts import Pause, Said, nothing
from app.rooms.speaking.links import Known
from app.rooms.speaking.speech import Speech, Unsaid
from app.rooms.split import closed
from app.rooms.thinking import memory
from app.rooms.thinking.question import Question
from app.rooms.thinking.steps import Steps
from app.settings import store as settings
from app.tools import registry
from app.tools.base import ToolContext
from app.traces import record
from app.traces.record import Recorder, Status

log = logging.getLogger(__name__)

ALWAYS = ("room_search_messages", "current_time")
WITH_FILES = ("attachment_analyze_image", "attachment_transcribe_audio")
TRANSCRIBE = "attachment_transcribe_audio"
SETTINGS = (
    *("max_model_calls", "max_tool_calls", "turn_seconds", "tool_result_chars"),
    *("conversation_context_tokens", "default_temperature"),
)
STATUSES: Mapping[str, Status] = {"error": "error", "empty": "error", "cancelled": "interrupted"}
BROKEN = say("Something went wrong on our side while I worked on this; it was recorded. Please ask again.")
NOTHING = say("I have no answer to this. Please ask again in other words.")
CUT = say("This answer is incomplete.")
INTERRUPTED = say("I was interrupted here, and can't go on with this answer. Please ask again.")

Renew = Callable[[], bool]


class LaneLost(Exception):
    """Another worker has taken the room: whatever this turn found may not be said."""


@dataclass
class Run:
    """One turn while it runs: whom it asks, its trace, and the (collection, node) pairs that its tools found."""

    question: Question
    trace: Recorder
    speech: Speech
    resolved: Resolved | None = None
    steps: Steps | None = None
    sources: list[tuple[str, str]] = field(default_factory=list)

    @property
    def figures(self) -> Mapping[str, Any]:
        """What it has cost so far."""
        return {} if self.steps is None else self.steps.figures


def run(question: Question, *, renew: Renew, prefix: str = "") -> Said | Pause | Sent | None:
    """What the bot says at the end, a sentence of apology included, or that it can't begin yet; None when another worker
    has taken over.

    What takes long is said in pieces while it is made (rooms.speaking), the first after `prefix`; then only the rest is
    given here. Sent: nothing more can be said to this room. Raises SQLAlchemyError only: a database that is away for a
    moment costs another try, and no apology.
    """
    turn_id = _begin(question)
    known = Known(hosts=_hosts(question))
    turn = Run(question, Recorder(turn_id), Speech(question, turn_id, prefix, renew, known))
    try:
        finished = _think(turn, renew)
    except LaneLost:
        turn.trace.finish("interrupted", ended="lane_lost", **turn.figures)
        return None
    except Unsaid as stopped:
        turn.trace.finish("interrupted", ended=stopped.sent.state, detail=stopped.sent.detail, **turn.figures)
        return None if stopped.sent.state == "lost" else stopped.sent
    except SQLAlchemyError as error:
        turn.trace.finish("interrupted", detail=type(error).__name__, **turn.figures)
        raise
    except ParleyError as error:
        error_class = str(getattr(error, "error_class", error.code))
        finished = Finished("", "error", notice=error.sentence, error_class=error_class, detail=error.detail)
    except Exception as error:
        log.exception("the turn %s failed", turn.trace.turn_id)
        finished = Finished("", "error", notice=BROKEN, error_class="error", detail=type(error).__name__)
    put_off = None if turn.speech.pieces else waiting.put_off(question, finished, turn.resolved)
    if isinstance(put_off, Pause):
        _close(turn, finished, status="waiting")
        return put_off
    said = put_off or _said(turn, finished)
    turn.trace.event("answer", payload={"text": said.text, "reason": said.reason.value})
    _close(turn, finished)
    return said


def _begin(question: Question) -> int | None:
    bot, delivery = question.bot, question.delivery
    turn_id = record.start(
        delivery.instance_id,
        delivery.id,
        bot_id=bot.id,
        bot_name=bot.name,
        room=delivery.room,
        actor=question.event.actor.key,
    )
    parts.begin(question.answer, turn_id)
    return turn_id


def _think(turn: Run, renew: Renew) -> Finished:
    question = turn.question
    turn.trace.event("user_message", payload={"text": question.words})
    for kind, milliseconds in waiting.waited(question):
        turn.trace.event("waited", name=kind, milliseconds=milliseconds)
    resolved = endpoints.resolve(question.bot.model, language=question.place.language, bot=question.bot.name)
    turn.resolved = resolved
    turn.steps = Steps(question, resolved, turn.trace)
    memory.remember(question)
    given = _turn(question, resolved)
    turn.speech.known.learn(message.content for message in given.messages if isinstance(message.content, str))
    with closing(loop.run(given)) as events:  # type: ignore[type-var]
        for event in events:
            first = isinstance(event, ModelAsked) and event.number == 1
            if not renew() or (first and not claim.running(question.delivery)):
                raise LaneLost
            turn.steps.note(event)
            turn.speech.take(event)
            if isinstance(event, ToolFinished):
                turn.sources += event.sources
            if isinstance(event, Finished):
                return event
    raise RuntimeError("the loop ended without saying how")


def _turn(question: Question, resolved: Resolved) -> Turn:
    """Everything the loop is given. Raises ContextTooLong."""
    bot, values = question.bot, settings.several(*SETTINGS)
    context = _context(question)
    wanted = (*ALWAYS, *(WITH_FILES if question.event.files else ()), *question.tools)
    tools = registry.loadout(dict.fromkeys(wanted), context)
    messages = budget.fit(
        question.system(has_tools=bool(tools)),
        [*memory.messages(question), *question.before()],
        question.newest(),
        tools,
        budget=values["conversation_context_tokens"],
        window=resolved.context_tokens,
    )
    return Turn(
        model=resolved.chat,
        model_name=resolved.model,
        messages=messages,
        tools=tools,
        context=context,
        limits=_limits(bot.limits, values),
        first_tool=TRANSCRIBE if question.is_one_audio else None,
        temperature=values["default_temperature"] if bot.temperature is None else bot.temperature,
        max_tokens=_least(resolved.max_tokens, bot.limits.get("output_tokens")),
        cancelled=cancel.watch(question.delivery.id),
    )


def _context(question: Question) -> ToolContext:
    place = question.place
    return ToolContext(
        instance=place.instance.name,
        room=place.room.token,
        person=question.event.actor.key,
        timezone=place.instance.timezone,
        language=place.language,
        attachments=question.attachments,
        history=memory.RoomMemory(question),
    )


def _limits(own: dict[str, Any], values: dict[str, Any]) -> Limits:
    """The settings, and what the bot lowers of them, within the hard bounds (product.md K7)."""
    return Limits(
        model_calls=min(own.get("model_calls", HARD_MODEL_CALLS), values["max_model_calls"], HARD_MODEL_CALLS),
        tool_calls=min(own.get("tool_calls", values["max_tool_calls"]), values["max_tool_calls"]),
        seconds=min(own.get("seconds", HARD_SECONDS), float(values["turn_seconds"]), HARD_SECONDS),
        result_chars=values["tool_result_chars"],
    )


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _said(turn: Run, finished: Finished) -> Said:
    """What is said, marked when it is incomplete, and what of it is remembered; an apology is not."""
    language, speech = turn.question.place.language, turn.speech
    text, whole = speech.rest(finished.text), speech.whole(finished.text)
    notice = "" if finished.notice is None else finished.notice.text(language)
    sources = list(dict.fromkeys(turn.sources))
    incomplete = finished.incomplete or (bool(whole.strip()) and not finished.text.strip())
    remembered = partial(memory.remember_answer, turn.question, whole, sources=sources, incomplete=incomplete)
    if finished.ended == "cancelled":
        return Said("", Reason.STOPPED, remembered if whole.strip() else nothing, continues=True)
    if not whole.strip():
        return Said(notice or NOTHING.text(language), Reason.TOLD_ERROR)
    if incomplete:
        notice = notice or CUT.text(language)
    reason = Reason.ANSWERED_INCOMPLETE if incomplete else Reason.ANSWERED
    text = "\n\n".join(filter(str.strip, (closed(text), notice))) if notice else text
    return Said(text, reason, remembered, continues=speech.pieces > 0, wait=speech.wait)


def interrupted(question: Question) -> Said | None:
    """The sentence that ends an answer which a dead worker had begun to say; None where nothing of it stands.

    The model is not asked again for it: the room has read the beginning.
    """
    if question.answer.state != "running" or not parts.has_spoken(question.answer):
        return None
    said = parts.said(question.answer).removeprefix(f"**{' '.join(question.bot.name.split())}:** ")
    remembered = partial(memory.remember_answer, question, said, sources=[], incomplete=True)
    return Said(INTERRUPTED.text(question.place.language), Reason.TOLD_INTERRUPTED, remembered, continues=True)


def _hosts(question: Question) -> frozenset[str]:
    """The hosts that may always be linked: the server of the room itself, and what an administrator lists."""
    own = urlsplit(question.place.instance.url).hostname
    return frozenset(host.lower() for host in (own, *settings.get("link_hosts")) if host)


def _close(turn: Run, finished: Finished, *, status: Status | None = None) -> None:
    ended = "incomplete" if finished.incomplete else STATUSES.get(finished.ended, "success")
    turn.trace.finish(
        status or ended,
        ended=finished.ended,
        error_class=finished.error_class,
        detail=finished.detail,
        **turn.figures,
    )
