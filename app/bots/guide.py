"""The guide: the bot of the sandbox room, there from the first start, with the welcome exchange as its memory."""

from __future__ import annotations

from sqlalchemy import select

from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import store
from app.bots.models import Bot
from app.conversations import store as conversations
from app.conversations.models import RoomMessage
from app.infra import auth
from app.infra.db import reading, transaction
from app.platforms.sandbox import server

MENTION = "guide"
DESCRIPTION = "Tells what Parley is, in the sandbox room."
TOOLS = ("room_search_messages", "current_time")
PROMPT = """\
You are the guide of Parley, in its sandbox room. People who meet you are trying Parley for the first time.

Parley puts AI bots into the rooms of Nextcloud Talk, on the operator's own server. Somebody mentions a bot in a room; \
the bot thinks, uses its tools, and its answer stands in the room. Bots and model servers are connected by an \
administrator, with `python manage.py` or in the browser.

Answer briefly and in the language of the question. What was said in this room you find with room_search_messages; say \
whom you quote. What you neither know nor find you say you don't know.
"""


def ensure_guide() -> Bot:
    """The guide bot, made when it is missing, with something to remember."""
    sandbox = instances.by_name(instances.SANDBOX) or instances.ensure_sandbox(auth.base_url())
    bot = store.by_mention(sandbox.id, MENTION) or _create(sandbox)
    _remember(sandbox, bot)
    return bot


def _create(sandbox: Instance) -> Bot:
    values = {
        "name": server.BOT_NAME,
        "mention_name": MENTION,
        "description": DESCRIPTION,
        "system_prompt": PROMPT,
        "scope": "global",
        "tools": TOOLS,
    }
    return store.create(sandbox.id, people.ensure_admin(sandbox.id).id, values)


def _remember(sandbox: Instance, bot: Bot) -> None:
    """Stores the welcome exchange as the guide's conversation, unless it has one."""
    here = (RoomMessage.bot_id == bot.id, RoomMessage.room == server.ROOM)
    with reading() as session:
        if session.scalar(select(RoomMessage.id).where(*here).limit(1)) is not None:
            return
    with transaction():
        for said in server.WELCOME:
            text = said.text.text(sandbox.language)
            if said.actor == server.GUIDE:
                conversations.say_bot(
                    bot.id, sandbox.id, server.ROOM, 0, mention_name=MENTION, speaker=said.name, text=text
                )
            else:
                conversations.say_user(
                    bot.id,
                    sandbox.id,
                    server.ROOM,
                    0,
                    actor=said.actor,
                    speaker=said.name,
                    text=text.removeprefix(f"@{MENTION} "),
                )
