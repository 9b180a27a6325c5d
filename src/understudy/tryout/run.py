"""`try_out`: a table, a study of it, and what it came to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core import checks
from understudy.core.files import refuse_link, write_file
from understudy.core.threads import usable_cores
from understudy.simulation.data.table_file import TASKS
from understudy.studies.definition.estimates import estimate, readable
from understudy.studies.definition.names import why_no_study_name
from understudy.studies.definition.study import Study
from understudy.studies.execution.runner import StudyOutcome
from understudy.studies.report.report import write_report
from understudy.tryout.absence import Absence, Situations, situations
from understudy.tryout.findings import TableFindings, findings
from understudy.tryout.look import Look, look
from understudy.tryout.page import write_page
from understudy.tryout.plan import (
    EVERYONE,
    LEFT_OUT,
    METHODS,
    MODELS,
    POOLED,
    TrySettings,
    document,
    name_of,
)
from understudy.tryout.script import program_text, study_text
from understudy.tryout.words import Answer, answers, in_short

STUDY, PROGRAM, PAGE = "study.toml", "repeat.py", "answer.html"


@dataclass(frozen=True, eq=False)
class TryPlan:
    """A table that was looked at, and the study that answers.

    Parameters
    ----------
    look : Look
        What is learnt from what.
    found : Situations
        Who is missing.
    study : Study
        What is run.
    labels : tuple of str
        The methods that are tried; none where nothing could stand in.
    folder : Path
        The runs folder.
    command : str
        Runs the study.
    model : str
        The model's name.
    """

    look: Look
    found: Situations
    study: Study
    labels: tuple[str, ...]
    folder: Path
    command: str
    model: str

    @property
    def told(self) -> tuple[str, ...]:
        """How the table and the absences were understood, and what is run: a line each."""
        return (*self.look.told, *self.found.told, self.training)

    @property
    def training(self) -> str:
        """What all methods share."""
        local = self.study.cells()[0].task.strategy.local
        step = "each method has its own server step, in each situation the best on validation data"
        servers = {cell.task.strategy.server for cell in self.study.cells()}
        if self.study.tune is None:
            same = len(servers) == 1
            step = "and the server's step is 1" if same else "the servers are the methods' own"
        return (
            f"all train alike: model {self.model}, a pass over a client's rows in a round, local "
            f"step {local.lr:g}, batches of {local.batch_size}; {step}"
        )

    @property
    def effort(self) -> str:
        """How much is run, and how long that takes."""
        cells = [*self.study.tuning(), *self.study.cells()]
        needed = estimate(cells)
        names = (EVERYONE, POOLED, LEFT_OUT, *self.labels)
        return (
            f"{needed.n_cells} runs of {self.study.rounds} rounds, about "
            f"{readable(needed.seconds())} on {usable_cores()} cores: {', '.join(names)}"
        )

    @property
    def place(self) -> Path:
        """The study's own folder."""
        return self.folder / self.study.name


@dataclass(frozen=True, eq=False)
class Tried:
    """What `try_out` returns; printed, it is the answer.

    Parameters
    ----------
    findings : TableFindings, optional
        The numbers; None where not all runs are done.
    outcome : StudyOutcome
        What became of the runs.
    study : Study
        The study that was run.
    files : dict
        What was written: ``"answer"``, ``"report"``, ``"study"``, ``"program"``.
    """

    findings: TableFindings | None
    outcome: StudyOutcome
    study: Study
    files: dict[str, Path]

    @property
    def answers(self) -> tuple[Answer, ...]:
        return () if self.findings is None else answers(self.findings)

    def __str__(self) -> str:
        if self.findings is None:
            return "Not all runs are done; the same call resumes."
        parts = [f"In short. {in_short(self.findings)}"]
        for question, sentences in self.answers:
            parts.append("\n".join([question, *(f"- {one}" for one in sentences)]))
        return "\n\n".join(parts)

    __repr__ = __str__


