"""Jobs of bots: notices of past days go."""

from __future__ import annotations

from app.bots import notices
from app.infra import jobs

EVERY_SECONDS = 86_400


@jobs.periodic("bots.forget_notices", every=EVERY_SECONDS)
def forget_notices() -> None:
    """Deletes what was noted about past days."""
    notices.forget_old()
