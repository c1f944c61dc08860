"""JSON about tokens, for administrators."""

from __future__ import annotations

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.infra import auth
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.usage import report

blueprint = Blueprint("usage", __name__, url_prefix="/api/v1/usage")


@blueprint.get("")
@auth.access("administrator")
def usage_sums() -> ResponseReturnValue:
    """The tokens of the last ?days= days (7) of one's instance, or of ?instance=NAME: {days: [...], total: {...}}."""
    named = request.args.get("instance")
    home = instances.chosen(named).id if named else auth.identity().instance_id
    return report.sums(home, days=_days())


def _days() -> int:
    text = request.args.get("days", str(report.DAYS))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        sentence = say("The days must be from 1 to {most}.", most=report.MOST_DAYS)
        raise BadInput(sentence, fields={"days": str(sentence)})
    return int(text)
