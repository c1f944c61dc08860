"""Parley: AI bots in chat rooms and a personal assistant, on your own server. The only file that sees everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
from flask import Blueprint, Flask

from app import config as configuration
from app.accounts import login
from app.config import DATA_DIR_MODE, Config
from app.infra import auth, crypto, db, discover, errors, jobs, logs

# From the lowest rank to the highest (design: ranks). A package's doors are found by their names.
PACKAGES = (
    "infra",
    "accounts",
    "settings",
    "llm",
    "platforms",
    "platforms.nextcloud_talk",
    "platforms.sandbox",
    "conversations",
    "traces",
    "usage",
    "bots",
    "bots.review",
    "inbox",
    "inbox.gaps",
    "tools",
    "agent",
    "rooms",
    "rooms.limits",
    "rooms.recovery",
    "rooms.onboarding",
    "operate",
)
LARGEST_REQUEST = 16 * 1024 * 1024
"""Bytes of a request's body where the address has no smaller limit of its own."""
ROOT = Path(__file__).resolve().parent.parent


def create_app(config: Config | None = None, *, sender: jobs.Sender | None = None) -> Flask:
    """The application, ready to serve; `sender` replaces the broker where a test wants to see what is sent."""
    config = config or configuration.load()
    config.data_dir.mkdir(parents=True, exist_ok=True, mode=DATA_DIR_MODE)
    app = Flask("app", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static"))
    app.extensions["parley_config"] = config
    app.url_map.strict_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    logs.init(config)
    crypto.init_app(config)
    app.config["SECRET_KEY"] = crypto.session_key()
    load_models()
    db.init_app(app, config)
    auth.init_app(app)
    login.init_app(app)
    errors.init_app(app)
    for blueprint in _blueprints():
        app.register_blueprint(blueprint)
    for door in _doors("routes"):
        if hasattr(door, "in_front"):
            app.wsgi_app = door.in_front(app)  # type: ignore[method-assign]
    for _ in _doors("tasks"):
        pass
    jobs.init_app(app, config, sender=sender)
    return app


def load_models() -> None:
    """Imports every models.py, so that the metadata is whole."""
    for _ in _doors("models"):
        pass


def commands() -> list[click.Command]:
    """Every command that a package offers in its commands.py as COMMANDS."""
    return [command for door in _doors("commands") for command in door.COMMANDS]


def _blueprints() -> Iterator[Blueprint]:
    for name in ("routes", "pages"):
        for door in _doors(name):
            yield door.blueprint


def _doors(name: str) -> Iterator[ModuleType]:
    for package in PACKAGES:
        module = discover.submodule(f"app.{package}", name)
        if module is not None:
            yield module
