"""A study: a grid of simulations as one value, from Python or from a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.describe import describe
from understudy.core.printable import is_printable
from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.studies.definition import plugins
from understudy.studies.definition.axes import own_availability
from understudy.studies.definition.blocks import blocks_of, overridden, with_user_rows
from understudy.studies.definition.build.methods import PAPER, given_as_object
from understudy.studies.definition.build.user_rows import WITH, UserRow, user_row
from understudy.studies.definition.cell import Cell, Label
from understudy.studies.definition.document import TOLD, chosen_scale, normal, read, scaled
from understudy.studies.definition.errors import StudyError, dotted
from understudy.studies.definition.grid import Draft, Grid, pick_name
from understudy.studies.definition.identity import plain_document
from understudy.studies.definition.names import why_no_study_name
from understudy.studies.definition.overrides import Document, parsed, written
from understudy.studies.definition.reference_rows import with_references
from understudy.studies.definition.training import kept_in_words, kept_local
from understudy.studies.definition.tune_table import Picks, edges_of, read_tune
from understudy.studies.definition.tuning import (
    name_of,
    picked,
    scored_results,
    trial_results,
)

if TYPE_CHECKING:
    import pandas

    from understudy.studies.execution.runner import StudyOutcome
    from understudy.studies.store.store import Store

PACKAGE = Path(__file__).resolve().parents[2]
SET, BLOCK = "--set", "--block"  # of the command line


class Study:
    """A grid of simulations: strategies × availability × axes × seeds.

    Parameters
    ----------
    name : str
        Also the name of its folder: letters, digits, ``_``, ``.`` and ``-``.
    data : Federation, DataRecipe, str or dict
        The data: themselves, a data set's name, or a table as in a file
        (``{"name": "mnist", "partition": "clustered", "n_clients": 20, "seed": "run"}``).
    model : str, dict, torch.nn.Module or function
        As in `simulate`.
    strategies : dict
        Label → `Strategy`, a method's name, or a table of parts. A table may bring an
        ``availability`` of its own: such a strategy runs once, and is shown beside all others.
    availability : dict, optional
        Label → availability: a part, a name or a table. Everyone always comes by default.
    rounds : int
        T.
    seeds : int or list of int
        n stands for 0 .. n-1.
    baseline : str, optional
        Label of the strategy that the others are compared with.
    target : float, optional
        Accuracy, in [0, 1], that the time to it is told of.
    metric : str, optional
        The measure that tables show first.
    references : list of str, optional
        Rows to compare with: ``"everyone"``, the baseline with everybody present, and ``"pooled"``,
        training on all data in one place.
    title, shows : str, optional
        For people: what it is called, and what it shows.
    **asked
        All other keys of a file: ``local``, ``weighting`` (``"examples"`` for all by default,
        ``"clients"``, or each method's own by ``"paper"``), ``axes``, ``delay``, ``loss``,
        ``metrics``, ``evaluate``, ``evaluate_every``, ``per_client_every``,
        ``evaluate_mean_of``, ``oracle``, ``device``, ``analysis``, ``tune``, ``block`` (a list of
        tables), ``scale``.

    Examples
    --------
    >>> from understudy import FixedDropout, Local, Study, fdms, fedavg
    >>> same = Local(lr=0.1, epochs=2, batch_size=5)
    >>> study = Study(
    ...     name="friends",
    ...     data={"name": "digits", "partition": "clustered", "per_client": 64},
    ...     model="softmax",
    ...     strategies={"dropout": fedavg(local=same), "fdms": fdms(local=same)},
    ...     availability={"half": FixedDropout(0.5)},
    ...     rounds=20,
    ...     seeds=3,
    ...     baseline="dropout",
    ... )
    >>> len(study.cells())
    6
    """

    def __init__(
        self,
        name: str,
        *,
        data: Any,
        model: Any,
        strategies: Mapping[str, Any] | Sequence[str],
        rounds: int,
        availability: Mapping[str, Any] | Sequence[str] | None = None,
        seeds: int | Sequence[int] = 1,
        baseline: str | None = None,
        target: float | None = None,
        metric: str | None = None,
        references: Sequence[str] | None = None,
        title: str | None = None,
        shows: str | None = None,
        **asked: Any,
    ) -> None:
        given = {
            "name": name,
            "title": title,
            "shows": shows,
            "baseline": baseline,
            "target": target,
            "metric": metric,
            "references": references,
            "rounds": rounds,
            "seeds": seeds,
            "data": data,
            "model": model,
            "strategies": strategies,
            "availability": availability,
            **asked,
        }
        document = {key: value for key, value in given.items() if value is not None}
        self._set_up(document, f"study {name!r}", None, None, (), ())

    @classmethod
    def read(
        cls,
        source: str | Path,
        scale: str | None = None,
        overrides: Iterable[str] | Mapping[str, Any] = (),
        rows: Iterable[str] = (),
    ) -> Study:
        """A study from a TOML file, or from its text.

        Parameters
        ----------
        source : path or str
            A file; or the text itself, which has more than one line.
        scale : str, optional
            One of the file's; by default ``quick`` where the file has it.
        overrides : sequence of str, or dict
            ``"rounds=5"``, ``"strategies.fdms.similarity=distance"``: as after ``--set``.
        rows : sequence of str
            Strategies that join those of all blocks, as after ``--with``: ``"mine:Fading"``,
            ``"fading=mine:Fading"``, ``"fedfv"``. What the name stands for may be a sampler, a
            compensator, an aggregator, a server, a guard, a rule of local training, or a whole
            `Strategy`; or a class or function that makes one from its defaults.
        """
        document, name, file = read(source)
        if file is not None:
            document.setdefault("name", file.stem)
        study = cls.__new__(cls)
        study._set_up(document, name, file, scale, overrides, rows)
        return study

    def _set_up(
        self,
        document: Mapping[str, Any],
        source: str,
        file: Path | None,
        scale: str | None,
        overrides: Iterable[str] | Mapping[str, Any],
        rows: Iterable[str],
    ) -> None:
        self.file, self._source = file, source
        self.rows: tuple[UserRow, ...] = ()
        overrides = overrides if isinstance(overrides, Mapping) else list(overrides)
        try:
            self._resolve(document, scale, overrides, tuple(rows))
        except StudyError as error:
            if not (_blames_command_line(error, overrides) or _blames_row(error, self.rows)):
                error.source = error.source or source
            raise

    def _resolve(
        self,
        given: Mapping[str, Any],
        scale: str | None,
        overrides: Iterable[str] | Mapping[str, Any],
        rows: Sequence[str],
    ) -> None:
        changes = parsed(overrides)
        self.path = self._folders(given, changes, rows)
        plugins.first_on_path(self.path)
        document = normal(given)
        at_any_scale = document.get("strategies", {})
        self.rows = tuple(user_row(text) for text in rows)
        self.scale = chosen_scale(document, scale)
        self.scales = tuple(document["scale"])
        self.overrides = tuple(written(changes))
        self._only_in_python = [
            ".".join(path) for path, value in changes if not written([(path, value)])
        ]
        document = with_user_rows(scaled(document, self.scale), self.rows, at_any_scale)
        try:
            document = overridden(document, changes)
        except StudyError as error:
            _blame_command_line(error, error.place)
            raise
        self._document = document
        self._read_texts(document)
        blocks = with_references(blocks_of(document, changes), document)
        self._grid = Grid(blocks, document, self.path, [row.label for row in self.rows])
        self._check_labels()
        self.tune = read_tune(document)
        self._drafts = self._grid.drafts()
        self.seeds = tuple(dict.fromkeys(draft.task.seed for draft in self._drafts))
        self._cells: list[Cell] = []
        self._tuning: list[Cell] = []
        self._trials = [] if self.tune is None else self._grid.trials(self.tune)
        if not self._trials and document.get("blocks") is not None:
            self.tune = None  # what is tuned is in blocks that were not asked for
        self._check_tuning()
        self.kept_local = self._kept_local()

    def _folders(
        self,
        document: Mapping[str, Any],
        changes: Sequence[tuple[tuple[str, ...], Any]],
        rows: Sequence[str],
    ) -> tuple[str, ...]:
        """The study's folder, if anything that it names may be found there.

        What is put into a built-in study from outside, and what joins any study as a row, is looked
        for where one stands.
        """
        # a title with a colon names no module
        values = [value for key, value in document.items() if key not in TOLD]
        values += [value for path, value in changes if path[0] not in TOLD]
        named = self.file is not None and plugins.is_named_in(values)
        folders = [self.file.parent] if self.file is not None and named else []
        if (named and self.built_in) or any(":" in row for row in rows):
            folders = [*([] if self.built_in else folders), Path.cwd()]
        return tuple(dict.fromkeys(map(str, folders)))

    def _read_texts(self, document: Document) -> None:
        def text(key: str) -> str | None:
            value = document.get(key)
            if value is not None and not isinstance(value, str):
                raise StudyError(f"expected a text, got {shown(value)}", key)
            if value is not None and not is_printable(value):
                raise StudyError(f"expected printable characters, got {shown(value)}", key)
            return value

        name = text("name")
        why_not = why_no_study_name(name)
        if name is None or why_not is not None:
            raise StudyError(str(why_not), "name")
        self.name = name
        self.title, self.shows = text("title"), text("shows")
        self.baseline, self.metric = text("baseline"), text("metric")
        target = document.get("target")
        if target is not None and (isinstance(target, bool) or not isinstance(target, int | float)):
            raise StudyError(f"expected a number, got {target!r}", "target")
        if target is not None and not 0 < target <= 1:
            raise StudyError(f"expected an accuracy in (0, 1], got {target!r}", "target")
        self.target = None if target is None else float(target)

    def _check_labels(self) -> None:
        blocks = self._grid.blocks
        for block in blocks:
            if not block.document.get("strategies"):
                place = () if block.name is None else ("block", block.name)
                raise StudyError("expected at least one strategy, got none", *place, "strategies")
        self.strategies = _union(block.document["strategies"] for block in blocks)
        self.availability = _union(block.document["availability"] for block in blocks)
        self.blocks = tuple(block.name for block in blocks if block.name is not None)
        self.axes = self._grid.levels()
        _refuse_unprintable("strategies", self.strategies)
        _refuse_unprintable("availability", self.availability)
        _refuse_unprintable("block", self.blocks)
        for name, levels in self.axes.items():
            _refuse_unprintable("axes", (name, *levels))
        if self.baseline is not None and self.baseline not in self.strategies:
            words = suggestion(self.baseline, self.strategies)
            raise StudyError(f"no strategy {self.baseline!r}; {words}", "baseline")

    def _check_tuning(self) -> None:
        if self.tune is None:
            return
        for name in self.tune.blocks or ():
            known = tuple(self._document["block"])
            if name not in known:
                words = suggestion(name, known) if known else "the study has none"
                raise StudyError(f"no block {name!r}; {words}", "tune", "blocks")
        if not self._trials:
            keys = ", ".join(repr(key) for key in self.tune.values)
            raise StudyError(f"no strategy is touched by {keys}", "tune")
        both = set(self.tune.seeds) & {draft.task.seed for draft in self._drafts}
        if both:
            words = ", ".join(str(seed) for seed in sorted(both))
            raise StudyError(
                f"expected seeds that the study does not use, got {words}", "tune", "seeds"
            )
        for key in self.tune.values:
            if any(key in block.document["axes"] for block in self._grid.blocks):
                raise StudyError("is an axis already", "tune", key)

    def _kept_local(self) -> dict[str, dict[str, tuple[str, str]]]:
        """Where strategies given as objects do not train, or weigh, as the study says.

        Where all are such objects, nobody does: most likely a mistake.
        """
        found: dict[str, dict[str, tuple[str, str]]] = {}
        for block in self._grid.blocks:
            words = block.document
            varied = [*words["axes"], *(() if self.tune is None else self.tune.values)]
            asked = words.get("weighting", PAPER)  # where it says none, tables tell what differs
            kept = kept_local(words["strategies"], words["local"], varied, asked)
            found |= {pick_name(block.name, label): keys for label, keys in kept.items()}
        given = [value for b in self._grid.blocks for value in b.document["strategies"].values()]
        if found and all(given_as_object(value) for value in given):
            only_weighting = all(list(keys) == ["weighting"] for keys in found.values())
            example = "weighting='clients'" if only_weighting else "local=Local(lr=0.1)"
            raise StudyError(
                f"has no effect. {kept_in_words(found)}. Give it to each of them, as in "
                f"fedavg({example}), or give methods by name, as in "
                "{'method': 'fedavg'}",
                "weighting" if only_weighting else "local",
            )
        return found

    # -- cells ---------------------------------------------------------------------------------

    def cells(self, picks: Picks | None = None) -> list[Cell]:
        """All cells, in the study's order.

        Parameters
        ----------
        picks : mapping, optional
            What `pick` returned; without, a tuned key has the value that the study gives it.
        """
        if picks is None or self.tune is None:
            self._cells = self._cells or _cells(self._drafts)
            return list(self._cells)
        try:
            return _cells(self._grid.drafts(self.tune, picks))
        except StudyError as error:
            error.source = error.source or self._source
            raise

    def tuning(self) -> list[Cell]:
        """The trials that `pick` chooses from; none without ``[tune]``.

        Their labels are those of the study, and ``tuned``: the value that is tried, or all keys
        and values where several are.
        """
        self._tuning = self._tuning or _cells(self._trials)
        return list(self._tuning)

    def pick(
        self, results: pandas.DataFrame, names: Collection[str] | None = None
    ) -> dict[str, dict[str, Label]]:
        """The best value for each strategy (of each block).

        Parameters
        ----------
        results : DataFrame
            Of the trials: their labels, and the metric of ``[tune]``. With a column ``t`` it has a
            row for each round, and the last one that was evaluated counts.
        names : collection of str, optional
            Of the picks that are wanted, as they are returned; by default all.

        Returns
        -------
        dict
            Strategy, or ``block/strategy``, → key → label of the value; for `cells`. The mean over
            seeds and situations decides; values with a trial that failed or diverged come last,
            and of equals the first.
        """
        if self.tune is None:
            return {}
        wanted = [one for one in self._trials if names is None or name_of(one.labels) in names]
        return picked(results, wanted, self.tune)

    def picks(
        self, store: Store, scores: Mapping[str, float] | None = None
    ) -> dict[str, dict[str, Label]]:
        """What tuning picked, from the trials in a store; empty without ``[tune]``.

        The runner asks here, and keeps the answer with the study (`StoredStudy.picks`), where
        tables and reports find it. `scores` are those of trials that were run elsewhere, by key.
        """
        if self.tune is None:
            return {}
        import pandas

        known = scores or {}
        here = [trial for trial in self.tuning() if trial.key not in known]
        there = [trial for trial in self.tuning() if trial.key in known]
        found = trial_results(store, here), scored_results(there, known, self.tune.metric)
        return self.pick(pandas.DataFrame([row for one in found for row in one.to_dict("records")]))

    # -- what it is ----------------------------------------------------------------------------

    @property
    def built_in(self) -> bool:
        """Whether its file is one that comes with the package, and no copy of it."""
        return self.file is not None and PACKAGE in self.file.parents

    @property
    def rounds(self) -> int:
        """T: of the longest cell."""
        return max(draft.task.settings.rounds for draft in self._drafts)

    @property
    def references(self) -> tuple[str, ...]:
        """Labels of the strategies that bring an availability of their own.

        Among them what ``references`` asks for. They are shown beside the others, and not tested.
        """
        found: dict[str, None] = {}
        for block in self._grid.blocks:
            for label, value in block.document["strategies"].items():
                if own_availability(value) is not None:
                    found[label] = None
        return tuple(found)

    def about(self, picks: Picks | None = None) -> dict[str, Any]:
        """The study as plain data, for the store; `picks` are those that its cells were made at."""
        tuned = self.tune
        about = {
            "name": self.name,
            "title": self.title,
            "shows": self.shows,
            "scale": self.scale,
            "baseline": self.baseline,
            "target": self.target,
            "metric": self.metric,
            "rounds": self.rounds,
            "seeds": list(self.seeds),
            "strategies": list(self.strategies),
            "references": list(self.references),
            "availability": list(self.availability),
            "axes": self.axes,
            "blocks": list(self.blocks),
            "tune": None if tuned is None else describe(tuned),
            "file": None if self.file is None else self.file.name,
            "built_in": self.built_in,
            "overrides": list(self.overrides),
            "joined": {row.label: row.place for row in self.rows},
            "document": plain_document({k: v for k, v in self._document.items() if k != "scale"}),
        }
        if tuned is not None and picks is not None:
            about["picks"] = {name: dict(pick) for name, pick in picks.items()}
            about["edges"] = edges_of(tuned, picks)
        if self.kept_local:
            about["kept_local"] = self.kept_local
        if self._only_in_python:
            about["python_overrides"] = self._only_in_python
        return about

    def run(self, folder: str | Path = "runs", **options: Any) -> StudyOutcome:
        """Run all cells that are not done yet, and keep them in a folder.

        Parameters
        ----------
        folder : path
            The runs folder; studies may share one.
        **options
            As in `understudy.studies.execution.runner.run_study`.
        """
        from understudy.studies.execution.runner import run_study

        return run_study(self, folder, **options)

    def __repr__(self) -> str:
        scale = "" if self.scale is None else f" at scale {self.scale!r}"
        return f"<Study {self.name!r}{scale}: {len(self._drafts)} cells>"


def _blames_command_line(error: StudyError, overrides: Iterable[str] | Mapping[str, Any]) -> bool:
    """Whether what is wrong was put there from outside, and so is not of the file; then it says so.

    Overrides of a block's own are at the place of the block.
    """
    if error.source.startswith(SET):
        return True
    place = error.place[2:] if error.place[:1] == ("block",) else error.place
    try:
        changes = parsed(overrides)
    except StudyError:
        error.source = SET
        return True
    if any(place[: len(path)] == path for path, _ in changes):
        _blame_command_line(error, place)
        return True
    return False


def _blames_row(error: StudyError, rows: Iterable[UserRow]) -> bool:
    """Whether what is wrong is in a row of ``--with``; then it says so."""
    if error.source.startswith(WITH):
        return True
    place = error.place[2:] if error.place[:1] == ("block",) else error.place
    for row in rows:
        if place[:2] == ("strategies", row.label):
            error.source, error.place = f"{WITH} {row.text}", place[2:]
            return True
    return False


def _blame_command_line(error: StudyError, place: tuple[str, ...]) -> None:
    error.source = BLOCK if place == ("blocks",) else f"{SET} {dotted(place)}"
    error.place = ()


def _cells(drafts: Iterable[Draft]) -> list[Cell]:
    """Hashed; the same cell under the same labels only once."""
    found: dict[tuple[Any, ...], Cell] = {}
    for draft in drafts:
        cell = Cell.of(draft.labels, draft.task)
        found.setdefault((cell.key, *cell.labels.items()), cell)
    return list(found.values())


def _refuse_unprintable(key: str, labels: Iterable[Label]) -> None:
    """Labels come into pictures, tables, terminals and names of files."""
    for label in labels:
        if isinstance(label, str) and not is_printable(label):
            raise StudyError(f"expected labels of printable characters, got {shown(label)}", key)


def _union(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for group in groups for label in group))
