"""What the built documentation needs beside its words: a font for equations, names that break."""

import re
import runpy
import subprocess
import xml.etree.ElementTree as ET
from html import unescape

import pytest
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools.ttLib import TTFont

from tests.project.test_docs import PAGES, ROOT, named, read

STATIC = ROOT / "docs" / "_static"
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
EQUATION = re.compile(r"\$\$(.+?)\$\$|\$(\S(?:[^$]*?\S)?)\$", re.S)
# Letters that a browser shows in italics: mathematical ones, of which h has a place of its own.
ITALIC = {
    **{chr(ord("A") + i): chr(0x1D434 + i) for i in range(26)},
    **{chr(ord("a") + i): chr(0x1D44E + i) for i in range(26)},
    **{chr(0x391 + i): chr(0x1D6E2 + i) for i in range(25) if i != 17},
    **{chr(0x3B1 + i): chr(0x1D6FC + i) for i in range(25)},
    "h": "\u210e",
}


def letters_of(equation: str) -> set[str]:
    """All characters that a browser draws for an equation."""
    drawn: set[str] = set()
    mathml = re.sub(r"&(?!lt;|gt;|amp;)\w+;", lambda name: unescape(name[0]), tex2mathml(equation))
    for element in ET.fromstring(mathml).iter():
        text = (element.text or "").strip()
        alone = element.tag.endswith("mi") and element.get("mathvariant") is None
        drawn |= {ITALIC.get(text, text)} if alone and len(text) == 1 else set(text)
    return drawn - {" ", "\u2061"}  # function application is not seen


def test_the_font_of_equations_has_every_letter_of_the_pages():
    with TTFont(STATIC / "fonts" / "stix-two-math.woff") as font:
        assert "MATH" in font  # without it, sub- and superscripts are on the line
        has = set(map(chr, font.getBestCmap()))
    n_equations = 0
    for page in PAGES:
        for block, inline in EQUATION.findall(CODE.sub("", read(page))):
            missing = letters_of(block or inline) - has
            assert not missing, f"{named(page)}, {block or inline}: the font lacks {missing}"
            n_equations += 1
    assert n_equations > 200


def test_the_letters_of_an_equation_are_found():
    assert letters_of(r"\Theta_h \le 2\ln x") == set("\U0001d6e9\u210e≤2ln\U0001d465")


def test_the_font_ships_with_its_licence_and_is_the_one_that_pages_ask_for():
    licence = read(STATIC / "fonts" / "OFL.txt")
    assert "STIX Fonts Project Authors" in licence
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence
    sheet = read(STATIC / "pages.css")
    asked = re.findall(r'url\("([^"]+)"\)', sheet)
    assert asked == ["fonts/stix-two-math.woff"]  # nothing from elsewhere
    assert (STATIC / asked[0]).stat().st_size < 150_000


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/index.md"])
def test_the_installation_without_cuda_is_a_command_that_uv_knows(page):
    command = "uv pip install --torch-backend=cpu ."
    assert command in read(ROOT / page)
    uv = pytest.importorskip("uv").find_uv_bin()
    told = subprocess.run(
        [uv, "pip", "install", "--help"], capture_output=True, text=True, check=True
    )
    backends = re.search(r"--torch-backend <TORCH_BACKEND>(.*?)\n +--", told.stdout, re.S)
    assert "cpu" in backends[1]


@pytest.mark.parametrize(
    ("html", "broken"),
    [
        (
            '<a href="understudy.graph.html">understudy.graph.scalar_product</a>',
            '<a href="understudy.graph.html">understudy.<wbr>graph.<wbr>scalar_product</a>',
        ),
        ("understudy.core.rng", "understudy.<wbr>core.<wbr>rng"),
        ("<code>ServerState.close()</code>", "<code>ServerState.<wbr>close()</code>"),
        ("<td>0.25</td><td>e.g. this.</td>", "<td>0.25</td><td>e.g. this.</td>"),
        (
            "<pre>from <span>a.b</span>\nimport <span>c.d</span></pre><code>e.f</code>",
            "<pre>from <span>a.b</span>\nimport <span>c.d</span></pre><code>e.<wbr>f</code>",
        ),
    ],
)
def test_a_long_name_breaks_after_dots_only(html, broken):
    break_names_at_dots = runpy.run_path(str(ROOT / "docs" / "conf.py"))["break_names_at_dots"]
    assert break_names_at_dots(html) == broken
