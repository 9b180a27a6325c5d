"""What can be computed from a run after its last round.

An analysis is a function of the run and its task that returns `Findings`. It is called while the
run is still open: memories, the trainer and the data can be used. A study names its analyses; other
people's are named ``module:function``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.analysis.findings import Findings
from understudy.registry import Registry

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task

__all__ = ["ANALYSES", "Analysis", "Findings", "analyse", "check"]

Analysis = Callable[["Run", "Task"], Findings]
ANALYSES = Registry("analysis")


def check(task: Task) -> None:
    """Refuse a task whose analyses could only fail at its end: KeyError, or ValueError."""
    for name in task.analysis:
        _ = ANALYSES[name]
    if "sigma" in task.analysis and not task.oracle:
        raise ValueError(
            "analysis: 'sigma' needs the updates of the absent too: expected oracle = true, "
            "got false"
        )


def analyse(run: Run, task: Task) -> Findings:
    """All that the task's analyses find, in one.

    The run's last round is done, and it is still open: call this from the body of the loop over
    the run, in the turn of the last round.
    """
    from understudy.core.threads import one_thread  # torch: not for those who ask for names only

    with one_thread():
        return Findings.together(ANALYSES[name](run, task) for name in task.analysis)
