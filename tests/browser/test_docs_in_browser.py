"""What only a browser can tell of the documentation: where it puts the letters of an equation."""

import pytest
from docutils.utils.math.latex2mathml import tex2mathml

from tests.browser import test_report_in_browser as report_tests
from tests.project.test_docs import ROOT

pytestmark = pytest.mark.slow

browser = report_tests.browser  # the fixture: Chromium, started once for this file
STYLES = ROOT / "docs" / "_static" / "pages.css"


def test_a_subscript_is_below_the_line_and_a_superscript_above(browser, tmp_path):
    sheet = f'<link rel="stylesheet" href="{STYLES.as_uri()}">'
    page = tmp_path / "page.html"
    page.write_text(
        f"<!doctype html>{sheet}<p>{tex2mathml('R_i')} and {tex2mathml('K^2')}</p>", "utf-8"
    )
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(page.as_uri(), timeout=report_tests.PATIENCE)
    fonts = opened.evaluate("document.fonts.ready.then(all => [...all].map(font => font.status))")
    assert fonts == ["loaded"]
    letters = opened.locator("msub > *, msup > *").all()
    base, below, power, above = (letter.bounding_box() for letter in letters)
    context.close()

    def middle(box):
        return box["y"] + box["height"] / 2

    assert middle(below) > middle(base) + 0.2 * base["height"]
    assert middle(above) < middle(power) - 0.2 * power["height"]
    assert below["height"] < base["height"]
