"""A study as one self-contained page: words, tables and pictures; no script, no network."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from understudy import plots
from understudy._version import __version__
from understudy.core.files import write_file
from understudy.measures import measure
from understudy.studies.report.figures import Picture, pictures
from understudy.studies.report.report_text import command, meanings, sentence, settings_in_words
from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.comparison_table import (
    columns_worth_showing,
    table_of_comparison,
)
from understudy.studies.statistics.frames import results
from understudy.studies.statistics.main_metric import main_metric
from understudy.studies.statistics.text_table import NOTHING, TextTable, label_word
from understudy.studies.store.store import Store, StoredCell, StoredStudy

FILE = "report.html"
LARGEST_SVG = 300_000  # bytes; a picture that would be larger is written as PNG
STATUSES = ("done", "failed", "running", "stopped", "waiting")
MEASURES = {  # tables beside the main one, each with those of its measures that were taken
    "More of accuracy and loss": (
        "accuracy_best",
        "accuracy_last",
        "accuracy_last10",
        "fluctuation",
        "loss_best",
        "loss_last",
        "train_loss_last",
        "validation_loss_last",
    ),
    "The price of the target": ("rounds_to_target", "clock_to_target", "megabytes_to_target"),
    "Over clients": (
        "client_accuracy_mean",
        "client_accuracy_variance",
        "client_accuracy_worst10",
        "client_accuracy_best10",
        "count_variance",
    ),
    "Substitution and similarity": ("oracle_error_relative", "evaluations_spared"),
}
OFTEN_ZERO = (  # without delays, without a sampler, without a race
    "clock_to_target",
    "count_variance",
    "evaluations_spared",
)
FOUND = "Found by the analyses"
CREDITS = {
    "digits": (
        "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine "
        "Learning Repository, doi.org/10.24432/C50P49, CC BY 4.0"
    ),
}


@dataclass(frozen=True)
class Table:
    """A table of the page: rows under the title of their group."""

    title: str
    heads: tuple[tuple[str, bool], ...]  # words, and whether the column stands at the right
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    notes: tuple[str, ...] = ()


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
        What ``results(runs_folder, study=study_name)`` gave, where somebody has asked already.
    """
    page = render(runs_folder, study_name, runs)
    path = Path(runs_folder) / study_name / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, page.encode())
    return path


def render(runs_folder: str | Path, study_name: str, runs: pd.DataFrame | None = None) -> str:
    """The page; the same for the same results."""
    if runs is None:
        runs = results(runs_folder, level="run", study=study_name)
    with Store.open(runs_folder) as store:
        study, cells = store.study(study_name), store.cells(study_name)
        begun = {cell.key for cell in cells if cell.status != "waiting"}
        resolved = {key: store.resolved(key) for key in sorted(begun)}
    metric = main_metric(runs[runs["status"] == "done"], study.about.get("metric"))
    environment = Environment(
        loader=PackageLoader("understudy.studies.report", package_path=""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("study.html").render(
        title=study.about.get("title") or study.name,
        study=study,
        shows=sentence(study.about.get("shows")),
        progress=_progress(cells),
        setting=settings_in_words(study, cells, resolved),
        strategies=meanings(cells, resolved, "strategy"),
        availability=meanings(cells, resolved, "availability"),
        document=_document(study),
        main=None if metric is None else _main_table(runs, metric),
        tables=[] if metric is None else _more_tables(runs, cells, metric),
        sections=_sections(pictures(runs_folder, study_name, runs)),
        failed=[(_place(cell), *_error(cell)) for cell in cells if cell.status == "failed"],
        cells=_cells(cells, runs, metric),
        versions=_versions(study, cells),
        command=command(study.about, study.name),
        credits=[CREDITS[name] for name in _data_sets(cells) if name in CREDITS],
        version=__version__,
    )


# -- tables ------------------------------------------------------------------------------------


def _main_table(runs: pd.DataFrame, metric: str) -> Table:
    comparison = compare(runs, metric)
    return _grouped(measure(metric).words, table_of_comparison(comparison), len(comparison.labels))


def _more_tables(runs: pd.DataFrame, cells: Sequence[StoredCell], metric: str) -> list[Table]:
    """Tables beside the main one."""
    tables = []
    found = dict.fromkeys(name for cell in cells for name in cell.findings_metrics)
    told = {name for names in MEASURES.values() for name in names}
    kinds = {**MEASURES, FOUND: tuple(name for name in found if name not in told)}
    for title, names in kinds.items():
        shown = [name for name in names if name != metric and _worth_showing(runs, name)]
        if shown:
            tables.append(_side_by_side(title, runs, shown))
    return tables


def _worth_showing(runs: pd.DataFrame, name: str) -> bool:
    if name not in runs:
        return False
    nothing = name in OFTEN_ZERO and bool(runs[name].fillna(0).eq(0).all())
    if measure(name).is_price and name != "clock_to_target":
        return True  # that a target was never reached is told, too
    return bool(runs.loc[runs["status"] == "done", name].notna().any()) and not nothing


def _grouped(title: str, table: TextTable, n_labels: int) -> Table:
    """A comparison with the labels of its groups as headings."""
    kept, told = columns_worth_showing(table)
    kept = [place for place in kept if place >= n_labels]
    rows = [
        (_heading(table.heads[:n_labels], row[:n_labels]), tuple(row[place] for place in kept))
        for row in table.cells
    ]
    return Table(
        title[:1].upper() + title[1:],
        tuple((table.heads[place], place in table.right) for place in kept),
        _by_heading(rows),
        (*table.notes, *told),
    )


def _side_by_side(title: str, runs: pd.DataFrame, names: Sequence[str]) -> Table:
    """Means of several measures, one column each."""
    plain = runs.copy()
    plain.attrs = {name: value for name, value in runs.attrs.items() if name != "baseline"}
    heads: list[tuple[str, bool]] = [("strategy", False)]
    rows: dict[tuple[str, str], list[str]] = {}
    notes: dict[str, None] = {}
    for name in names:
        comparison = replace(compare(plain, name), without_value=0)  # – says it
        table, n_labels = table_of_comparison(comparison), len(comparison.labels)
        value = table.heads.index(comparison.measure.head)
        heads.append((comparison.measure.head, True))
        for row in table.cells:
            group = _heading(table.heads[:n_labels], row[:n_labels])
            rows.setdefault((group, row[n_labels]), []).append(row[value])
        notes |= dict.fromkeys(table.notes)
    notes.pop("Lower is better.", None)  # said of one column, it would be read of all
    words = [
        (group, (strategy, *cells))
        for (group, strategy), cells in rows.items()
        if set(cells) != {NOTHING}
    ]
    return Table(title, tuple(heads), _by_heading(words), tuple(notes))


def _heading(names: Sequence[str], words: Sequence[str]) -> str:
    return ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))


