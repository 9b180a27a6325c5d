"""The report as a reader sees it: opened in headless Chromium from the disk."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.studies.small_study import NAME, store_small_study
from understudy.studies.report.report import write_report
from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.frames import results
from understudy.studies.store.store import Store

pytestmark = pytest.mark.slow

WIDTHS = (1280, 500, 400)
PATIENCE = 120_000  # milliseconds: a busy machine may take long to start a browser
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def chromium_path():
    """The system's Chromium. Without one the tests are skipped, but in CI they fail."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = f"no Chromium on the path (looked for {', '.join(NAMES)})"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.fixture(scope="module")
def browser():
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # its sandbox needs rights that containers do not give; the page is our own
        opened = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=PATIENCE
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return store_small_study(tmp_path_factory.mktemp("runs with a space"), broken=(3,))


@pytest.fixture(scope="module")
def report(runs) -> Path:
    return write_report(runs, NAME)


@pytest.fixture(params=WIDTHS)
def page(request, browser, report):
    """The page at a width, and all that was said and asked for meanwhile."""
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    opened = context.new_page()
    opened.complaints, opened.asked = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.goto(report.as_uri(), wait_until="networkidle", timeout=PATIENCE)
    yield opened
    context.close()


def shown(page, heading):
    """Rows of the table below a heading: lists of the words that are seen."""
    table = page.locator(f"xpath=//h3[normalize-space()='{heading}']/following::table[1]")
    return [
        [cell.strip() for cell in row.locator("th, td").all_inner_texts()]
        for row in table.locator("tbody tr").all()
    ]


def test_nothing_is_complained_about_and_nothing_is_asked_for(page, report):
    assert page.complaints == []
    assert page.asked == [report.as_uri()]


def test_the_numbers_are_those_of_the_store(page, runs):
    frame = results(runs, study=NAME)
    compared = compare(frame)  # by the measure that the report chooses
    words = compared.measure.words
    expected = [
        (row.strategy, f"{row.participants:.1f}", f"{100 * row.mean:.2f}", str(row.seeds))
        for row in compared.rows.itertuples()
    ]
    rows = [row for row in shown(page, words[:1].upper() + words[1:]) if len(row) > 1]
    assert [(row[0], row[1], row[2].split(" ± ")[0], row[-1]) for row in rows] == expected
    assert len(rows) == 8
    # and by hand, for the first of them
    full = frame[frame["strategy"] == "full"]["accuracy_tail"]
    assert rows[0][2].startswith(f"{100 * sum(full) / 3:.2f} ± ")


def test_every_picture_is_drawn(page):
    sizes = page.evaluate(
        "[...document.images].map("
        "i => [i.complete, i.naturalWidth, i.getBoundingClientRect().width])"
    )
    assert len(sizes) > 10
    for complete, natural, width in sizes:
        assert complete
        assert natural > 0
        assert 100 < width <= page.viewport_size["width"]


def test_the_page_itself_never_scrolls_sideways(page):
    """Wide tables scroll by themselves."""
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_a_long_name_leaves_room_for_the_numbers(page):
    """The name stays where it is while numbers scroll past it: a third of a narrow page."""
    cell = page.locator("#results tbody tr:not(:has(.group)) th").first
    cell.evaluate("cell => { cell.textContent = 'a_long_name_of_a_strategy '.repeat(4) }")
    width = cell.evaluate("cell => cell.getBoundingClientRect().width")
    if page.viewport_size["width"] < 576:
        assert width <= 9 * 16 + 16


def test_tables_scroll_by_themselves_where_they_do_not_fit(page):
    """On a narrow page the main table is wider than its box; its last column can be reached."""
    box = page.locator("#results .wide")
    sizes = box.evaluate("box => [box.clientWidth, box.scrollWidth]")
    if page.viewport_size["width"] < 1000:
        assert sizes[1] > sizes[0]
        last = box.locator("tbody tr:last-child td:last-child").last
        box.evaluate("box => { box.scrollLeft = box.scrollWidth }")
        right = last.evaluate("cell => cell.getBoundingClientRect().right")
        assert right <= page.viewport_size["width"]
        assert page.evaluate("window.scrollX") == 0
        # the names of the strategies stay in sight
        first = box.locator("tbody tr:last-child th:first-child").last
        assert first.evaluate("cell => cell.getBoundingClientRect().left") >= 0
    else:
        assert sizes[1] == sizes[0]


