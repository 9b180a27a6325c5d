"""The dashboard as a person has it before them: in headless Chromium, over a real server."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import test_report_in_browser as report_tests
from tests.dashboard.compared import BASELINE, OTHER, SEEDS, STUDY, store_chosen_study
from tests.dashboard.played import NAMES, own_run, play, played, refused, stored_run
from tests.dashboard.served import TOKEN, served
from understudy.studies.store.store import FILE

pytestmark = pytest.mark.slow

browser = report_tests.browser  # the fixture: Chromium, started once for this file
PATIENCE = report_tests.PATIENCE
AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text("utf-8")
SERIOUS = ("serious", "critical")
STUDY_FILE = """
name = "watched"
rounds = 100000
seeds = 1
[data]
name = "digits"
n_clients = 6
[model]
name = "softmax"
[local]
lr = 0.1
[strategies]
fedavg = "fedavg"
"""


class Page:
    """A page in a browser's tab, and all that was complained about and asked for meanwhile."""

    def __init__(self, browser, client, **settings):
        self.client, self.origin = client, f"http://127.0.0.1:{client.port}"
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **settings}
        )
        self.context.set_default_timeout(PATIENCE)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.tab = self.context.new_page()
        self.complaints, self.asked = [], []
        self.tab.on(
            "console",
            lambda told: (
                self.complaints.append(told.text) if told.type in ("error", "warning") else None
            ),
        )
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on(
            "response",
            lambda answer: (
                answer.status >= 400 and self.complaints.append(f"{answer.status} {answer.url}")
            ),
        )
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(f"{self.origin}/?token={TOKEN}")
        expect(self.tab.get_by_role("heading", name="Runs", exact=True)).to_be_visible(
            timeout=PATIENCE
        )

    def goto(self, path):
        self.tab.goto(self.origin + path)
        return self.tab

    def run(self, strategy=None):
        runs = self.client.get("/api/overview")["runs"]
        return next(run for run in runs if strategy in (None, run["strategy"]))

    def seen(self, words):
        expect(self.tab.get_by_text(words).first).to_be_visible(timeout=PATIENCE)


@pytest.fixture
def opened(browser):
    """Opens pages on folders; at the end, nobody complained and nothing left the machine."""
    with contextlib.ExitStack() as stack:
        pages = []

        def open_on(*folders, complains=False, **settings):
            page = Page(browser, stack.enter_context(served(*folders)), **settings)
            pages.append((page, complains))
            return page

        yield open_on
        for page, complains in pages:
            page.context.close()
            assert complains or page.complaints == []
            assert {url.split("/")[2] for url in page.asked if not url.startswith("data:")} == {
                page.origin.split("/")[2]
            }


def command(*arguments):
    return [sys.executable, "-m", "understudy", *map(str, arguments)]


@pytest.mark.process
def test_a_study_is_watched_killed_and_resumed(opened, tmp_path):
    """Rounds appear without a reload; a kill is told, though it changes no file; it goes on."""
    study, runs = tmp_path / "watched.toml", tmp_path / "runs"
    study.write_text(STUDY_FILE)
    runs.mkdir()
    page = opened(runs)
    tab = page.tab
    tab.evaluate("window.isTheSamePage = true")
    running = subprocess.Popen(command("run", study, "--folder", runs), stdout=subprocess.DEVNULL)
    try:
        expect(tab.locator("tbody tr .badge.running")).to_be_visible(timeout=PATIENCE)
        tab.locator("tbody tr a").first.click()
        rounds = tab.locator(".facts .progress")
        expect(rounds).to_contain_text("of 100,000", timeout=PATIENCE)
        before = told_rounds(rounds)
        tab.wait_for_function(MORE_ROUNDS, arg=before)
        tab.locator(".plot.map canvas").wait_for()
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    expect(tab.locator(".facts .badge.stopped")).to_be_visible(timeout=PATIENCE)
    page.seen("The process that wrote this run is gone")
    stopped_at = told_rounds(rounds)
    resumed = subprocess.Popen(command("run", study, "--folder", runs), stdout=subprocess.DEVNULL)
    try:
        expect(tab.locator(".facts .badge.running")).to_be_visible(timeout=PATIENCE)
        tab.wait_for_function(MORE_ROUNDS, arg=stopped_at)
    finally:
        resumed.send_signal(signal.SIGKILL)
        resumed.wait()
    assert tab.evaluate("window.isTheSamePage")


