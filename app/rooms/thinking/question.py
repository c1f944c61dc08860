"""What is asked of one bot, and how it is put to the model: who said it, where, with which files, in reply to what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.agent import prompt
from app.agent.prompt import Scene
from app.bots.models import Bot
from app.inbox.models import Delivery
from app.infra import clock
from app.llm.base import Message
from app.platforms.base import IncomingEvent, SharedFile
from app.rooms.models import Answer
from app.rooms.onboarding import rounds
from app.rooms.onboarding.rounds import Spot
from app.rooms.parts import Place
from app.tools.base import Attachment


@dataclass(frozen=True)
class Question:
    """A message as one bot reads it; `text` is without the bot's own name, `tools` are those assigned to the bot."""

    delivery: Delivery
    event: IncomingEvent
    place: Place
    bot: Bot
    answer: Answer
    text: str
    tools: tuple[str, ...] = ()

    @property
    def thread(self) -> int:
        """The message id of the thread's root; 0 is the room itself."""
        return self.event.thread or 0

    @property
    def speaker(self) -> str:
        return self.event.actor.name.strip() or self.event.actor.id

    @property
    def caption(self) -> str:
        """The text alone; empty where a file was shared without one."""
        return self.text.strip() if self._has_text else ""

    @property
    def words(self) -> str:
        """The text, and a line for each file that came with it."""
        lines = [self.text] if self._has_text else []
        return "\n".join([*lines, *map(_line, self.event.files)])

    @property
    def quoted(self) -> tuple[str, str] | None:
        """Who said the message that this one replies to, and its text."""
        parent = self.event.parent
        if parent is None or not parent.text.strip():
            return None
        return parent.actor.name or parent.actor.id, parent.text

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return tuple(Attachment(file.id, file.name, file.mimetype, file.size, file.kind) for file in self.event.files)

    @property
    def is_one_audio(self) -> bool:
        """Exactly one audio and nothing else (product.md K9)."""
        return not self._has_text and [file.kind for file in self.event.files] == ["audio"]

    @property
    def _has_text(self) -> bool:
        """False too where a file was shared without a caption: its name stands for the text then."""
        return bool(self.text.strip()) and self.text.strip() not in [file.name.strip() for file in self.event.files]

    def local(self, moment: datetime) -> datetime:
        """The moment in the time zone of the instance."""
        try:
            return moment.astimezone(ZoneInfo(self.place.instance.timezone))
        except (ZoneInfoNotFoundError, ValueError):
            return moment

    def system(self, *, has_tools: bool) -> Message:
        """The system message: the bot's prompt, and where and when it is asked."""
        spot = Spot(self.place.room.instance_id, self.place.room.token, self.thread, self.bot.id)
        scene = Scene(
            bot_name=self.bot.name,
            bot_prompt=self.bot.system_prompt,
            now=self.local(clock.now()),
            timezone=self.place.instance.timezone,
            room=self.place.room.name,
            speaker=self.speaker,
            one_to_one=self.place.room.one_to_one,
            has_tools=has_tools,
            told=rounds.told(spot),
        )
        return prompt.system(scene)

    def newest(self) -> Message:
        """The message itself, in the words of who wrote it."""
        return prompt.newest(self.words)

    def before(self) -> list[Message]:
        """What it replies to, as data, in a message of its own: nobody else's words stand among the speaker's."""
        return [] if self.quoted is None else [prompt.newest("", quoted=self.quoted)]


def _line(file: SharedFile) -> str:
    size = "size unknown" if file.size is None else f"{file.size} bytes"
    name = " ".join(file.name.split())
    return f"[File: {name}, {file.mimetype or 'type unknown'}, {size}, id {file.id}]"
