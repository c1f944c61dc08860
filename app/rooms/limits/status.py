"""What limits there are, how far they are used, and who waits: for administrators and operators."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from app.llm.limits import buckets
from app.llm.limits import status as endpoint_buckets
from app.rooms.limits import line
from app.settings import endpoints, store


def shown(instance_id: int | None = None) -> dict[str, Any]:
    """{turns: {per_room_minute, per_person_minute, waiting, waiting_for: {room|person|model: number}, last_due},
    endpoints: [{endpoint, window, source, model, limit, remaining, recovers_at}]}.

    Those that wait are counted for an instance, or for all; endpoints serve all instances.
    """
    values = store.several("turns_per_room_minute", "turns_per_person_minute", "rate_limits")
    waits = line.seen(instance_id)
    rows = [
        {"endpoint": info.name} | asdict(bucket) | {"recovers_at": _iso(bucket.recovers_at)}
        for info in endpoints.all()
        for bucket in endpoint_buckets.of(info.name, buckets.limits_of(info.name, values["rate_limits"]))
    ]
    turns = {
        "per_room_minute": values["turns_per_room_minute"],
        "per_person_minute": values["turns_per_person_minute"],
        "waiting": waits.waiting,
        "waiting_for": waits.kinds,
        "last_due": _iso(waits.last_due),
    }
    return {"turns": turns, "endpoints": rows}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
