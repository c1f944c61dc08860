"""The settings that decide whether a turn must wait, and for how long at most."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta

from app.llm import patience
from app.settings import store

SETTINGS = (
    *("turns_per_room_minute", "turns_per_person_minute", "turn_wait_minutes"),
    *("max_retry_wait", "rate_limits", "fallback_model", "fallback_on"),
)


@dataclass(frozen=True)
class Terms:
    """The most turns a minute of a room and of a person (0: any number); the longest wait; how many seconds a model call
    waits by itself before the turn has begun; and a `mark` that changes with any of the settings."""

    room: int
    person: int
    longest: timedelta
    model_wait: float
    mark: str

    @classmethod
    def read(cls) -> Terms:
        """What is set now, in one query."""
        values = store.several(*SETTINGS)
        written = json.dumps([values[name] for name in SETTINGS], sort_keys=True)
        return cls(
            room=values["turns_per_room_minute"],
            person=values["turns_per_person_minute"],
            longest=timedelta(minutes=values["turn_wait_minutes"]),
            model_wait=min(patience.SHORT_WAIT, float(values["max_retry_wait"])),
            mark=hashlib.sha256(written.encode()).hexdigest()[:16],
        )