MORE_ROUNDS = """before => {
  const words = document.querySelector('.facts .progress')?.textContent ?? '0';
  return Number(words.split(' ')[0].replaceAll(',', '')) > before;
}"""


def told_rounds(place):
    return int(place.inner_text().split()[0].replace(",", ""))


def test_a_lost_connection_is_told_and_what_was_missed_is_caught_up(browser, tmp_path):
    with own_run(tmp_path / "run") as log:
        play(log, 0, 1)
        with served(tmp_path / "run") as client:
            page = Page(browser, client)
            tab = page.goto(f"/runs/{page.run()['id']}")
            page.seen("2 of 40")
            expect(tab.locator("#connection.live")).to_be_visible(timeout=PATIENCE)
        expect(tab.locator("#connection.lost")).to_be_visible(timeout=PATIENCE)
        play(log, 2, 3, 4)
        with served(tmp_path / "run", port=client.port):  # another server, the same address
            page.seen("5 of 40")
            expect(tab.locator("#connection.live")).to_be_visible(timeout=PATIENCE)
            page.context.close()


def test_a_link_leads_to_the_cast_of_a_round_with_the_numbers_of_the_store(opened, tmp_path):
    stored_run(tmp_path, n_rounds=4)
    page = opened(tmp_path)
    tab = page.goto(f"/runs/{page.run()['id']}?round=2")
    page.seen("Cast of round 2")
    rows = [
        [cell.strip() for cell in row.locator("th, td").all_inner_texts()]
        for row in tab.locator(".cast tbody tr").all()
    ]
    assert rows == [
        ["hospital-b", "missing", "hospital-a", "0.25", "33.3 %"],
        ["hospital-a", "came", "itself", "0.25", "33.3 %"],
        ["hospital-c", "came", "itself", "0.25", "33.3 %"],
    ]
    assert played(1).coef.tolist() == [0.25] * 3
    page.seen("1 client represented by nobody")


def test_a_round_of_the_map_opens_its_cast_by_mouse_and_by_keys(opened, tmp_path):
    stored_run(tmp_path, n_rounds=4)
    page = opened(tmp_path)
    tab = page.goto(f"/runs/{page.run()['id']}")
    over = tab.locator(".plot.map .u-over")
    box = over.bounding_box()
    over.click(position={"x": box["width"] * 2.5 / 4, "y": box["height"] * 0.5 / 4})
    page.seen("Cast of round 3")
    assert tab.url.endswith("?round=3")
    area = tab.get_by_role("application")
    area.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        area.press(key)
    page.seen("Cast of round 4")
    expect(tab.locator(".readout").first).to_contain_text(
        "round 4, hospital-b: missing; represented by another client"
    )


def test_the_map_zooms_and_shows_everything_again(opened, tmp_path):
    stored_run(tmp_path, n_rounds=30)
    page = opened(tmp_path)
    tab = page.goto(f"/runs/{page.run()['id']}")
    over = tab.locator(".plot.map .u-over")
    over.hover(position={"x": 2, "y": 5})
    readout = tab.locator(".readout").first
    expect(readout).to_contain_text("round 1, ")
    for _ in range(3):
        tab.get_by_role("button", name="Zoom in").click()
    over.hover(position={"x": 4, "y": 5})
    expect(readout).not_to_contain_text("round 1, ")
    tab.get_by_role("button", name="Show all rounds").click()
    over.hover(position={"x": 2, "y": 6})
    expect(readout).to_contain_text("round 1, ")


