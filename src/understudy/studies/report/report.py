"""A study as one self-contained page: words, tables, pictures and maps; no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from understudy._version import __version__
from understudy.core.files import refuse_link, write_file
from understudy.core.printable import printable
from understudy.measures import main_metric
from understudy.studies.report.client_figures import ATTENDANCE, STAND_INS
from understudy.studies.report.client_table import clients_table
from understudy.studies.report.conclusions import Conclusions, conclusions
from understudy.studies.report.figure_data import FigureData
from understudy.studies.report.figures import pictures_of
from understudy.studies.report.left_out import left_out
from understudy.studies.report.maps import maps_of
from understudy.studies.report.methods import methods, references_in
from understudy.studies.report.page_figures import FigureSection, sections_of
from understudy.studies.report.page_tables import (
    Table,
    cells_table,
    main_table,
    more_tables,
    stand_ins_table,
    tuning_table,
)
from understudy.studies.report.repeat import repeat
from understudy.studies.report.report_text import sentence, settings_in_words
from understudy.studies.report.study_toml import study_toml
from understudy.studies.statistics.exported_cells import EXPORTED, marked, whole_results
from understudy.studies.statistics.text_table import heading_of
from understudy.studies.store.report_file import report_path, state_of
from understudy.studies.store.store import Store, StoredCell, StoredStudy

# beside those that are done
STATUSES = {name: name for name in ("failed", "running", "stopped", "waiting")} | {
    EXPORTED: "exported before, not run here and in no picture"
}


def write_report(
    runs_folder: str | Path, study_name: str, runs: pd.DataFrame | None = None
) -> Path:
    """Write ``<runs>/<study>/report.html``, whole or not at all, and return its path.

    Parameters
    ----------
    runs_folder : path
        Where the store is.
    study_name : str
        Which study of it. Cells that are not done are listed, and left out of tables.
    runs : DataFrame, optional
        What ``whole_results(runs_folder, study_name)`` gave, where somebody has asked already.
    """
    page = render(runs_folder, study_name, runs)
    path = report_path(runs_folder, study_name)
    refuse_link(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, page.encode())
    return path


def render(runs_folder: str | Path, study_name: str, runs: pd.DataFrame | None = None) -> str:
    """The page; the same for the same results."""
    with Store.open(runs_folder) as store:
        state = state_of(store, study_name)  # first: what is added from here on makes it outdated
        if runs is None:
            runs = whole_results(runs_folder, study_name)
        study, cells = store.study(study_name), store.cells(study_name)
        begun = {cell.key for cell in cells if cell.status != "waiting"}
        resolved = {key: store.resolved(key) for key in sorted(begun)}
        data = FigureData(store, study_name, runs)
        gallery = pictures_of(data)
        stand_ins, clients, missed = stand_ins_table(data), clients_table(data), left_out(data)
        if stand_ins is not None:
            data.told.setdefault(STAND_INS, [])  # its section is there, with or without pictures
        maps = maps_of(data)
        if maps is not None:
            data.told.setdefault(ATTENDANCE, [])
        sections = sections_of(gallery, data.told, frozenset() if maps is None else maps.keys)
    cells = marked(cells, frozenset(runs.loc[runs["status"] == "done", "key"]))
    metric = main_metric(runs[runs["status"] == "done"], study.about.get("metric"))
    repeated = repeat(study, cells, runs_folder)
    tuning, baseline = tuning_table(study), study.about.get("baseline")
    more = [] if metric is None else more_tables(runs, cells, metric)
    failed = [(_place(cell), *_error(cell)) for cell in cells if cell.status == "failed"]
    environment = Environment(
        loader=PackageLoader("understudy.studies.report", package_path=""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("study.html").render(
        title=study.about.get("title") or study.name,
        study=study,
        state=state,
        shows=sentence(study.about.get("shows")),
        progress=_progress(cells),
        n_rounds=f"{sum(cell.rounds for cell in cells):,}",
        contents=_contents(
            sections,
            failed=bool(failed),
            tuned=tuning is not None,
            clients=clients is not None,
            left_out=missed is not None,
            more=bool(more),
        ),
        conclusions=_conclusions(study, cells, runs, metric),
        setting=_plain("Setting", ("setting", "value"), settings_in_words(study, cells, resolved)),
        methods=_plain(
            "Strategies",
            ("strategy", "what it is", f"what differs from {baseline or 'the first'}"),
            methods(study, cells, resolved),
        ),
        document=_document(study),
        main=None if metric is None else main_table(runs, metric),
        stand_ins=stand_ins,
        clients=clients,
        left_out=missed,
        tuning=tuning,
        tables=more,
        sections=sections,
        maps=maps,
        failed=failed,
        cells=cells_table(cells, runs, metric),
        repeat=repeated,
        to_repeat=_plain("To repeat", ("fact", "value"), repeated.rows),
        version=__version__,
    )
    return str(printable(page))


def _contents(
    sections: Sequence[FigureSection],
    *,
    failed: bool,
    left_out: bool,
    tuned: bool,
    clients: bool,
    more: bool,
) -> list[tuple[str, str]]:
    """(id, heading) of the sections, in their order."""
    first = [("failed", "Failed cells")] if failed else []
    first += [("left-out", "Who was left out")] if left_out else []
    first += [("strategies", "Strategies")]
    first += [("tuning", "Tuning")] if tuned else []
    first += [("clients", "Clients")] if clients else []
    last = [("measures", "More measures")] if more else []
    return [
        ("results", "What came out"),
        *first,
        *((section.id, section.title) for section in sections),
        *last,
        ("setting", "Setting"),
        ("cells", "Cells"),
        ("repeat", "To repeat"),
    ]


def _conclusions(
    study: StoredStudy, cells: Sequence[StoredCell], runs: pd.DataFrame, metric: str | None
) -> Conclusions:
    if metric is None:
        return Conclusions(("No cell is done yet.",))
    return conclusions(runs, metric, references_in(study, cells))


def _plain(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of words alone."""
    columns = tuple((head, False) for head in heads)
    return Table(title, columns, (("", tuple(tuple(row) for row in rows)),))


def _progress(cells: Sequence[StoredCell]) -> str:
    counts = Counter(cell.status for cell in cells)
    if counts["done"] == len(cells):
        return f"all {len(cells)} cells done" if len(cells) != 1 else "the one cell is done"
    rest = [f"{counts[name]} {words}" for name, words in STATUSES.items() if counts[name]]
    return f"{counts['done']} of {len(cells)} cells done, {', '.join(rest)}"


def _document(study: StoredStudy) -> str | None:
    """The study as it was read, scale and overrides applied."""
    document = study.about.get("document")
    return None if document is None else study_toml(document)


def _place(cell: StoredCell) -> str:
    known = [(name, value) for name, value in cell.labels.items() if value is not None]
    return heading_of([*known, ("seed", cell.seed)])


def _error(cell: StoredCell) -> tuple[str, str]:
    """The line that names the error, and where it came from."""
    line, _, trace = (cell.error or "no error message").partition("\n")
    return line, trace.strip()
