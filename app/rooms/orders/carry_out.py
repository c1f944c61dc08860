"""Orders to a bot: found in what is left of a message without the bot's name, and carried out.

What changes is changed in the transaction in which its answer is written: whoever works the message again after a crash
changes nothing twice. To add an order: its words in words.py, and a line in HANDLERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from app.bots.resolve import Addressed
from app.conversations import transcript
from app.inbox.reasons import Reason
from app.infra.i18n import Sentence, say
from app.platforms import rooms
from app.platforms.base import IncomingEvent
from app.rooms import modes
from app.rooms.onboarding import asking
from app.rooms.orders import reset, stop, telling, words
from app.rooms.orders.words import Order
from app.rooms.parts import Pause, Place, Said, nothing
from app.rooms.thinking.question import Question
from app.settings import store

Handler = Callable[[Question, str], Said | Pause]
LANGUAGES: Mapping[str, Sentence] = {"en": say("English"), "de": say("German"), "fr": say("French")}
MODERATORS_ONLY = say("Only moderators of this conversation can change that.")


def for_all(event: IncomingEvent, place: Place) -> Addressed | None:
    """Whom an order is for that names no bot, such as ((RESET)); None for any other message."""
    return reset.addressed(event, place) if words.RESET.match(event.text) else None


def carried_out(question: Question) -> Said | Pause | None:
    """Carries out the order that the message is, and gives what is said of it; None for a message that is none."""
    if question.event.files:
        return None
    order = words.read(question.text)
    return None if order is None else HANDLERS[order.name](question, order.argument)


def is_order(text: str) -> Order | None:
    """The order that a text is."""
    return words.read(text)


def moderates(question: Question) -> bool:
    """Whether the person may change what is so for everybody in the room: told with the message itself, or alone there."""
    return question.event.actor.moderator is True or question.place.room.one_to_one


def _told(question: Question, sentence: Sentence, also: Callable[[], None] = nothing) -> Said:
    return Said(sentence.text(question.place.language), Reason.COMMAND, also)


def _help(question: Question, _: str) -> Said:
    return Said(telling.about(question), Reason.COMMAND)


def _usage(question: Question, _: str) -> Said:
    return Said(telling.usage(question, everybody=moderates(question)), Reason.COMMAND)


def _stop(question: Question, _: str) -> Said:
    return _told(question, stop.stopped(question, moderates=moderates(question)))


def _setup(question: Question, _: str) -> Said | Pause:
    begun = asking.restart(question)
    return begun or _told(question, say("I have no questions to ask. Just write what you need."))


def _memory(question: Question, argument: str) -> Said:
    room = question.place.room
    days = store.get("conversation_days")
    if not argument:
        return _told(question, telling.memory(question, days))
    if not moderates(question):
        return _told(question, MODERATORS_ONLY)
    if argument == "on":
        text = say(
            "From now on I keep what everybody writes here, for at most {days} days, so that it can be found. A "
            "moderator ends that with `@{name} memory off`, and erases it with `@{name} memory forget`.",
            days=days,
            name=telling.mention(question.bot),
        )
        on = partial(transcript.switch_on, room.instance_id, room.token, actor=question.event.actor.key)
        return _told(question, text, _ignoring(on))
    if argument == "off":
        text = say(
            "I keep nothing more of what is written here. What was kept can't be found any more; a moderator erases it "
            "with `@{name} memory forget`.",
            name=telling.mention(question.bot),
        )
        return _told(question, text, _ignoring(partial(transcript.switch_off, room.instance_id, room.token)))
    text = say("All that was kept of this conversation's memory is erased.")
    return _told(question, text, _ignoring(partial(transcript.forget, room.instance_id, room.token)))


def _mode(question: Question, argument: str) -> Said:
    place, bot = question.place, question.bot
    if not argument:
        return _told(question, telling.mode(modes.of(place.room.instance_id, place.room.token, bot.id)))
    if not moderates(question):
        return _told(question, MODERATORS_ONLY)
    chosen = modes.read(argument)
    loser = modes.loser(place.room.instance_id, place.room.token, bot_id=bot.id, mode=chosen)
    text = telling.mode(chosen)
    if loser is not None:
        text = say("{text} @{name} now answers only when it is mentioned.", text=text, name=loser)
    change = partial(modes.choose, place.room.instance_id, place.room.token, bot_id=bot.id, mode=chosen)
    return _told(question, text, _ignoring(change))


def _language(question: Question, argument: str) -> Said:
    room = question.place.room
    if not argument:
        known = LANGUAGES.get(question.place.language, LANGUAGES["en"])
        return _told(question, say("My own sentences here are in {language}.", language=known))
    if not moderates(question):
        return _told(question, MODERATORS_ONLY)
    text = say("My own sentences here are in {language}.", language=LANGUAGES[argument]).text(argument)
    change = partial(rooms.speak, room.instance_id, room.token, argument)
    return Said(text, Reason.COMMAND, _ignoring(change))


def _reset(question: Question, _: str) -> Said:
    return reset.done(question, everybody=moderates(question))


def _ignoring(change: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        change()

    return run


HANDLERS: Mapping[str, Handler] = {
    "help": _help,
    "stop": _stop,
    "setup": _setup,
    "memory": _memory,
    "usage": _usage,
    "mode": _mode,
    "language": _language,
    "reset": _reset,
}
