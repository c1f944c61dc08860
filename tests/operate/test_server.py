from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.fakes import processes, services

pytestmark = pytest.mark.process

HELD_SECONDS = 15.0
STOP_SECONDS = 10.0


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=60)


def answer_of(opened: socket.socket) -> bytes:
    received = b""
    while data := opened.recv(65536):
        received += data
    return received


def test_a_fresh_clone_answers_soon_tells_how_to_try_it_and_ends_with_its_terminal(tmp_path: Path) -> None:
    with processes.server(tmp_path / "var") as server:
        for told in (server.url, "talk simulate sandbox", "endpoints set primary"):
            assert server.says(told)
        assert oct((tmp_path / "var").stat().st_mode)[-3:] == "700"
        assert server.ended_after(signal.SIGINT) < STOP_SECONDS
        assert server.popen.returncode == 0
        assert "Traceback" not in server.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything_although_connections_stay_open(tmp_path: Path, number: int) -> None:
    with processes.server(tmp_path) as server:
        silent, halfway = connect(server.url), connect(server.url)
        halfway.sendall(b"POST /webhook/talk/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        time.sleep(0.2)
        assert server.ended_after(number) < STOP_SECONDS
        assert not alive_in_group(server.popen.pid)
        silent.close()
        halfway.close()


def test_a_port_in_use_is_one_sentence_and_exit_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = processes.command(tmp_path, "run", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "can't listen on 127.0.0.1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with processes.server(tmp_path):
        done = processes.command(tmp_path, "run", "--port", str(processes.free_port()))
    assert done.returncode == 1
    assert "Another Parley runs" in done.stderr


def test_a_bad_variable_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    done = processes.command(tmp_path, "run", values={"PARLEY_PORT": "eighty"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "PARLEY_PORT" in done.stderr


def test_a_key_that_is_too_short_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    done = processes.command(tmp_path, "run", values={"PARLEY_SECRET_KEY": "short"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "PARLEY_SECRET_KEY" in done.stderr


def test_connections_that_their_peers_keep_open_can_not_be_abused_to_stop_the_server(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server:
        held = [connect(server.url) for _ in range(12)]
        for opened in held:
            opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        began = time.monotonic()
        assert requests.get(f"{server.url}/healthz", timeout=30).status_code == 200
        # One after the other, each peer would have held the server for two seconds.
        assert time.monotonic() - began < HELD_SECONDS
        for opened in held:
            assert b"200 OK" in answer_of(opened)
            opened.close()


def test_the_address_is_recorded_for_commands(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server:
        with sqlite3.connect(tmp_path / "parley.db") as database:
            stored = database.execute("SELECT value FROM parley_settings WHERE name = 'server_address'").fetchone()
        assert json.loads(stored[0]) == server.url


def test_after_a_power_cut_the_next_start_works_at_once(tmp_path: Path) -> None:
    for _ in range(2):
        with processes.server(tmp_path) as server:
            server.kill()
    with processes.server(tmp_path) as server:
        assert requests.get(f"{server.url}/readyz", timeout=30).status_code == 200


def test_a_worker_whose_parent_was_killed_makes_room_for_the_next_server(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server:
        os.kill(server.popen.pid, signal.SIGKILL)
        with processes.server(tmp_path) as next_server:
            assert requests.get(f"{next_server.url}/readyz", timeout=5).status_code == 200


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server:
        for pid in children(server.popen.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        processes.await_answer(server, "/readyz")


def test_after_a_clean_stop_nobody_says_that_a_worker_runs(tmp_path: Path) -> None:
    def worker() -> bool:
        told = json.loads(processes.command(tmp_path, "doctor", "--json").stdout)
        return next(bool(part["ok"]) for part in told["parts"] if part["name"] == "worker")

    with processes.server(tmp_path) as server:
        assert worker()
        assert server.ended_after(signal.SIGINT) < STOP_SECONDS
        assert not worker()


def test_without_a_worker_pages_are_served_and_readiness_says_so(tmp_path: Path) -> None:
    with processes.server(tmp_path, "--no-worker", ready=False) as server:
        answer = requests.get(f"{server.url}/readyz", timeout=5)
        assert answer.status_code == 503
        assert answer.json()["parts"] == {"database": True, "worker": False}
        time.sleep(0.5)
        assert "No worker runs here" in server.said


def test_a_sender_that_falls_silent_is_answered_408(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server, connect(server.url) as in_body, connect(server.url) as in_head:
        in_body.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n")
        in_body.sendall(b"Content-Length: 1000\r\n\r\nuid=ad")
        in_head.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ")
        began = time.monotonic()
        assert answer_of(in_body).startswith(b"HTTP/1.1 408")
        assert answer_of(in_head).startswith(b"HTTP/1.1 408")
        assert 5 < time.monotonic() - began < 20


@pytest.mark.long
def test_a_sender_that_drips_is_answered_408(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server, connect(server.url) as opened:
        opened.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n")
        opened.sendall(b"Content-Length: 100000\r\n\r\n")
        began = time.monotonic()
        opened.settimeout(1)
        received = b""
        while not received and time.monotonic() - began < 60:
            opened.sendall(b"a")
            try:
                received = opened.recv(1000)
            except TimeoutError:
                continue
        assert received.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 40


def test_two_hundred_silent_senders_leave_room_for_the_next_request(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server:
        silent = [connect(server.url) for _ in range(200)]
        for opened in silent[:150]:
            opened.sendall(b"POST /webhook/talk/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        began = time.monotonic()
        assert requests.get(f"{server.url}/healthz", timeout=10).status_code == 200
        assert time.monotonic() - began < 6
        for opened in silent:
            opened.close()


def test_a_body_over_the_limit_is_answered_413(tmp_path: Path) -> None:
    with processes.server(tmp_path) as server, connect(server.url) as opened:
        opened.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n")
        opened.sendall(b"Content-Length: 99999999\r\nConnection: close\r\n\r\nuid=")
        assert answer_of(opened).startswith(b"HTTP/1.1 413")


def test_a_worker_of_its_own_needs_a_broker(tmp_path: Path) -> None:
    done = processes.command(tmp_path, "worker")
    assert done.returncode == 1
    assert "PARLEY_BROKER_URL" in done.stderr


@pytest.mark.services
def test_a_web_process_and_two_workers_share_a_broker(tmp_path: Path) -> None:
    with services.broker("redis") as url:
        values = {"PARLEY_BROKER_URL": url}
        processes.command(tmp_path, "db", "upgrade", values=values)
        with (
            processes.manage(tmp_path, "worker", values=values) as first,
            processes.manage(tmp_path, "worker", values=values) as second,
            processes.server(tmp_path, "--no-worker", values=values) as server,
        ):
            assert requests.get(f"{server.url}/readyz", timeout=5).json()["parts"]["worker"] is True
            assert first.ended_after(signal.SIGTERM) < STOP_SECONDS
            assert second.ended_after(signal.SIGINT) < STOP_SECONDS
            assert "Traceback" not in first.said + second.said


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