def planned(
    table: Any,
    *,
    client: str,
    target: str,
    missing: float | None = None,
    trace: str | Path | None = None,
    leave: str | Sequence[str] = (),
    since: int = 0,
    task: str | None = None,
    drop: Sequence[str] = (),
    methods: Sequence[str] | None = None,
    model: str = "mlp",
    rounds: int = TrySettings.rounds,
    seeds: int = TrySettings.seeds,
    tune: bool = False,
    name: str | None = None,
    folder: str | Path = "runs",
    command: str | None = None,
) -> TryPlan:
    """Look at a table, and write the study; nothing runs. See `try_out`."""
    if task is not None:
        checks.choice("task", task, TASKS)
    checks.choice("model", model, MODELS)
    checks.integer("rounds", rounds, low=1)
    checks.integer("seeds", seeds, low=1)
    framed = callable(getattr(table, "to_csv", None))
    if not framed and not isinstance(table, str | os.PathLike):
        raise TypeError(
            f"table: expected a path or a data frame of pandas, got {type(table).__name__}"
        )
    runs = Path(folder)
    own_name = name_of("table" if framed else table) if name is None else name
    why_not = why_no_study_name(own_name)
    if why_not is not None:
        raise ValueError(f"name: {why_not}")
    place = runs / own_name
    refuse_link(place)
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    file = _kept(table, place) if framed else table
    seen = look(file, client, target, task, drop, validation=tune)
    found = situations(Absence.asked(missing, trace, leave, since), seen, rounds)
    labels = tuple(METHODS if methods is None else methods)
    made = document(own_name, seen, found, TrySettings(rounds, seeds, model, labels, tune))
    labels = labels if found.at_times else ()
    place.mkdir(parents=True, exist_ok=True)
    again = shlex.join(["understudy", "run", str(place / STUDY), *_folder(runs)])
    write_file(place / STUDY, study_text(made, again).encode())
    program = program_text(
        made["title"],
        str(place / PROGRAM),
        str(place / STUDY),
        str(file),
        str(runs),
        seen.target,
    )
    write_file(place / PROGRAM, program.encode())
    return TryPlan(seen, found, Study.read(place / STUDY), labels, runs, again, model)


def _kept(frame: Any, place: Path) -> Path:
    """A frame as a file in the study's folder: what repeats the study needs one."""
    place.mkdir(parents=True, exist_ok=True)
    path = place / "table.csv"
    write_file(path, frame.to_csv(index=False).encode())
    return path


def _folder(runs: Path) -> list[str]:
    return [] if runs == Path("runs") else ["--folder", str(runs)]


def carried_out(
    plan: TryPlan, *, say: Callable[[str], None] | None = None, **options: Any
) -> Tried:
    """Run what was planned, and tell what came out."""
    outcome = plan.study.run(plan.folder, **options)
    files = {"study": plan.place / STUDY, "program": plan.place / PROGRAM}
    if outcome.interrupted or outcome.failed:
        return Tried(None, outcome, plan.study, files)
    found = findings(plan.folder, plan.study, plan.look, plan.found, plan.labels)
    report = write_report(plan.folder, plan.study.name)
    names = {
        "report": report.name,
        "study": STUDY,
        "program": PROGRAM,
        "name": plan.study.name,
        "command": plan.command,
    }
    page = write_page(plan.place / PAGE, str(plan.study.title), found, plan.told, names)
    files = {"answer": page, "report": report, **files}
    return Tried(found, outcome, plan.study, files)


def try_out(
    table: Any, *, client: str, target: str, progress: bool = True, **options: Any
) -> Tried:
    """What is lost when clients are missing, who loses, and which method recovers it.

    The table is divided by a column that names clients (sites, shops, machines), and a model is
    trained on it: on all rows in one place, federated with everybody, with the absent left out, and
    with five methods for absent clients. Differences are paired by seed, and tested.

    Parameters
    ----------
    table : path, or pandas.DataFrame
        A CSV or Parquet file; a frame is kept as a file among the results.
    client, target : str
        The columns that say whose a row is, and what is to be predicted.
    missing : float, optional
        The share of clients that is missing in each round, drawn for each. Without `missing`,
        `trace` and `leave`: one half; and the largest client is gone, in a comparison of its own.
    trace : path, optional
        Recorded attendance, as `Trace`, `FlashTrace` or `FedScaleTrace` reads it.
    leave : str or list of str
        Clients that are gone, each in a comparison of its own: names, ``"largest"``, ``"each"``.
    since : int
        The first round without those that leave; 0: they never take part.
    task : {"classes", "regression"}, optional
        What the target is, where it should not be told by its values.
    drop : list of str
        Columns that are not learnt from.
    methods : list of str, optional
        Names of registered methods, in place of the five.
    model : str
        ``"mlp"`` or ``"softmax"``.
    rounds, seeds : int
        How long each run is, and how many there are of each kind: tests take five, and ten are
        less often misled by chance.
    tune : bool
        Give each method the server step that is best on validation data, in place of 1 for all.
    name : str, optional
        Of the study; by default from the file's.
    folder : path
        The runs folder. The same call resumes what was stopped.
    progress : bool
        Show how far it is.

    Returns
    -------
    Tried
        The answer; ``files`` names the page, the report, the study and a program that repeats it.

    Raises
    ------
    CannotTry
        Where the table does not do: a line for each reason, before anything runs.

    Examples
    --------
    >>> import understudy
    >>> tried = understudy.try_out(  # doctest: +SKIP
    ...     "patients.csv", client="hospital", target="outcome", missing=0.5
    ... )
    >>> print(tried)  # doctest: +SKIP
    """
    run_options = {key: options.pop(key) for key in ("jobs", "on", "again") if key in options}
    plan = planned(table, client=client, target=target, **options)
    return carried_out(plan, progress=progress, **run_options)
