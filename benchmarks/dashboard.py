"""How long the dashboard takes to show a run of 1,000 rounds × 1,000 clients: dashboard.json.

``python benchmarks/dashboard.py`` writes a run that nobody trained, starts the dashboard and opens
the run's page in headless Chromium. The page's own performance marks are read: its first paint, its
first map, its curves, and when all rounds were shown. "first": the server has just started and has
read nothing; "again": it has. Medians of the repetitions, in milliseconds from the navigation.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from understudy._version import __version__
from understudy.core.types import Outcome, RoundLog
from understudy.studies.store.live import LiveLog

N_CLIENTS = N_ROUNDS = 1000
TIMES = 5
TOKEN = "a-token-of-the-benchmark"
RESULT = Path(__file__).with_suffix(".json")
MARKS = """() => Object.fromEntries([
  ...performance.getEntriesByType('paint').map((one) => [one.name, one.startTime]),
  ...performance.getEntriesByType('mark').map((one) => [one.name, one.startTime]),
])"""


def write_run(folder: Path) -> None:
    """Clients come and go in stretches; friends stand in for four of five who are away."""
    log, rng = LiveLog(folder, "large"), np.random.default_rng(0)
    settings = {"strategy": {"compensator": {"class": "FDMS"}}, "seed": 0, "rounds": N_ROUNDS}
    names = [f"client-{k}" for k in range(N_CLIENTS)]
    log.begin("12" * 16, settings, {"n_clients": N_CLIENTS, "names": names})
    there, often = np.ones(N_CLIENTS, dtype=bool), rng.beta(2, 1, N_CLIENTS)
    for t in range(N_ROUNDS):
        changes = rng.random(N_CLIENTS) < 0.1
        there = np.where(changes, rng.random(N_CLIENTS) < often, there)
        came, away = np.flatnonzero(there), np.flatnonzero(~there)
        friends = rng.choice(came, len(away))
        heard = rng.random(len(away)) < 0.8
        ids = np.concatenate([came, away[heard]])
        outcome = np.where(there, Outcome.CAME, Outcome.MISSING).astype(np.int8)
        source, coef = np.concatenate([came, friends[heard]]), np.full(len(ids), 1 / N_CLIENTS)
        measured = {"test_accuracy": 1 - np.exp(-t / 200), "test_loss": np.exp(-t / 200)}
        log.append(RoundLog(t, outcome, (), ids, source, coef, {}, measured, clock=float(t)))
    log.flush()
    log.finish()


def opened(browser: Browser, folder: Path) -> list[dict[str, float]]:
    """The marks of the run's page, the first time and again, from a new server."""
    command = [sys.executable, "-m", "understudy", "dashboard", str(folder), "--token", TOKEN]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    assert server.stdout is not None
    try:
        server.stdout.readline()
        address = server.stdout.readline().strip()
        origin = address.partition("/?")[0]
        with urllib.request.urlopen(address) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        asked = urllib.request.Request(f"{origin}/api/overview", headers={"cookie": cookie})
        with urllib.request.urlopen(asked) as answer:
            run = json.load(answer)["runs"][0]["id"]
        name, _, value = cookie.partition("=")
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": name, "value": value, "url": origin}])
        found = []
        for _ in range(2):
            page = context.new_page()
            page.goto(f"{origin}/runs/{run}")
            page.wait_for_function(
                "() => performance.getEntriesByName('understudy-whole').length > 0", timeout=120_000
            )
            found.append(page.evaluate(MARKS))
            page.close()
        context.close()
        return found
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def main() -> None:
    """Measure, print and write."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        write_run(Path(place))
        chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pairs = [opened(browser, Path(place)) for _ in range(TIMES)]
        version = browser.version
        browser.close()
    told: dict[str, Any] = {
        "rounds": N_ROUNDS,
        "clients": N_CLIENTS,
        "repetitions": TIMES,
        "understudy": __version__,
        "chromium": version,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
    }
    for place, when in enumerate(("first", "again")):
        names = pairs[0][place]
        told[when] = {
            name: round(statistics.median(pair[place][name] for pair in pairs)) for name in names
        }
    RESULT.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
