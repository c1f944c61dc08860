"""Why a delivery stands where it stands: one word for programs, one sentence for people. Never a bare "no"."""

from __future__ import annotations

from enum import StrEnum

from app.infra.i18n import Sentence, say


class Reason(StrEnum):
    """The documented list. Each member is its name in lower case and carries a `meaning`."""

    meaning: Sentence

    def __new__(cls, value: str, meaning: Sentence) -> Reason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # state done: the room saw something, or there was something to record
    ANSWERED = "answered", say("Every bot that was addressed has answered.")
    ANSWERED_INCOMPLETE = "answered_incomplete", say("It was answered, and the answer says that it is incomplete.")
    TOLD_ERROR = "told_error", say("The turn failed, and the room was told so in a sentence.")
    TOLD_LIMIT = "told_limit", say("A limit was reached, and the room was told when to try again.")
    TOLD_DENIED = "told_denied", say("The bot is not for this person, and they were told so.")
    TOLD_UNSURE = "told_unsure", say("Nobody could confirm whether this person may use the bot, and they were told so.")
    TOLD_INTERRUPTED = (
        "told_interrupted",
        say("It was interrupted in the middle of its answer, and the room was told so."),
    )
    COMMAND = "command", say("It was a command to a bot, and was carried out.")
    ONBOARDING = "onboarding", say("It was part of a bot's first questions.")
    STOPPED = "stopped", say("Somebody stopped the turn.")
    APOLOGISED = "apologised", say("It failed after several attempts, and the room was told so.")
    JOINED = "joined", say("The bot was added to the room.")
    LEFT = "left", say("The bot was removed from the room.")
    RECORDED = "recorded", say("It was noted; nothing had to be said.")

    # state ignored: nothing was to be said
    UNMENTIONED = "unmentioned", say("No bot was mentioned.")
    UNKNOWN_NAME = "unknown_name", say("A name was mentioned that no bot here has.")
    NOT_HERE = "not_here", say("The bot that was mentioned is not served by this registration.")
    DENIED = "denied", say("The bot is not for this person, who was told so today already.")
    OUTSIDER = "outsider", say("Guests and people of other servers may not use this bot in this room.")
    OWN_MESSAGE = "own_message", say("It was written by one of our own bots.")
    BOT_MESSAGE = "bot_message", say("It was written by a bot; bots never answer bots.")
    SERVICE_USER = "service_user", say("It was written by the service user.")
    OWN_REACTION = "own_reaction", say("It was our own reaction coming back.")
    REACTION = "reaction", say("Somebody reacted to a message; bots don't answer reactions.")
    SYSTEM = "system", say("It was an event of the room that no bot answers.")
    EMPTY = "empty", say("There was no text and no file in it.")
    UNKNOWN_EVENT = "unknown_event", say("The event is of a kind that Parley doesn't know.")
    UNREADABLE = "unreadable", say("The stored event could not be read.")
    BLANKED = "blanked", say("Its text was removed when its time was over, before it could be handled.")
    REGISTRATION_GONE = "registration_gone", say("The registration that it came for was removed.")
    BOT_GONE = "bot_gone", say("The bot was removed or switched off meanwhile.")
    ROOM_LEFT = "room_left", say("The bot has left this room.")
    CLEARED = "cleared", say("The room's history was cleared after it was written.")
    TOO_OLD = "too_old", say("It was too old to be answered.")

    # state queued again, or waiting
    RETRY = "retry", say("The last attempt failed; it will be tried again.")
    INTERRUPTED = "interrupted", say("The worker stopped while it was being handled; it will be taken up again.")
    SEND_LATER = "send_later", say("The chat server did not take the answer; it will be sent again.")
    REPLY_SOUGHT = "reply_sought", say("The chat server's reply was lost; the room is looked at for the answer.")
    BREAKER_OPEN = "breaker_open", say("The chat server refused our signature lately; sending is paused.")
    LIMIT_WAIT = "limit_wait", say("A limit is reached; it will be answered when its turn comes.")
    APPROVAL = "approval", say("It waits for somebody's decision.")
    ASKED_AGAIN = "asked_again", say("An operator asked for another try.")

    # state dead
    ATTEMPTS = "attempts", say("Every attempt failed; it was given up.")
    REFUSED = "refused", say("The chat server refused the answer for good.")
    ROOM_GONE = "room_gone", say("The room doesn't exist any more, or the bot was removed from it.")
    UNAUTHORISED = "unauthorised", say("The chat server doesn't accept our secret.")
    WAITED_TOO_LONG = "waited_too_long", say("It could not be answered within a day; it was given up.")

    # state unknown
    REPLY_LOST = "reply_lost", say("The chat server's reply was lost, so nobody can tell whether the answer stands.")


def meaning(reason: str) -> Sentence | None:
    """The sentence of a stored reason; None for none, or for one that this version doesn't know."""
    return next((member.meaning for member in Reason if member == reason), None)
