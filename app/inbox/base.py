"""What the inbox asks of whoever works a delivery, and what it is told when that ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from app.inbox.models import Delivery
from app.inbox.reasons import Reason

End = Literal["done", "ignored", "waiting", "unknown", "dead", "later"]


@dataclass(frozen=True)
class Verdict:
    """What became of a delivery: one of the last states of an inbox row, or "later".

    "later" puts the row back into the queue for `delay` seconds without counting it as a failed attempt; without `hold`
    the room's later rows don't wait for it. "waiting" frees the room's lane until `claim.wake` (a paused turn, a bot's
    first questions). `detail` is for operators, in words, without message text.
    """

    state: End
    reason: Reason
    detail: str = ""
    turn_id: int | None = None
    delay: float = 0.0
    hold: bool = True


class Handler(Protocol):
    """Works one delivery to a verdict: rooms.answer.handle.

    `renew` keeps the room's lease; call it at every event of a long wait. False means that another worker has taken over:
    stop at once and send nothing more. Whatever the handler raises counts as a failed attempt.
    """

    def __call__(self, delivery: Delivery, *, renew: Callable[[], bool]) -> Verdict: ...


Overtake = Callable[[int, str], object]
"""Looks at what waits in a room (instance id, token) while another worker has it: rooms.orders.stop.overtake."""

Apology = Callable[[Delivery], Verdict | None]
"""Tells the room in one sentence that a message could not be answered: rooms.answer.apologise. It says nothing where an
answer, or a part of one, stands in the room already. Gives a verdict where the delivery is not simply dead: its answer had
been written and is sent now, or nothing can be sent now, and it is to be called again `later`."""
