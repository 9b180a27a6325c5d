"""A real server on a real socket, and somebody who asks it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import numpy as np
import uvicorn

from understudy.dashboard.app import dashboard_app

TOKEN = "a-token-for-tests-only"


@dataclass
class Answer:
    status_code: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def text(self):
        return self.content.decode(errors="replace")

    def json(self):
        return json.loads(self.content)


class Client:
    """Asks as a browser would, but says whatever it is told to say."""

    def __init__(self, port, hub, token=TOKEN):
        self.port, self.hub, self.token, self.cookie = port, hub, token, ""

    def request(self, method, path, params=None, headers=None, cookie=None):
        address = f"{path}?{urlencode(params)}" if params else path
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            told = {"host": f"127.0.0.1:{self.port}", "cookie": cookie or self.cookie}
            connection.putrequest(method, address, skip_host=True)
            for name, value in {**told, **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def ask(self, path, params=None, headers=None, cookie=None):
        return self.request("GET", path, params, headers, cookie)

    def enter(self):
        answer = self.ask("/", {"token": self.token})
        assert answer.status_code == 200, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path, **parameters):
        """What an address answers: JSON, or columns."""
        answer = self.ask(path, parameters)
        assert answer.status_code == 200, answer.text
        if "json" in answer.headers["content-type"]:
            return answer.json()
        return unpacked(answer.content)

    @property
    def run(self):
        return f"/api/runs/{self.get('/api/overview')['runs'][0]['id']}"


@contextmanager
def served(*folders, host="127.0.0.1", port=0):
    """A client of a server for these folders, let in."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        port = listening.getsockname()[1]
        app = dashboard_app(folders, token=TOKEN, host=host, port=port)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)
        client = Client(port, app.app.state.hub)
        client.enter()
        try:
            yield client
        finally:
            server.should_exit = True
            thread.join(30)


def unpacked(body):
    """What `understudy.views.wire.packed` made, read as the page reads it."""
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    begin = -(-(4 + length) // 8) * 8
    kinds = {"Uint8Array": "u1", "Int32Array": "<i4", "Float32Array": "<f4"}
    for field in head["fields"]:
        n = int(np.prod(field["shape"], dtype=np.int64))
        array = np.frombuffer(body, kinds[field["kind"]], n, begin + field["offset"])
        head[field["name"]] = array.reshape(field["shape"])
    return head
