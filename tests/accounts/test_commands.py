"""Commands about instances, people and tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from app.accounts import directory, people, tokens
from app.accounts.commands import COMMANDS
from app.infra import crypto
from app.infra.errors import BadInput, NotAllowed, NotFound, ParleyError
from tests.accounts.conftest import PASSWORD, House

GROUPS = {str(group.name): group for group in COMMANDS}


def run(words: str, *more: str, stdin: str | None = None) -> Result:
    group, *rest = words.split()
    return CliRunner().invoke(GROUPS[group], [*rest, *more], input=stdin)


def printed(words: str, *more: str, stdin: str | None = None) -> Any:
    result = run(words, *more, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def refusal(words: str, *more: str, stdin: str | None = None) -> ParleyError:
    result = run(words, *more, stdin=stdin)
    assert result.exit_code != 0
    assert isinstance(result.exception, ParleyError)
    return result.exception


def test_an_instance_is_added_and_listed(app: Flask) -> None:
    made = printed("instances add cloud --url https://cloud.example.test/")
    assert {"id", "name", "url"} <= set(made)
    assert (made["name"], made["url"]) == ("cloud", "https://cloud.example.test")
    printed("instances add home --url https://home.example.test --kind personal --domain home.example.test")
    assert [each["name"] for each in printed("instances list")] == ["cloud", "home"]
    assert "cloud.example.test" in run("instances list").output


def test_a_person_is_added_to_the_only_instance(app: Flask) -> None:
    printed("instances add cloud --url https://cloud.example.test")
    made = printed("users add ada --admin --operator --groups staff,lab --password-stdin", stdin=PASSWORD + "\n")
    assert (made["instance"], made["uid"], made["admin"], made["operator"]) == ("cloud", "ada", True, True)
    assert (made["groups"], made["has_password"]) == (["lab", "staff"], True)
    person = people.get(made["id"])
    assert person is not None
    assert crypto.password_fits(PASSWORD, str(person.password_hash))


def test_adding_again_changes_only_what_is_given(house: House) -> None:
    directory.remember(house.carol.id, groups=directory.named(["staff"]))
    again = printed("users add carol --display-name Carol --teams core --instance cloud")
    assert (again["id"], again["admin"], again["display_name"]) == (house.carol.id, True, "Carol")
    assert (again["groups"], again["teams"], again["has_password"]) == (["staff"], ["core"], True)
    assert printed("users add carol --no-admin --instance cloud")["admin"] is False


def test_without_an_instance_people_live_in_the_sandbox(app: Flask) -> None:
    assert printed("users add ada")["instance"] == "sandbox"


def test_several_instances_are_listed_instead_of_guessed(house: House) -> None:
    assert "cloud, other" in str(refusal("users add eve"))
    assert isinstance(refusal("users add eve --instance nowhere"), BadInput)


@pytest.mark.parametrize("password", ["", "short\n", "x" * 1025])
def test_a_bad_password_makes_nobody(house: House, password: str) -> None:
    problem = refusal("users add eve --instance cloud --password-stdin", stdin=password)
    assert list(problem.fields) == ["password"]
    assert people.find(house.cloud.id, "eve") is None


def test_a_bad_group_makes_nobody(house: House) -> None:
    assert isinstance(refusal("users add eve --instance cloud --groups", "x" * 191), BadInput)
    assert people.find(house.cloud.id, "eve") is None


def test_people_are_listed_by_instance_or_all(house: House) -> None:
    assert len(printed("users list")) == 5
    assert [each["uid"] for each in printed("users list --instance other")] == ["ada"]
    assert "carol" in run("users list").output


def test_a_token_is_printed_once_and_works(house: House) -> None:
    made = printed("tokens add --user ada --scope user --instance cloud")
    assert set(made) == {"id", "token", "expires_at"}
    identity = tokens.verify(made["token"])
    assert identity is not None
    assert identity.uid == "ada"
    listed = run("tokens list --instance cloud --json").output
    assert made["token"] not in listed
    assert tokens.digest(made["token"]) not in listed
    assert json.loads(listed)[0]["user"] == "ada"
    printed("tokens revoke", str(made["id"]))
    assert tokens.verify(made["token"]) is None
    assert isinstance(refusal("tokens revoke", str(made["id"])), NotFound)


def test_a_domain_gets_a_token_with_permissions(app: Flask) -> None:
    printed("instances add home --url https://home.example.test --kind personal --domain home.example.test")
    made = printed("tokens add --domain home.example.test --allow io.cozy.files:GET --allow io.cozy.ai.*")
    identity = tokens.verify(made["token"])
    assert identity is not None
    assert identity.allow == ("io.cozy.files:GET", "io.cozy.ai.*")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("tokens add --scope user --instance cloud", BadInput),
        ("tokens add --user ada --instance cloud", BadInput),
        ("tokens add --user eve --scope user --instance cloud", NotFound),
        ("tokens add --user ada --scope administrator --instance cloud", NotAllowed),
        ("tokens add --domain nowhere.test --scope operator", NotFound),
        ("tokens add --user ada --scope user --days 0 --instance cloud", BadInput),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(house: House, words: str, kind: type[ParleyError]) -> None:
    assert isinstance(refusal(words), kind)


def test_no_command_takes_a_secret_as_an_argument() -> None:
    for group in COMMANDS:
        for command in group.commands.values():
            takes = [str(each.name) for each in command.params if not getattr(each, "is_flag", False)]
            assert not [name for name in takes if "password" in name or "secret" in name or name == "key"]
