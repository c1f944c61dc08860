from __future__ import annotations

import pytest

from app.tools.base import Attachment, ToolError
from tests.fakes.tools import context, use

PICTURE = Attachment("1", "cat.png", "image/png", kind="image")
RECORDING = Attachment("2", "memo.mp3", "audio/mpeg", kind="audio")


@pytest.mark.parametrize(
    ("name", "attachments", "told"),
    [
        ("attachment_analyze_image", (PICTURE,), "vision_model"),
        ("attachment_analyze_image", (RECORDING,), "no picture"),
        ("attachment_transcribe_audio", (RECORDING,), "speech_model"),
        ("attachment_transcribe_audio", (), "no recording"),
    ],
)
def test_what_an_attachment_needs_is_told(name: str, attachments: tuple[Attachment, ...], told: str) -> None:
    with pytest.raises(ToolError) as refused:
        use(name, {"attachment_name": "cat.png"}, context(attachments=attachments))
    assert told in str(refused.value.sentence)
