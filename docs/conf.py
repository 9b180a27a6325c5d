"""Sphinx configuration. Nothing is fetched from the network at build time."""

from importlib.metadata import version as installed_version

project = "Understudy"
author = "The Understudy developers"
copyright = author
version = release = installed_version("understudy-fl")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
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
