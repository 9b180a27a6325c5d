"""What is left behind: a study and a program that repeat it."""

from __future__ import annotations

from typing import Any

from understudy.studies.definition.study import Study
from understudy.studies.report.study_toml import study_toml

HEAD = """# Written by understudy try. To repeat it: {command}
# Every number may be changed; understudy run runs the changed study.
"""
PROGRAM = '''"""{title}.

Written by understudy try. To repeat it: python {path}
"""

from understudy import Study, compare, results

study = Study.read({study!r})  # {file} is looked for in the working directory

if __name__ == "__main__":
    study.run({folder!r})
    runs = results({folder!r}, study=study.name)
    print(compare(runs).to_markdown())
    # each client by itself, on its own held-out rows
    clients = results({folder!r}, level="client", study=study.name)
    shown = clients.groupby(["strategy", "name"])["{measure}"].mean().unstack()
    print(shown.round(3).to_string())
'''


def study_text(document: dict[str, Any], command: str) -> str:
    """The study as TOML."""
    plain = Study(**document).about()["document"]
    return HEAD.format(command=command) + study_toml(plain)


def program_text(title: str, path: str, study: str, file: str, folder: str, measure: str) -> str:
    """The program."""
    own = {"title": title, "path": path, "study": study, "file": file, "folder": folder}
    return PROGRAM.format(**own, measure=measure)
