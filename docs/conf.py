"""Sphinx configuration. Nothing is fetched from the network, at build time or by a reader."""

import re
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "Understudy"
author = "The Understudy developers"
copyright = author
version = release = installed_version("understudy-fl")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters name the types
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"Understudy {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"  # browsers draw it themselves: no script from elsewhere


def inline_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_math(writer: Any, node: nodes.math_block) -> None:
    writer.body.append('<div class="math">')
    writer.body.append(tex2mathml(node.astext(), as_block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


# A text that is one dotted name, such as understudy.graph.scalar_product or ServerState.close().
DOTTED_NAME = re.compile(r"(?:^|(?<=>))[^\W\d]\w*(?:\.[^\W\d]\w*)+(?:\(\))?(?=<|$)")
CODE_BLOCK = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)


def break_names_at_dots(html: str) -> str:
    """Let a long name go on in the next line after a dot, and not in mid-word.

    Not in a block of code, whose lines are what they are: a browser breaks them there, too.
    """
    parts = CODE_BLOCK.split(html)
    parts[::2] = [
        DOTTED_NAME.sub(lambda name: name[0].replace(".", ".<wbr>"), part) for part in parts[::2]
    ]
    return "".join(parts)


def mend_page(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for part in ("body", "toc", "furo_navigation_tree"):
        context[part] = break_names_at_dots(context.get(part) or "")
    for neighbour in filter(None, (context.get("prev"), context.get("next"))):
        neighbour["title"] = break_names_at_dots(neighbour["title"])


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("html-page-context", mend_page, priority=900)  # after the theme
