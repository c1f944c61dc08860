"""What a bot tells of itself in a room: what it is for, which orders it takes, what was used, and how it stands."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select

from app.bots.models import Bot
from app.conversations import transcript
from app.infra import clock
from app.infra.db import reading
from app.infra.i18n import Sentence, say
from app.rooms import modes
from app.rooms.modes import Mode
from app.rooms.thinking.question import Question
from app.traces.models import TurnTrace

MONTH = timedelta(days=30)
MODES: dict[Mode, Sentence] = {
    "mention": say("I answer here when I am mentioned."),
    "thread": say("I answer here when I am mentioned, and whatever is written in a thread in which I have answered."),
    "always": say("I answer every message here."),
}
ORDERS = (
    ("stop", say("ends what I am working on")),
    ("setup", say("asks my first questions again")),
    ("memory on | off | forget", say("whether I keep what is written here (moderators)")),
    ("mode mention | thread | always", say("when I answer here (moderators)")),
    ("language en | de | fr", say("the language of my own sentences here (moderators)")),
    ("usage", say("what was used")),
)


def mention(bot: Bot) -> str:
    """The name as it is typed after the @."""
    return f'"{bot.mention_name}"' if " " in bot.mention_name else bot.mention_name


def about(question: Question) -> str:
    """The help, in the room's language: what the bot is, how it is asked, the orders that it takes."""
    bot, language = question.bot, question.place.language
    name = mention(bot)
    stands = modes.of(question.place.room.instance_id, question.place.room.token, bot.id)
    lines = [
        f"**{' '.join(bot.name.split())}**" + (f" – {' '.join(bot.description.split())}" if bot.description else "")
    ]
    lines.append(say("Write your question in the same message as my name: `@{name} ...`", name=name).text(language))
    lines.append(mode(stands).text(language))
    lines += [f"- `@{name} {words}` – {told.text(language)}" for words, told in ORDERS]
    forget = say("forgets what you said to me here; of a moderator, what everybody said").text(language)
    return "\n".join([*lines, f"- `((RESET)) @{name}` – {forget}"])


def mode(chosen: Mode) -> Sentence:
    """When the bot answers."""
    return MODES[chosen]


def memory(question: Question, days: int) -> Sentence:
    """Whether the room is kept."""
    room = question.place.room
    since = transcript.since(room.instance_id, room.token)
    if since is None:
        return say("I keep only what is said to me here and my answers, for at most {days} days.", days=days)
    day = question.local(since).strftime("%Y-%m-%d")
    return say("I keep what everybody writes here since {day}, for at most {days} days.", day=day, days=days)


def usage(question: Question, *, everybody: bool) -> str:
    """What this person used in this room, and for moderators everybody, today and in thirty days."""
    language, place = question.place.language, question.place
    here = (TurnTrace.instance_id == place.room.instance_id, TurnTrace.room == place.room.token)
    mine = (*here, TurnTrace.actor == question.event.actor.key)
    now = clock.now()
    today = question.local(now).replace(hour=0, minute=0, second=0, microsecond=0)
    sections = [(say("You here"), mine)] + ([(say("Everybody here"), here)] if everybody else [])
    lines = []
    for title, where in sections:
        for words, since in ((say("today"), today), (say("in the last 30 days"), now - MONTH)):
            turns, tokens = _sums(since, where)
            line = say(
                "{who}, {when}: {turns} answers, {tokens} tokens", who=title, when=words, turns=turns, tokens=tokens
            )
            lines.append(f"- {line.text(language)}")
    return "\n".join(lines)


def _sums(since: datetime, where: tuple[ColumnElement[bool], ...]) -> tuple[int, int]:
    columns = select(func.count(), func.coalesce(func.sum(TurnTrace.total_tokens), 0))
    with reading() as session:
        turns, tokens = session.execute(columns.where(*where, TurnTrace.started_at >= since)).one()
    return int(turns), int(tokens)