def test_strategies_are_compared_and_the_table_is_copied(opened, tmp_path):
    page = opened(store_chosen_study(tmp_path))
    tab = page.goto(f"/compare/{page.run()['studyId']}")
    row = tab.locator("tbody tr", has=tab.locator("th", has_text=OTHER))
    # friends is .1 above alone with every seed
    expect(row).to_contain_text("+10.00", timeout=PATIENCE)
    asked = page.client.get(f"/api/studies/{page.run()['studyId']}/comparison")
    for form in ("Markdown", "LaTeX"):
        tab.get_by_role("button", name=f"Copy as {form}").click()
        tab.wait_for_function(
            "words => document.getElementById('announcer').textContent.includes(words)", arg=form
        )
        assert tab.evaluate("navigator.clipboard.readText()") == asked[form.lower()]
    tab.get_by_role("checkbox", name=BASELINE).uncheck()
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert "strategy=friends" in tab.url
    assert STUDY in tab.inner_text("main")


def test_a_comparison_follows_its_study(opened, tmp_path):
    """Runs that are not done are told; when they are, they are in the table without a reload."""
    page = opened(store_chosen_study(tmp_path, seeds=range(3)))
    tab = page.goto(f"/compare/{page.run()['studyId']}")
    page.seen("4 runs of this study are not done, and not in the table.")
    row = tab.locator("tbody tr", has=tab.locator("th", has_text=OTHER))
    expect(row.locator("td").last).to_have_text("3", timeout=PATIENCE)
    expect(tab.locator("#connection.live")).to_be_visible(timeout=PATIENCE)
    tab.evaluate("window.isTheSamePage = true")
    tab.get_by_label("Measure").focus()
    store_chosen_study(tmp_path)
    expect(row.locator("td").last).to_have_text(str(SEEDS), timeout=PATIENCE)
    expect(tab.get_by_text("not in the table")).to_have_count(0, timeout=PATIENCE)
    assert tab.evaluate("[window.isTheSamePage, document.activeElement.tagName]") == [
        True,
        "SELECT",
    ]


def test_news_leave_a_reader_where_they_are(opened, tmp_path):
    with own_run(tmp_path / "run") as log:
        play(log, *range(12))
        page = opened(tmp_path / "run")
        tab = page.goto(f"/runs/{page.run()['id']}")
        expect(tab.locator("#connection.live")).to_be_visible(timeout=PATIENCE)
        tab.get_by_text("Settings").click()
        tab.get_by_role("link", name="Federation").focus()
        play(log, 12)
        expect(tab.locator(".facts .progress")).to_contain_text("13 of 40", timeout=PATIENCE)
        assert tab.locator("details[open] pre").is_visible()
        assert tab.evaluate("document.activeElement.textContent") == "Federation"
        tab = page.goto("/")
        expect(tab.locator("#connection.live")).to_be_visible(timeout=PATIENCE)
        expect(tab.locator("tbody td.spark")).to_contain_text("62.0 %", timeout=PATIENCE)
        link = tab.locator("tbody th a")
        link.focus()
        play(log, 13)
        expect(tab.locator("tbody")).to_contain_text("14 of 40", timeout=PATIENCE)
        expect(tab.locator("tbody td.spark")).to_contain_text("63.0 %", timeout=PATIENCE)
        assert link.evaluate("link => link === document.activeElement")


def test_legends_have_the_last_values_of_all_strategies(opened, tmp_path):
    page = opened(store_chosen_study(tmp_path))
    tab = page.goto(f"/runs/{page.run(OTHER)['id']}")
    legend = tab.locator(".chart", has_text="Test accuracy").locator(".u-legend")
    for strategy, value in ((OTHER, "80.0 %"), (BASELINE, "70.0 %")):
        row = legend.locator(".u-series", has_text=strategy)
        expect(row).to_contain_text(value, timeout=PATIENCE)


def test_a_telephone_shows_lists_whole(opened, tmp_path):
    """At 360 px, states and accuracies of runs, and a cast's last column, without scrolling."""
    long = ("a-hospital-with-a-long-name-of-its-own", *NAMES[1:])
    stored_run(tmp_path, n_rounds=12, names=long, labels={"situation": "anybody may be missing"})
    page = opened(tmp_path, viewport={"width": 360, "height": 900})
    row = page.tab.locator("tbody tr").first
    expect(row.locator(".spark")).to_contain_text("61.0 %", timeout=PATIENCE)
    for part in (".badge", ".spark svg", ".spark .number", ".progress"):
        box = row.locator(part).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    tab = page.goto(f"/runs/{page.run()['id']}?round=2")
    cells = tab.locator(".cast tbody tr td:last-child")
    expect(cells.first).to_be_visible(timeout=PATIENCE)
    for cell in cells.all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= 360


