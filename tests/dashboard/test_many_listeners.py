"""Twenty pages open for two hundred rounds: what the server needs stays what it was."""

import http.client
import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.dashboard.played import own_run, play
from tests.dashboard.served import Client

pytestmark = [pytest.mark.slow, pytest.mark.process]

PAGES, FIRST, LAST, AT_A_TIME = 20, 60, 260, 4
FLAT = 12 * 2**20  # bytes: far below what 20 queues of 200 rounds would take with their answers
PATIENCE = 120
TOKEN = "a-token-for-tests-only"


def listen(client, seen, place):
    """One page: it hears of news, and asks for the rounds that it does not have."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
    connection.request("GET", "/api/events", headers={"cookie": client.cookie})
    answer = connection.getresponse()
    while seen[place] < LAST:
        if not answer.readline().startswith(b"data:"):
            continue
        found = client.get(f"{client.run}/columns", since=seen[place])
        seen[place] = found["n"]
    connection.close()


def wait_for(happened):
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_memory_is_flat(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "understudy", "dashboard", str(folder), "--token", TOKEN]
    with own_run(folder) as log:
        play(log, 0)
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        try:
            server.stdout.readline()
            address = server.stdout.readline().strip()
            client = Client(int(address.split(":")[2].partition("/")[0]), None)
            client.enter()
            seen = [0] * PAGES
            threads = [
                threading.Thread(target=listen, args=(client, seen, place), daemon=True)
                for place in range(PAGES)
            ]
            for thread in threads:
                thread.start()
            sizes = []
            for t in range(1, LAST, AT_A_TIME):
                play(log, *range(t, min(t + AT_A_TIME, LAST)))
                if t > FIRST and not sizes:
                    wait_for(lambda t=t: min(seen) >= t)
                    sizes.append(psutil.Process(server.pid).memory_info().rss)
                time.sleep(0.1)
            wait_for(lambda: min(seen) == LAST)
            sizes.append(psutil.Process(server.pid).memory_info().rss)
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()
    assert sizes[1] - sizes[0] < FLAT
