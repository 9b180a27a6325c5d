"""Running a study, under the name that users import: see `studies.execution.runner`."""

from understudy.studies.execution.runner import StudyOutcome, cell_module, run_study

Outcome = StudyOutcome  # its name before it was told from a client's `understudy.Outcome`

__all__ = ["Outcome", "StudyOutcome", "cell_module", "run_study"]
