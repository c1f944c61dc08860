"""Pages of who is asking: sign in, sign out, and a first page that says who you are."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

from app.accounts import directory, instances, login, people
from app.accounts.models import Instance
from app.infra import auth
from app.infra.errors import ParleyError, TooMany, TooSlow
from app.infra.i18n import Sentence
from app.settings import store

blueprint = Blueprint("accounts_pages", __name__)

LONGEST_FIELD = 1024
FIRST_ADMIN_COMMAND = "python manage.py users add NAME --admin --password-stdin"


@blueprint.app_context_processor
def _named() -> dict[str, Any]:
    """What every page calls this installation; read where a page shows it, not for every answer."""
    return {"brand": lambda: store.get("branding_name")}


@blueprint.get("/sign-in")
@auth.access("public")
def sign_in() -> BaseResponse:
    """The form; whoever is signed in already goes on to where they wanted."""
    if auth.current() is not None:
        return redirect(auth.local_path(request.args.get("next")), code=303)
    return _form(wanted=request.args.get("next"))


@blueprint.post("/sign-in")
@auth.access("public", form=True)
def signed_in() -> BaseResponse:
    """Begins a session and goes on to `next`, which is always a path of this server."""
    uid, wanted = _field("uid"), auth.local_path(_field("next"))
    instance = _chosen()
    person = login.authenticate(
        instance,
        uid,
        password=request.form.get("password", ""),
        address=request.remote_addr,
        browser=login.known_browser(request, instance, uid),
    )
    login.begin(person)
    response = make_response(redirect(wanted, code=303))
    if instance is not None:
        login.remember_browser(request, response, instance=instance, uid=uid)
    return response


@blueprint.post("/sign-out")
@auth.access("user")
def sign_out() -> BaseResponse:
    """Ends the sessions of this person in every browser."""
    login.end()
    return redirect(auth.SIGN_IN, code=303)


@blueprint.get("/")
@auth.access("user")
def home() -> str:
    """Who you are here, and where to go."""
    me = auth.identity()
    person = people.get(me.person_id) if me.person_id is not None else None
    return render_template(
        "accounts/home.html",
        me=me,
        person=person,
        instance=instances.get(me.instance_id),
        memberships=directory.memberships(me.person_id or 0),
    )


@blueprint.errorhandler(ParleyError)
def problem(error: ParleyError) -> BaseResponse:
    """What went wrong, as a page; at the sign-in form with what was typed still in it."""
    # What came too slowly can't be read again, not even to show it in the form.
    if request.endpoint == f"{blueprint.name}.signed_in" and not isinstance(error, TooSlow):
        response = _form(uid=_field("uid"), wanted=_field("next"), problem=error.sentence)
    else:
        sentence = error.sentence.text(auth.language())
        response = make_response(render_template("error.html", sentence=sentence, status=error.status))
    response.status_code = error.status
    if isinstance(error, TooMany):
        response.headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return response


def _form(*, wanted: str | None, uid: str = "", problem: Sentence | None = None) -> Response:
    shown: dict[str, Any] = {
        "uid": uid,
        "wanted": auth.local_path(wanted),
        "problem": problem,
        "instances": _offered(),
        "chosen": request.form.get("instance") or "",
        "nobody_yet": not people.somebody_administers(),
        "command": FIRST_ADMIN_COMMAND,
    }
    return make_response(render_template("accounts/sign_in.html", **shown))


def _offered() -> list[Instance]:
    """The instances in which somebody has a password; those of one's own first, because nobody works in the sandbox."""
    used = people.instances_with_passwords()
    known = [instance for instance in instances.all() if instance.id in used]
    return sorted(known, key=lambda instance: instance.name in instances.BUILT_IN)


def _chosen() -> Instance | None:
    name = _field("instance")
    offered = _offered()
    if not name:
        return offered[0] if offered else None
    return next((instance for instance in offered if instance.name == name), None)


def _field(name: str) -> str:
    return request.form.get(name, "")[:LONGEST_FIELD]
