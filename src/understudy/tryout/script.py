"""What is left behind: a study and a program that repeat it."""

from __future__ import annotations

from typing import Any

from understudy.simulation.data.table_file import REGRESSION
from understudy.studies.definition.study import Study
from understudy.studies.report.study_toml import study_toml
from understudy.tryout.target import Target

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
    # {measure} of each client by itself, on its own held-out rows{unit}
    clients = results({folder!r}, level="client", study=study.name)
    clients = clients[clients["strategy"] != "pooled"]  # which has no clients
    rows = clients.fillna({{"availability": "all"}}).groupby(["availability", "strategy", "name"])
    shown = rows["{measure}"].mean().unstack(){times}
    print(shown.round(3).to_string())
'''


def study_text(document: dict[str, Any], command: str) -> str:
    """The study as TOML."""
    plain = Study(**document).about()["document"]
    return HEAD.format(command=command) + study_toml(plain)


def program_text(title: str, path: str, study: str, file: str, folder: str, target: Target) -> str:
    """The program."""
    measure, unit, times = "accuracy", "", ""
    if target.task == REGRESSION:
        measure, unit, times = "rmse", ", in the target's unit", f" * {target.scale:g}"
    own = {"title": title, "path": path, "study": study, "file": file, "folder": folder}
    return PROGRAM.format(**own, measure=measure, unit=unit, times=times)
