from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.infra import http, netguard
from app.platforms.base import Address
from app.platforms.nextcloud_talk import client
from tests.fakes.talk_server import Fault, TalkServer, recorded

SECRET = "s3cret-" * 9


def test_in_a_process_of_its_own_it_writes_down_what_came(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    command = [sys.executable, "-m", "tests.fakes.talk_server", "--secret", SECRET, "--record", str(record)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            for text in ("first", "second"):
                assert client.post(Address(1, 1, url, SECRET), "r00m", text, reference_id="r").kind == "success"
        finally:
            process.kill()
    assert [post.text for post in recorded(record)] == ["first", "second"]


def test_a_client_that_follows_a_redirect_is_caught() -> None:
    with TalkServer(SECRET) as talk:
        talk.fail(Fault.redirect())
        http.request(
            "POST",
            f"{talk.url}/ocs/v2.php/apps/spreed/api/v1/bot/r/message",
            guard=netguard.ADMIN,
            allow_redirects=True,
        )
        with pytest.raises(AssertionError, match="redirect"):
            talk.check()


def test_a_client_without_the_ocs_header_is_caught() -> None:
    with TalkServer(SECRET) as talk:
        answer = http.request(
            "POST", f"{talk.url}/ocs/v2.php/apps/spreed/api/v1/bot/r/message", guard=netguard.ADMIN, json={}
        )
        assert answer.status == 412
        with pytest.raises(AssertionError, match="OCS"):
            talk.check()


def test_faults_meet_the_requests_that_they_are_for() -> None:
    with TalkServer(SECRET) as talk:
        address = Address(1, 1, talk.url, SECRET)
        talk.fail(Fault(503, of="reaction"))
        assert client.post(address, "r00m", "hi", reference_id="r").kind == "success"
        assert client.react(address, "r00m", 5, "👀").status == 503
        assert client.react(address, "r00m", 5, "👀").status == 201
        assert talk.reactions == {("r00m", 5): ["👀"]}
        with talk.failing(Fault(502)):
            assert client.post(address, "r00m", "hi", reference_id="r").status == 502
        assert talk.texts == ["hi"]
