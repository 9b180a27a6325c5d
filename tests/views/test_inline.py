"""Modules joined to one script that a page holds in itself."""

import shutil
import subprocess
from base64 import b64decode
from hashlib import sha256

import pytest

from understudy.views import inline

ENTRY = """import { number as shown } from './format.js';
import {
  within,
  zoomed,
} from './mapview.js';

export const known = 2;
console.log(shown(0.12345678), within(9, 4), zoomed([0, 4, 0, 4], 0.5).join(), known);
"""


def test_a_script_runs_as_its_modules_do():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no JavaScript on the path")
    ran = subprocess.run([node, "-"], input=inline.script(ENTRY), capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.stdout == "0.1235 3 1,3,1,3 2\n"


def test_a_module_is_there_once_and_before_whoever_imports_it():
    text = inline.script(
        "import { Cast } from './cast.js';\nimport { h } from './dom.js';\nh(Cast);"
    )
    assert text.count("const in_dom = ") == 1
    assert text.index("const in_dom = ") < text.index("const in_cast = ")
    assert "Copyright (c)" in text  # the licence of what others wrote


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("import './dom.js';", "of known forms, got \"import './dom.js';\""),
        ("export default 3;", "of known forms, got 'export default 3;'"),
        ("h('</script>');", "none of its markup, got '</script'"),
    ],
)
def test_what_cannot_be_joined_is_refused(entry, words):
    with pytest.raises(ValueError, match="expected") as told:
        inline.script(entry)
    assert words in str(told.value)


def test_modules_that_import_each_other_are_refused(monkeypatch):
    given = {
        "a.js": "import { b } from './b.js';\nexport const a = 1;",
        "b.js": "import { a } from './a.js';\nexport const b = 1;",
    }
    own = inline.static_file
    monkeypatch.setattr(inline, "static_file", lambda name: given.get(name) or own(name))
    with pytest.raises(ValueError, match=r"without a cycle, got a\.js"):
        inline.script("import { a } from './a.js';")


def test_a_policy_names_the_hash_of_the_text():
    digest = inline.hash_source("\nä\n").removeprefix("'sha256-").removesuffix("'")
    assert b64decode(digest) == sha256("\nä\n".encode()).digest()
