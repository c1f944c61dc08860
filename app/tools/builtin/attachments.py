"""Looking at pictures and listening to recordings of the current message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.infra.i18n import Sentence, say
from app.tools.base import Attachment, Tool, ToolContext, ToolError

NO_VISION = say(
    "I can't look at pictures yet: an administrator must set a vision model first (settings vision_endpoint and "
    "vision_model). Tell the person so."
)
NO_SPEECH = say(
    "I can't listen to recordings yet: an administrator must set a speech model first (settings speech_endpoint and "
    "speech_model). Tell the person so."
)


def analyze_image(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Says which setting is missing; with the setting, which comes with the reading of files, it describes the picture."""
    _attachment(context, arguments, "image", say("The current message has no picture."))
    raise ToolError(NO_VISION)


def transcribe_audio(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Says which setting is missing; with the setting, which comes with the reading of files, it gives the words."""
    _attachment(context, arguments, "audio", say("The current message has no recording."))
    raise ToolError(NO_SPEECH)


def _attachment(context: ToolContext, arguments: Mapping[str, Any], kind: str, none: Sentence) -> Attachment:
    """The attachment of that name, else the first of its kind; only those of the current message exist here."""
    fitting = [attachment for attachment in context.attachments if attachment.kind == kind]
    if not fitting:
        raise ToolError(none)
    wanted = (arguments.get("attachment_name") or "").strip().casefold()
    return next((attachment for attachment in fitting if attachment.name.casefold() == wanted), fitting[0])


NAME = {
    "type": "string",
    "maxLength": 255,
    "description": "The file's name when the message has several; the first one when left out.",
}
TOOLS = [
    Tool(
        "attachment_analyze_image",
        "Looks at a picture of the current message and describes it or answers a question about it.",
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "maxLength": 2000, "description": "What to find out."},
                "attachment_name": NAME,
            },
            "additionalProperties": False,
        },
        analyze_image,
        kind="analyze",
        timeout=130.0,
    ),
    Tool(
        "attachment_transcribe_audio",
        "Listens to a recording of the current message and gives its words.",
        {"type": "object", "properties": {"attachment_name": NAME}, "additionalProperties": False},
        transcribe_audio,
        kind="analyze",
        timeout=190.0,
    ),
]
