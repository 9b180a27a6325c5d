"""The views as a script in a file that needs no server: modules joined, without a bundler."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

_IMPORT = re.compile(r"^import (?:(\w+)|\{([^}]*)\}) from '\./([\w/.]+)';$", re.M)
_EXPORTED = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.M)
_LIST = re.compile(r"^export \{([^}]*)\};$", re.M)
_REST = re.compile(r"^(?:import|export)\b.*$", re.M)
_COMMENT = re.compile(r"^/\*.*?\*/", re.M | re.S)  # which may hold code that is out of use
_MARKUP = re.compile(r"</script|<script|<!--", re.I)
_STYLES = ("vendor/uplot/uPlot.min.css", "views.css")
_LICENCES = ("vendor/uplot/LICENSE",)


def static_file(name: str) -> str:
    """The text of a file below ``views/static``."""
    return (files("understudy.views") / "static" / name).read_text("utf-8")


def styles() -> str:
    """The style sheets of the views; colours are variables of the page."""
    return "\n".join(map(static_file, _STYLES))


def script(entry: str) -> str:
    """One classic script: the modules that `entry` imports, each in a function, and `entry` last.

    Import maps and ``blob:`` addresses would need a policy that lets more than this script in.

    Parameters
    ----------
    entry : str
        The text of a module; it imports from ``./``, which is ``views/static``.
    """
    joined: dict[str, str] = {}
    last = _as_function(entry, "the entry", joined, ())
    notices = [f"/*\n{static_file(name).strip()}\n*/" for name in _LICENCES]
    text = "\n".join([*notices, "(() => {", "'use strict';", *joined.values(), f"{last};", "})();"])
    found = _MARKUP.search(text)
    if found is not None:
        raise ValueError(f"a script in a page: expected none of its markup, got {found[0]!r}")
    return f"\n{text}\n"


def hash_source(text: str) -> str:
    """What a Content-Security-Policy calls an inline script with this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _as_function(text: str, name: str, joined: dict[str, str], above: tuple[str, ...]) -> str:
    """A call that gives what a module exports; the modules that it imports come into `joined`."""
    text = _COMMENT.sub("", text)
    given: dict[str, str] = {found[1]: found[1] for found in _EXPORTED.finditer(text)}
    for found in _LIST.finditer(text):
        given |= {exported: own for own, exported in _pairs(found[1])}

    def imported(found: re.Match[str]) -> str:
        other = found[3]
        if other in (*above, name):
            raise ValueError(f"{name}: expected imports without a cycle, got {other}")
        if other not in joined:
            call = _as_function(static_file(other), other, joined, (*above, name))
            joined[other] = f"const {_variable(other)} = {call};"
        if found[1]:
            return f"const {found[1]} = {_variable(other)}.default;"
        names = ", ".join(one if one == own else f"{one}: {own}" for one, own in _pairs(found[2]))
        return f"const {{ {names} }} = {_variable(other)};"

    body = _LIST.sub("", _EXPORTED.sub("", _IMPORT.sub(imported, text)))
    left = _REST.search(body)
    if left is not None:
        raise ValueError(f"{name}: expected imports and exports of known forms, got {left[0]!r}")
    told = ", ".join(f"{one}: {own}" for one, own in given.items())
    return f"(() => {{\n{body.strip()}\nreturn {{ {told} }};\n}})()"


def _pairs(names: str) -> list[tuple[str, str]]:
    """``a, b as c`` as (a, a), (b, c)."""
    found = []
    for one in filter(None, (word.strip() for word in names.split(","))):
        own, _, other = one.partition(" as ")
        found.append((own, other or own))
    return found


def _variable(name: str) -> str:
    return "in_" + re.sub(r"\W", "_", Path(name).with_suffix("").as_posix())
