"""How often an endpoint may be asked in a second, a minute, an hour and a day, counted for all processes together.

A bucket never gives more than its limit within any stretch of time that is as long as its window, wherever that begins,
and it fills by itself: calls are counted in slices of the window, and a slice is forgotten when it is out of sight.
A take is one conditional UPDATE: of two that read the same counts one wins, and the other reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.i18n import Sentence, say
from app.infra.jobs import table
from app.llm.base import ErrorClass, ModelError
from app.llm.limits import headers as headers_
from app.llm.models import ModelRate

log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
WINDOWS: Mapping[str, int] = {"second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": 86400 * SECOND}
# So many slices has a window: a bucket may give back a call later than it must by one of them.
SLICES = 100
GENERAL = "*"
MOST_TRIES = 12
TRY_AGAIN_SECONDS = 0.002
LONGEST_TRY_SECONDS = 0.05
FORGET_AFTER = timedelta(days=1)
LONGEST_MODEL = 255
# Whoever stands further back is told a time that is too short, and asks again then.
MOST_AHEAD = 500

Limits = Mapping[str, int]
Takes = Mapping[str, Sequence[Sequence[int]]]


def limits_of(endpoint: str, setting: Mapping[str, Any]) -> Limits:
    """The limits of one endpoint in the setting `rate_limits`: its own, else the general ones, else none."""
    own = setting.get(endpoint, setting.get(GENERAL)) or {}
    return {window: int(most) for window, most in own.items() if window in WINDOWS}


def take(endpoint: str, model: str, limits: Limits) -> float:
    """Counts one call and gives 0, or counts nothing and gives the seconds to wait for it."""
    for number in range(1, MOST_TRIES + 1):
        rates = _rates(endpoint, model, limits)
        now = clock.now()
        wait = _wait(rates, limits, now)
        if wait > 0 or not limits:
            return wait
        own = rates.get("")
        if own is None:
            _make(endpoint, "", now)
        elif _swap(own, counted(own.takes, limits, microseconds(now)), now):
            return 0.0
        else:
            clock.sleep(min(LONGEST_TRY_SECONDS, TRY_AGAIN_SECONDS * number))
    return LONGEST_TRY_SECONDS


def due_in(endpoint: str, model: str, limits: Limits, *, ahead: int = 0) -> float:
    """Seconds until a call may be made, after `ahead` others that are made as soon as they may; counts nothing."""
    return _wait(_rates(endpoint, model, limits), limits, clock.now(), ahead=ahead)


def in_use() -> bool:
    """Whether any call was counted, or any server asked for a pause; else nobody has to wait."""
    try:
        with reading() as session:
            return session.scalar(select(ModelRate.id).limit(1)) is not None
    except SQLAlchemyError:
        log.exception("whether a model may be asked is not known")
        return False


def heed(
    endpoint: str, model: str, headers: Mapping[str, str], *, named: float | None = None, refused: bool = False
) -> None:
    """Keeps everybody from asking a model whose server says that nothing is left, or `refused` a call for that reason.

    `named` is the time in seconds that a failed call was told; it counts more than the headers. Best effort.
    """
    used_up = headers_.used_up(headers)
    seconds = used_up if named is None else named if refused else min(used_up, named)
    if seconds <= 0:
        return
    now = clock.now()
    until = now + timedelta(seconds=seconds)
    row = (ModelRate.endpoint == endpoint, ModelRate.model == _kept(model))
    try:
        _make(endpoint, _kept(model), now)
        with transaction() as session:
            later = or_(ModelRate.blocked_until.is_(None), ModelRate.blocked_until < until)
            session.execute(update(ModelRate).where(*row, later).values(blocked_until=until, updated_at=now))
    except SQLAlchemyError:
        log.exception("the pause that the endpoint %s asked for was not kept", endpoint)


def forget_pauses(endpoint: str) -> None:
    """Lets everybody ask the models of an endpoint again whose server asked for a pause."""
    with transaction() as session:
        paused = update(ModelRate).where(ModelRate.endpoint == endpoint, ModelRate.blocked_until.is_not(None))
        session.execute(paused.values(blocked_until=None))


def refused(seconds: float) -> ModelError:
    """The error of a call that would exceed a limit; its sentence names the waiting time."""
    sentence = say(
        "The model has been asked as often as is allowed for now. It can be asked again in {time}.",
        time=spoken(seconds),
    )
    detail = f"the rate limit allows the next call in {seconds:.3f} s"
    return ModelError(ErrorClass.RATE_LIMIT, sentence, detail=detail, retry_after=seconds)


def spoken(seconds: float) -> Sentence:
    """A waiting time for a person, rounded up."""
    whole = max(1, -int(-seconds // 1))
    if whole == 1:
        return say("1 second")
    if whole < 120:
        return say("{count} seconds", count=whole)
    if whole < 7200:
        return say("{count} minutes", count=-(-whole // 60))
    return say("{count} hours", count=-(-whole // 3600))


def waiting(takes: Takes, limits: Limits, now: int) -> int:
    """Microseconds until one more call fits into each window; `now` in microseconds since 1970."""
    return max((_until_free(takes.get(window, ()), window, most, now) for window, most in limits.items()), default=0)


def counted(takes: Takes, limits: Limits, now: int) -> dict[str, list[list[int]]]:
    """The counts with one more call; slices that are out of sight are left out."""
    after: dict[str, list[list[int]]] = {}
    for window in limits:
        newest = now // (WINDOWS[window] // SLICES)
        slices = dict(_in_sight(takes.get(window, ()), newest))
        slices[newest] = slices.get(newest, 0) + 1
        after[window] = [[at, calls] for at, calls in sorted(slices.items())]
    return after


def used(takes: Takes, window: str, now: datetime) -> int:
    """How many calls count in a window at this moment."""
    newest = microseconds(now) // (WINDOWS[window] // SLICES)
    return sum(calls for _, calls in _in_sight(takes.get(window, ()), newest))


def paused_until(rate: ModelRate, now: datetime) -> datetime | None:
    """Until when a server asked not to be asked; None where that is over. Never longer than it is believed."""
    if rate.blocked_until is None or rate.blocked_until <= now:
        return None
    return min(rate.blocked_until, now + timedelta(seconds=headers_.LONGEST))


def _until_free(slices: Sequence[Sequence[int]], window: str, most: int, now: int) -> int:
    size = WINDOWS[window] // SLICES
    seen = sorted(_in_sight(slices, now // size))
    excess = sum(calls for _, calls in seen) + 1 - most
    for at, calls in seen:
        if excess <= 0:
            break
        excess -= calls
        free = (at + SLICES + 1) * size
        if excess <= 0:
            return max(1, free - now)
    return 0


def _in_sight(slices: Sequence[Sequence[int]], newest: int) -> list[tuple[int, int]]:
    """The slices of the last window. One from the time to come was counted by a clock that is ahead; one from far ahead
    by a clock that was wrong, and must not close the bucket until then."""
    return [(at, calls) for at, calls in slices if newest - SLICES <= at <= newest + SLICES]


def _wait(rates: Mapping[str, ModelRate], limits: Limits, now: datetime, *, ahead: int = 0) -> float:
    ends = [until for rate in rates.values() if (until := paused_until(rate, now)) is not None]
    pause = max((until - now).total_seconds() for until in ends) if ends else 0.0
    own = rates.get("")
    takes = {} if own is None else own.takes
    return max(pause, _behind(takes, limits, microseconds(now), ahead=ahead) / SECOND)


def _behind(takes: Takes, limits: Limits, now: int, *, ahead: int) -> int:
    """Microseconds until one more call fits after `ahead` others."""
    moment = now
    for _ in range(min(ahead, MOST_AHEAD) if limits else 0):
        moment += waiting(takes, limits, moment)
        takes = counted(takes, limits, moment)
    return moment + waiting(takes, limits, moment) - now


def _rates(endpoint: str, model: str, limits: Limits) -> dict[str, ModelRate]:
    """The rows of an endpoint and of its model by `model`. Without limits a database that is away hinders no call."""
    query = select(ModelRate).where(ModelRate.endpoint == endpoint, ModelRate.model.in_(("", _kept(model))))
    try:
        with reading() as session:
            return {row.model: row for row in session.scalars(query)}
    except SQLAlchemyError:
        if limits:
            raise
        log.exception("whether the endpoint %s asked for a pause is not known", endpoint)
        return {}


def _make(endpoint: str, model: str, now: datetime) -> None:
    values = {"endpoint": endpoint, "model": model, "takes": {}, "version": 0, "updated_at": now}
    # In a transaction of its own: two that insert the same row would hold locks that neither can raise (MariaDB).
    with transaction() as session:
        insert_once(session, table(ModelRate), values)
    with transaction() as session:
        old = (ModelRate.model != "", ModelRate.updated_at < now - FORGET_AFTER)
        session.execute(delete(ModelRate).where(*old))


def _swap(row: ModelRate, takes: Takes, now: datetime) -> bool:
    unchanged = (ModelRate.id == row.id, ModelRate.version == row.version)
    values = {"takes": takes, "version": row.version + 1, "updated_at": now}
    with transaction() as session:
        return changed(session.execute(update(ModelRate).where(*unchanged).values(values))) == 1


def _kept(model: str) -> str:
    return clean_text(model)[:LONGEST_MODEL]


def microseconds(moment: datetime) -> int:
    """A moment as the buckets count it: in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