def test_a_person_at_a_site_finds_their_own_row(opened, tmp_path):
    with own_run(tmp_path / "run") as log:
        play(log, *range(12))
        log.append(refused(12))
        log.flush()
        page = opened(tmp_path / "run")
        tab = page.goto(f"/federations/{page.run()['id']}")
        tab.get_by_label("Find a client").fill("tal-d")
        expect(tab.locator("tbody tr")).to_have_count(1)
        row = tab.locator("tbody tr")
        words_of_it = ("hospital-d", "25 % of the examples", "never", "since round 1", "not finite")
        for words in (*words_of_it, "nobody"):
            expect(row).to_contain_text(words)
        expect(tab.locator(".warnings")).to_contain_text("hospital-d")
        expect(tab.locator(".clock")).to_contain_text("Round 14 is under way")
        expect(tab.locator(".clock")).to_contain_text("Deadline 60 s")
        play(log, 13)
        expect(tab.locator(".facts")).to_contain_text("14 of 40", timeout=PATIENCE)
        assert tab.get_by_label("Find a client").input_value() == "tal-d"


HOSTILE = (
    "<script>window.hacked = 1</script>",
    "x" * 10_000,
    "\u202e\u05d0\u05d1",
    "\x1b[31m<img src=x onerror=hacked=1>",
)


def test_hostile_names_stay_text(opened, tmp_path):
    stored_run(tmp_path, names=HOSTILE, labels={"site": "<b onclick=hacked=1>\u202e"})
    page = opened(tmp_path, viewport={"width": 400, "height": 800})
    run = page.run()["id"]
    for path in ("/", f"/runs/{run}?round=1", f"/federations/{run}"):
        tab = page.goto(path)
        tab.locator(".name").first.wait_for()
        tab.wait_for_timeout(300)
        assert tab.evaluate(
            "[window.hacked, document.querySelectorAll('main script, main img, main b').length]"
        ) == [None, 0]
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    expect(tab.locator("tbody th").first).to_be_visible()
    assert HOSTILE[0] in tab.locator("tbody").inner_text()


def test_a_damaged_store_is_explained(opened, tmp_path):
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    page = opened(tmp_path)
    page.seen("damaged, or no SQLite database")
    tab = page.goto("/runs/0123456789abcdef")
    expect(tab.get_by_role("alert")).to_contain_text("There is no such run")
    page.complaints.clear()  # a browser tells of a 404 by itself


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_pages_are_accessible_and_fit(opened, tmp_path, theme, width):
    store_chosen_study(tmp_path)
    stored_run(tmp_path, n_rounds=12)
    page = opened(tmp_path, color_scheme=theme, viewport={"width": width, "height": 900})
    live, done = page.run("fdms"), page.run(OTHER)
    for path in (
        "/",
        f"/runs/{done['id']}?round=2",
        f"/federations/{live['id']}",
        f"/compare/{done['studyId']}",
    ):
        tab = page.goto(path)
        tab.locator("main table").first.wait_for()
        tab.wait_for_load_state("load")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
        tab.evaluate(AXE)
        found = tab.evaluate("axe.run().then(found => found.violations)")
        serious = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in SERIOUS
        ]
        assert serious == [], path


def test_an_address_with_a_wrong_token_shows_nothing(browser, tmp_path):
    with served(tmp_path) as client:
        context = browser.new_context()
        tab = context.new_page()
        answer = tab.goto(f"http://127.0.0.1:{client.port}/?token=wrong")
        assert answer.status == 401
        assert "Runs" not in tab.inner_text("body")
        # another origin: its pages get neither the cookie nor an answer
        tab.goto(f"http://127.0.0.1:{client.port}/?token={TOKEN}")
        tab.wait_for_url(f"http://127.0.0.1:{client.port}/")
        tab.goto(f"http://localhost:{client.port}/")
        assert "401" in tab.inner_text("body")
        context.close()
