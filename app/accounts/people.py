"""People: one row is one human of one instance. The same uid elsewhere is somebody else.

Uids are compared exactly after NFC: two spellings of the same letters are one person, another case is another person.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.accounts.models import Person
from app.infra import clock, crypto
from app.infra.db import clean_text, insert_once, reading, transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say
from app.infra.jobs import table

LONGEST_UID = 190
LONGEST_DISPLAY_NAME = 255
LEAST_PASSWORD = 8
LONGEST_PASSWORD = 1024
MOST_LISTED = 500
FIRST_ADMIN = "admin"
# Control and format characters, lone surrogates, private use, unassigned, line and paragraph separators.
NEVER_IN_UID = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def normal(uid: str) -> str:
    """The one spelling of a uid. Raises BadInput for what no server can call a person."""
    form = unicodedata.normalize("NFC", uid)
    if not 0 < len(form) <= LONGEST_UID or form != form.strip() or form in (".", ".."):
        raise _bad_uid()
    # An actor is split at its first slash (users/ada): a uid with another one would read as somebody else's.
    if "/" in form or any(unicodedata.category(letter) in NEVER_IN_UID for letter in form):
        raise _bad_uid()
    return form


def find(instance_id: int, uid: str) -> Person | None:
    """The person of that uid in that instance; None also for what can't be a uid."""
    try:
        form = normal(uid)
    except BadInput:
        return None
    with reading() as session:
        return _row(session, instance_id, form)


def get(id: int) -> Person | None:
    """The person with that id."""
    with reading() as session:
        return session.get(Person, id)


def ensure(instance_id: int, uid: str, display_name: str = "") -> Person:
    """The person, made when missing; a display name that is given replaces the known one. Raises BadInput."""
    form = normal(uid)
    shown = clean_text(display_name).strip()[:LONGEST_DISPLAY_NAME]
    with reading() as session:
        found = _row(session, instance_id, form)
    if found is not None and shown in ("", found.display_name):
        return found
    with transaction() as session:
        _insert(session, instance_id, form)
        row = _must(_row(session, instance_id, form))
        row.display_name = shown or row.display_name
        return row


def first_admin(instance_id: int) -> Person | None:
    """The oldest administrator of an instance."""
    with reading() as session:
        return session.scalars(
            select(Person).where(Person.instance_id == instance_id, Person.is_admin).order_by(Person.id).limit(1)
        ).first()


def ensure_admin(instance_id: int) -> Person:
    """The oldest administrator of an instance, made (without a password) when there is none."""
    found = first_admin(instance_id)
    if found is not None:
        return found
    return grant(ensure(instance_id, FIRST_ADMIN).id, admin=True)


def grant(person_id: int, *, admin: bool | None = None, operator: bool | None = None) -> Person:
    """Gives or takes rights; None leaves one as it is. Raises NotFound."""
    with transaction() as session:
        row = _must(session.get(Person, person_id))
        row.is_admin = row.is_admin if admin is None else admin
        row.is_operator = row.is_operator if operator is None else operator
        return row


def set_password(person_id: int, password: str) -> None:
    """Gives a local password, which ends every session of the person. Raises BadInput that names the limits."""
    if not password_allowed(password):
        raise bad_password()
    # Hashed before the block: it takes 20 ms on purpose, and a write transaction holds others up.
    hashed = crypto.hash_password(spelled(password))
    with transaction() as session:
        row = _must(session.get(Person, person_id))
        row.password_hash = hashed
        row.sessions_after = clock.now()


def password_allowed(password: str) -> bool:
    """True for what may become a password: any characters, within the limits."""
    size = len(clean_text(password).encode())
    return len(password) >= LEAST_PASSWORD and size <= LONGEST_PASSWORD and clean_text(password) == password


def bad_password() -> BadInput:
    """The sentence for a password outside the limits."""
    sentence = say(
        "A password has {least} characters or more, and at most {most} bytes.",
        least=LEAST_PASSWORD,
        most=LONGEST_PASSWORD,
    )
    return BadInput(sentence, fields={"password": str(sentence)})


def spelled(password: str) -> str:
    """The password in one spelling, whatever keyboard composed it."""
    return unicodedata.normalize("NFC", password)


def end_sessions(person_id: int) -> None:
    """Ends every session that the person has begun, in every browser."""
    with transaction() as session:
        row = session.get(Person, person_id)
        if row is not None:
            row.sessions_after = clock.now()


def listed(instance_id: int | None = None, *, words: str = "", after: int = 0, limit: int = 100) -> Sequence[Person]:
    """People in the order of their ids, beginning after `after`; `words` is looked for in uid and display name."""
    statement = select(Person).where(Person.id > after).order_by(Person.id).limit(min(max(limit, 1), MOST_LISTED))
    if instance_id is not None:
        statement = statement.where(Person.instance_id == instance_id)
    if words:
        pattern = clean_text(words).lower()
        hits = func.lower(Person.uid).contains(pattern, autoescape=True)
        statement = statement.where(hits | func.lower(Person.display_name).contains(pattern, autoescape=True))
    with reading() as session:
        return session.scalars(statement).all()


def uids(person_ids: Iterable[int]) -> dict[int, str]:
    """The uids of these people by their ids; whoever is gone is left out."""
    with reading() as session:
        rows = session.execute(select(Person.id, Person.uid).where(Person.id.in_(set(person_ids))))
        return {row.id: row.uid for row in rows}


def somebody_administers() -> bool:
    """True when an administrator exists who can sign in."""
    with reading() as session:
        found = select(Person.id).where(Person.is_admin, Person.password_hash.is_not(None)).limit(1)
        return session.execute(found).first() is not None


def instances_with_passwords() -> frozenset[int]:
    """The ids of the instances in which somebody can sign in with a local password."""
    with reading() as session:
        found = select(Person.instance_id).where(Person.password_hash.is_not(None)).distinct()
        return frozenset(session.scalars(found))


def _row(session: Session, instance_id: int, form: str) -> Person | None:
    return session.scalars(select(Person).where(Person.instance_id == instance_id, Person.uid == form)).one_or_none()


def _insert(session: Session, instance_id: int, form: str) -> None:
    row = {
        "instance_id": instance_id,
        "uid": form,
        "display_name": "",
        "is_admin": False,
        "is_operator": False,
        "created_at": clock.now(),
    }
    insert_once(session, table(Person), row)


def _must(row: Person | None) -> Person:
    if row is None:
        raise NotFound
    return row


def _bad_uid() -> BadInput:
    sentence = say(
        "A uid has 1 to {most} characters, no slash, no control characters and no space around it.", most=LONGEST_UID
    )
    return BadInput(sentence, fields={"uid": str(sentence)})
