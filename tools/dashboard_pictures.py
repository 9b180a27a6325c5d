"""Pictures of the dashboard: each page at two widths in two themes, and the four of the docs.

``python -m tools.dashboard_pictures FOLDER`` runs the quickstart, writes a live federation that
nobody trained, and puts 16 pictures into FOLDER, to be looked at. Those that docs/dashboard.md
shows are written to docs/_static.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.journal.file import LogFile
from understudy.memory.run_folder import ROUNDS, RunFolder

STATIC = Path(__file__).parents[1] / "docs" / "_static"
WIDTHS, THEMES, HEIGHT = (360, 1440), ("light", "dark"), 900
QUICK_ROUNDS, LIVE_ROUNDS = 40, 34
SITES = tuple(f"hospital-{number}" for number in range(1, 9))
SIZES = (300, 450, 900, 250, 700, 350, 400, 280)
SETTINGS = {
    "data": {"class": "live"},
    "strategy": {"compensator": {"class": "FDMS"}},
    "seed": 1,
    "rounds": 60,
    "timing": {"deadline": 60.0, "quorum": 0.6, "grace": 10.0},
}
# page, width, theme, size, of what is in the docs
SHOWN = {
    "run": ("run", 1080, "light", 1480),
    "federation": ("federation", 1240, "light", 800),
    "compare": ("compare", 360, "dark", 900),
    "overview": ("overview", 360, "light", 900),
}


@contextmanager
def federation(folder: Path) -> Iterator[None]:
    """A live run that is under way: two large sites fall silent, one sends what is refused."""
    lock, log = RunFolder(folder / "server"), LogFile(folder / ROUNDS, 0)
    facts = {"n_clients": len(SITES), "names": SITES, "sizes": SIZES, "left": []}
    log.begin("26" * 16, SETTINGS, facts)
    rng = np.random.default_rng(1)
    for t in range(LIVE_ROUNDS):
        outcome = np.full(len(SITES), Outcome.CAME, dtype=np.int8)
        outcome[rng.random(len(SITES)) < 0.1] = Outcome.UNAVAILABLE
        outcome[[2, 4]] = Outcome.CAME if t < 14 else Outcome.MISSING
        outcome[7] = (Outcome.CAME, Outcome.UNAVAILABLE, Outcome.REFUSED)[int(t / 3) % 3]
        refused = (Refusal(7, Reason.NOT_FINITE, "entry 1,204 of the update is nan"),)
        came = np.flatnonzero(outcome == Outcome.CAME)
        absent = np.array([k for k in (0, 1, 3, 5, 6, 7) if k not in came], dtype=np.int64)
        ids = np.concatenate([came, absent])
        source = np.concatenate([came, came[(absent + 1) % len(came)]])
        measured = {
            "test_accuracy": 0.9 - 0.6 * np.exp(-t / 9) + 0.01 * rng.normal(),
            "test_loss": 2.1 * np.exp(-t / 9) + 0.2,
        }
        coef = np.full(len(ids), 1 / len(ids))
        refusals = refused if outcome[7] == Outcome.REFUSED else ()
        log.append(RoundLog(t, outcome, refusals, ids, source, coef, {}, measured, 42.0 * (t + 1)))
    log.flush()
    try:
        yield
    finally:
        lock.close()


@contextmanager
def dashboard(*folders: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Where the page is, the cookie that opens it, and what its overview tells."""
    command = [sys.executable, "-m", "understudy", "dashboard", *map(str, folders)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    try:
        server.stdout.readline()
        address = server.stdout.readline().strip()
        origin = address.partition("/?")[0]
        with urllib.request.urlopen(address) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        asked = urllib.request.Request(f"{origin}/api/overview", headers={"cookie": cookie})
        with urllib.request.urlopen(asked) as answer:
            yield origin, cookie, json.load(answer)
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def pages(overview: Mapping[str, Any]) -> dict[str, str]:
    """Address of each page."""
    runs = overview["runs"]
    live = next(run for run in runs if run["live"])
    fdms = next(run for run in runs if run["strategy"] == "fdms" and not run["live"])
    return {
        "overview": "/",
        "federation": f"/federations/{live['id']}",
        "run": f"/runs/{fdms['id']}?round=12",
        "compare": f"/compare/{fdms['studyId']}",
    }


@contextmanager
def opened(
    browser: Browser, origin: str, cookie: str, path: str, width: int, theme: Any
) -> Iterator[Page]:
    """A page when all of it is there."""
    size = {"width": width, "height": HEIGHT}
    context = browser.new_context(viewport=size, color_scheme=theme)  # type: ignore[arg-type]
    name, _, value = cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": origin}])
    page = context.new_page()
    page.goto(origin + path)
    page.locator("main table").first.wait_for(timeout=120_000)
    page.wait_for_timeout(3000)  # curves of the other strategies, lines of the overview
    yield page
    context.close()


def main() -> None:
    """Take them."""
    given = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    given.add_argument("folder", type=Path, help="where the 16 pictures go")
    folder: Path = given.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with (
        tempfile.TemporaryDirectory() as place,
        federation((clinics := Path(place) / "clinics") / "run"),
    ):
        runs = Path(place) / "runs"
        study = ["run", "--rounds", str(QUICK_ROUNDS), "--folder", str(runs)]
        subprocess.run([sys.executable, "-m", "understudy", *study], check=True)
        with (
            dashboard(runs, clinics) as (origin, cookie, overview),
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            found = pages(overview)
            for name, path in found.items():
                for width in WIDTHS:
                    for theme in THEMES:
                        with opened(browser, origin, cookie, path, width, theme) as page:
                            picture = folder / f"{name}-{width}-{theme}.png"
                            page.screenshot(path=picture, full_page=True)
            for name, (page_name, width, theme, height) in SHOWN.items():
                path = found[page_name]
                os.utime(clinics / "run" / ROUNDS)  # as if the last round had just ended
                with opened(browser, origin, cookie, path, width, theme) as page:
                    page.set_viewport_size({"width": width, "height": height})
                    page.evaluate("scrollTo(0, 0)")
                    page.wait_for_timeout(500)
                    picture = folder / f"docs-{name}.png"
                    page.screenshot(path=picture)
                with Image.open(picture) as image:
                    made = STATIC / f"dashboard-{name}.webp"
                    image.convert("RGB").save(made, quality=82, method=6)
            browser.close()


if __name__ == "__main__":
    main()