def test_the_contents_lead_to_their_sections(page):
    links = page.locator("nav a")
    assert links.count() > 8
    for place in range(links.count()):
        link = links.nth(place)
        target = page.locator(f"section{link.get_attribute('href')}")
        assert target.locator("h2").first.inner_text() == link.inner_text()
        link.click()
        top = target.evaluate("section => section.getBoundingClientRect().top")
        room = page.evaluate(
            "document.documentElement.scrollHeight - window.scrollY - window.innerHeight"
        )
        assert abs(top) < 60 or room < 2  # at the top of the window, or as far as it scrolls
    assert page.asked[1:] == []


def test_it_begins_with_what_came_out(page):
    headings = page.locator("h2").all_inner_texts()
    assert headings[:3] == ["What came out", "Failed cells", "Strategies"]
    assert "with 3 seeds this may be chance" in page.locator("#results").inner_text()


def test_what_is_folded_away_can_be_opened(page):
    summary = page.get_by_text("All cells")
    table = page.locator("#cells table")
    assert not table.is_visible()
    summary.click()
    assert table.is_visible()
    assert table.locator("tbody tr").count() == 21
    assert table.locator("td.failed").count() == 1


def test_dark_and_light_can_both_be_read(browser, report):
    """Contrast of the text with its ground, by WCAG 2: at least 7."""
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(report.as_uri())
        colours = page.evaluate(
            "(() => { const s = getComputedStyle(document.body); "
            "return [s.color, s.backgroundColor] })()"
        )
        light, dark = sorted(map(luminance, colours), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 7
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_follow_the_page(browser, report, scheme):
    """Pixels of what is seen: a picture's ground is the page's, and its text stands out."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(report.as_uri(), wait_until="networkidle", timeout=PATIENCE)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    expected = [int(part) for part in ground.removeprefix("rgb(").rstrip(")").split(",")]
    for section in ("convergence", "differences", "similarity-of-clients"):
        shot = page.locator(f"#{section} img").first.screenshot()
        pixels = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)
        assert np.abs(pixels[4:8, 4:8] - expected).max() <= 2, section
        furthest = np.abs(pixels - expected).min(axis=2).max()
        assert furthest > 150, section  # grey to black on white, or to white on black: its text
    context.close()


def test_a_round_of_the_map_opens_its_cast(page, report, runs):
    """The map is drawn from what is in the file, and its numbers are those of the store."""
    choice = page.locator("#maps select").first
    choice.select_option(label="fdms, alpha 0.5")
    over = page.locator("#maps .u-over")
    over.wait_for(timeout=PATIENCE)
    painted = page.locator("#maps canvas").evaluate(
        "one => new Set(new Uint32Array(one.getContext('2d')"
        ".getImageData(0, 0, one.width, one.height).data.buffer)).size"
    )
    assert painted > 3  # those who came, friends, the ground, letters
    box = over.bounding_box()
    over.click(position={"x": box["width"] / 2, "y": box["height"] / 12})  # round 2 of 3
    rows = page.locator("#maps .cast tbody tr")
    page.get_by_role("heading", name="Cast of round 2").wait_for(timeout=PATIENCE)
    with Store.open(runs) as store:
        (cell,) = (
            cell
            for cell in store.cells(NAME)
            if (cell.labels["strategy"], cell.labels["alpha"], cell.seed) == ("fdms", 0.5, 0)
        )
        (log,) = store.logs(cell.key, 1, 2)
    assert (log.ids != log.source).any()
    expected = sorted(
        (str(who), "itself" if who == source else str(source), f"{coef:.4g}")
        for who, source, coef in zip(log.ids, log.source, log.coef, strict=True)
    )
    seen = [row.locator("th, td").all_inner_texts() for row in rows.all()]
    assert sorted((row[0], row[2], row[3]) for row in seen) == expected
    accuracy = page.locator("#maps .cast dd").all_inner_texts()
    assert f"{log.metrics['test_accuracy']:.4g}" in accuracy
    page.get_by_role("button", name="Next round").click()
    page.get_by_role("heading", name="Cast of round 3").wait_for(timeout=PATIENCE)
    page.get_by_label("Clients by").select_option("left out")
    page.locator("#maps .map").press("ArrowRight")
    assert page.complaints == []
    assert page.asked == [report.as_uri()]
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_without_scripts_there_are_pictures_of_attendance(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#attendance img").count() == 2
    assert page.locator("#attendance img").first.is_visible()
    assert "With scripts allowed" in page.locator("#attendance").inner_text()
    context.close()


def test_the_width_of_a_window_is_used(browser, report):
    """At 1280 px tables and rows of pictures reach from edge to edge."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(report.as_uri(), wait_until="networkidle", timeout=PATIENCE)
    for place in ("#results table", "#clients table", "#convergence .pictures", "nav"):
        width = page.locator(place).first.evaluate("one => one.getBoundingClientRect().width")
        assert width > 1200, place
    context.close()


def luminance(colour):
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
