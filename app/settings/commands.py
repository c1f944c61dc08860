"""Commands about settings and model endpoints. Secrets come from stdin or a prompt, never from an argument."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.infra import cli
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say
from app.llm import catalog
from app.settings import endpoints, schema, store
from app.settings.endpoints import EndpointInfo


@click.group("settings", help="What an administrator changes while Parley runs.")
def settings_group() -> None:
    """Holds the commands about settings."""


@settings_group.command("show")
@cli.json_option
def settings_show(as_json: bool) -> None:
    """Shows every setting, its value and its limits."""
    found = store.show()
    rows = [
        (each["name"], schema.written(each["value"]), "" if each["is_default"] else "*", each["about"])
        for each in found
    ]
    cli.output(found, as_json, lambda: cli.table(rows, head=("name", "value", "set", "about")))


@settings_group.command("get")
@click.argument("name")
@cli.json_option
def settings_get(name: str, as_json: bool) -> None:
    """Shows one setting; a secret stays masked."""
    found = store.show([name])[0]
    cli.output(found, as_json, schema.written(found["value"]))


@settings_group.command("set")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the value of a secret from stdin.")
@click.option("--clear", is_flag=True, help="Go back to the default; deletes a secret.")
@cli.json_option
def settings_set(name: str, value: str | None, *, from_stdin: bool, clear: bool, as_json: bool) -> None:
    """Sets one setting, in a running server too, at once."""
    setting = schema.find(name)
    if clear:
        store.clear(name)
    elif setting.kind == "secret":
        if value is not None:
            raise BadInput(say("A secret comes from --stdin or the prompt: arguments can be read by others."))
        store.set(name, cli.secret(from_stdin=from_stdin or not sys.stdin.isatty(), prompt=say("New value")))
    elif value is None:
        raise BadInput(schema.limits(setting))
    else:
        store.set(name, schema.parse(setting, value))
    found = store.show([name])[0]
    cli.output(found, as_json, say("{name} is {value}.", name=name, value=schema.written(found["value"])))


@click.group("endpoints", help="The model servers that bots answer with.")
def endpoints_group() -> None:
    """Holds the commands about endpoints."""


@endpoints_group.command("set")
@click.argument("name")
@click.option("--url", help="Its address: the base, with /v1, or the full path of chat completions.")
@click.option("--model", help="The default model of the endpoint; an empty text takes it away.")
@click.option("--allowed-model", "allowed", multiple=True, help="A model that bots may use; several times for more.")
@click.option(
    "--key", "ask_key", is_flag=True, help="Ask for the API key; a new endpoint's is asked for anyway at a terminal."
)
@click.option("--key-stdin", is_flag=True, help="Read the API key from stdin.")
@click.option("--clear-key", is_flag=True, help="Forget the stored API key.")
@cli.json_option
def endpoints_set(
    name: str,
    *,
    url: str | None,
    model: str | None,
    allowed: tuple[str, ...],
    ask_key: bool,
    key_stdin: bool,
    clear_key: bool,
    as_json: bool,
) -> None:
    """Adds a model server, or changes what is given of one."""
    if ask_key or key_stdin:
        key: str | None = cli.secret(from_stdin=key_stdin, prompt=say("API key"))
    else:
        key = _key_of_new(name) if url and not clear_key else None
    saved = endpoints.save(name, url=url, key=key, model=model, allowed_models=allowed or None, clear_key=clear_key)
    told = say("Saved. Try it with: python manage.py endpoints test {name}", name=name)
    cli.output(_endpoint(saved), as_json, told)


@endpoints_group.command("test")
@click.argument("name")
@cli.json_option
def endpoints_test(name: str, as_json: bool) -> None:
    """Asks an endpoint for its models and says in one sentence what is wrong."""
    if name != endpoints.OFFLINE and endpoints.get(name) is None:
        raise NotFound(say("There is no endpoint named {name}.", name=name[:64]))
    result = catalog.test(name)
    shown = {"ok": result.ok, "models": list(result.models), "message": str(result.message)}
    cli.output(shown, as_json, result.message)
    if not result.ok:
        raise SystemExit(1)


@endpoints_group.command("list")
@cli.json_option
def endpoints_list(as_json: bool) -> None:
    """Lists the endpoints, the oldest (the primary one) first."""
    found = [_endpoint(info) for info in endpoints.all()]
    rows = [(each["name"], each["url"], each["default_model"], each["key"], each["models_error"]) for each in found]
    cli.output(found, as_json, lambda: cli.table(rows, head=("name", "url", "model", "key", "last error")))


@endpoints_group.command("remove")
@click.argument("name")
@cli.json_option
def endpoints_remove(name: str, as_json: bool) -> None:
    """Deletes an endpoint and its key."""
    endpoints.remove(name)
    cli.output({"name": name, "removed": True}, as_json, say("The endpoint {name} is gone.", name=name))


COMMANDS = [settings_group, endpoints_group]


def _key_of_new(name: str) -> str | None:
    """The key of an endpoint that is not there yet, asked for where somebody can answer; None where it has none."""
    if not sys.stdin.isatty() or endpoints.get(name) is not None:
        return None
    return cli.secret(from_stdin=False, prompt=say("API key (empty when the server wants none)"), optional=True) or None


def _endpoint(info: EndpointInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "url": info.url,
        "key": endpoints.masked(info),
        "default_model": info.default_model,
        "allowed_models": list(info.allowed_models),
        "models": [model.id for model in info.models],
        "models_error": info.models_error,
    }