def _by_heading(
    rows: Sequence[tuple[str, tuple[str, ...]]],
) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
    return tuple(
        (heading, tuple(cells for _, cells in members))
        for heading, members in groupby(rows, key=lambda row: row[0])
    )


# -- pictures ----------------------------------------------------------------------------------


@dataclass
class FigureBlock:
    """Pictures side by side: each with its own caption, or all with one below them."""

    images: list[dict[str, Any]]
    caption: str = ""


def _sections(gallery: Sequence[Picture]) -> list[tuple[str, list[FigureBlock]]]:
    """Pictures by section; those that follow each other with equal captions share it."""
    sections = []
    for section, members in groupby(gallery, key=lambda picture: picture.section):
        blocks: list[FigureBlock] = []
        for caption, alike in groupby(members, key=lambda picture: picture.caption):
            images = [_image(picture) for picture in alike]
            if len(images) > 1:
                blocks.append(FigureBlock(images, caption))
            elif blocks and not blocks[-1].caption:
                blocks[-1].images += images
            else:
                blocks.append(FigureBlock(images))
        sections.append((section, blocks))
    return sections


def _image(picture: Picture) -> dict[str, Any]:
    content, kind = plots.svg(picture.figure), "svg+xml"
    if len(content) > LARGEST_SVG:
        content, kind = plots.png(picture.figure), "png"
    width, height = picture.figure.get_size_inches()
    title = " ".join(axes.get_title(loc="left") for axes in picture.figure.axes).strip()
    return {
        "name": picture.name,
        "source": f"data:image/{kind};base64,{b64encode(content).decode()}",
        "width": round(width * 96),
        "height": round(height * 96),
        "alt": f"{picture.section}{': ' + title if title else ''}. {picture.caption}",
        "caption": picture.caption,
    }


# -- the study ---------------------------------------------------------------------------------


def _progress(cells: Sequence[StoredCell]) -> str:
    counts = Counter(cell.status for cell in cells)
    if counts["done"] == len(cells):
        return f"all {len(cells)} cells done" if len(cells) != 1 else "the one cell is done"
    rest = [f"{counts[name]} {name}" for name in STATUSES[1:] if counts[name]]
    return f"{counts['done']} of {len(cells)} cells done, {', '.join(rest)}"


def _document(study: StoredStudy) -> str | None:
    """The configuration as it was read, scale and overrides applied."""
    document = study.about.get("document")
    return None if document is None else json.dumps(document, indent=2, ensure_ascii=False)


def _place(cell: StoredCell) -> str:
    labels = [
        f"{name} {label_word(value)}" for name, value in cell.labels.items() if value is not None
    ]
    return ", ".join([*labels, f"seed {cell.seed}"])


def _error(cell: StoredCell) -> tuple[str, str]:
    """The line that names the error, and where it came from."""
    line, _, trace = (cell.error or "no error was told").partition("\n")
    return line, trace.strip()


def _cells(cells: Sequence[StoredCell], runs: pd.DataFrame, metric: str | None) -> Table:
    names = list(dict.fromkeys(name for cell in cells for name in cell.labels))
    heads = [(name, False) for name in names]
    heads += [("seed", True), ("status", False), ("rounds", True)]
    values: list[str] = []
    if metric is not None:
        shown = measure(metric)
        heads.append((shown.head, True))
        form = "{:.2f}" if shown.decimals is not None else "{:.4g}"
        numbers = runs[metric].tolist()
        values = [
            NOTHING if number is None or number != number else form.format(number * shown.scale)
            for number in numbers
        ]
    heads += [("version", False), ("key", False)]
    rows = []
    for position, cell in enumerate(cells):
        words = [label_word(cell.labels.get(name)) for name in names]
        words += [str(cell.seed), cell.status, str(cell.rounds)]
        words += [values[position].replace("-", "−")] if values else []
        rows.append((*words, cell.version or NOTHING, cell.key))
    return Table("Cells", tuple(heads), (("", tuple(rows)),))


def _versions(study: StoredStudy, cells: Sequence[StoredCell]) -> list[str]:
    """Which version did what; another's results are shown as such."""
    notes = [f"Saved by version {study.version}; this page by version {__version__}."]
    others = Counter(cell.version for cell in cells if cell.version not in (None, __version__))
    for version, count in others.items():
        noun, verb = ("cell", "was") if count == 1 else ("cells", "were")
        notes.append(
            f"{count} {noun} {verb} computed by version {version}: "
            "the option --again computes all anew."
        )
    return notes


def _data_sets(cells: Sequence[StoredCell]) -> list[str]:
    names: Mapping[str, None] = dict.fromkeys(str(cell.facts.get("data")) for cell in cells)
    return list(names)
