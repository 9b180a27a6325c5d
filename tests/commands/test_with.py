"""A row of one's own in somebody's study: it alone runs, and stands beside what was exported."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import Command
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.study import Study
from understudy.studies.execution.skipped import Skipped, work_of
from understudy.studies.statistics.export import export, keys_in, read
from understudy.studies.statistics.exported_cells import exported_in, whole_results
from understudy.studies.store.store import Store

MINE = '''
from dataclasses import dataclass

import numpy as np

from understudy import Bernoulli, Contributions, Strategy, fedavg
from understudy.parts.servers import Sgd


@dataclass(frozen=True)
class NearestInSize:
    """The client that came and is most nearly as large represents an absent one."""

    signed = False
    normalised = True

    def init(self, setup):
        return None

    def fill(self, state, end):
        share = end.q / end.q[end.cohort.wanted].sum()
        sizes = end.population.n_examples
        gap = np.abs(sizes[end.absent][:, None] - sizes[end.came][None, :])
        fresh = end.fresh()
        return Contributions.of(
            (end.came, fresh, np.arange(len(end.came)), share[end.came]),
            (end.absent, fresh, gap.argmin(axis=1), share[end.absent]),
        )

    def learn(self, state, end, step):
        return {}


class Heavy(NearestInSize):
    """Its coefficients sum to two."""

    def fill(self, state, end):
        found = super().fill(state, end)
        return Contributions(found.ids, found.row, 2 * found.coef, found.rows)


class Picky(NearestInSize):
    def check(self, strategy):
        raise ValueError("compensator: needs a sampler of mine")


@dataclass(frozen=True)
class HalfStep:
    lr: float = 0.5

    def init(self, setup):
        return None

    def step(self, state, params, update, t):
        return params + self.lr * update


@dataclass(frozen=True)
class Newest:
    m: int = 2

    def init(self, setup):
        return None

    def pick(self, state, start):
        ids = np.flatnonzero(start.available)[-self.m:]
        return ids, np.ones(len(ids))

    def learn(self, state, end):
        pass


class Half:
    def init(self, setup):
        return None

    def fill(self, state, end):
        return None


class Both(NearestInSize):
    def pick(self, state, start):
        return Newest().pick(state, start)


@dataclass(frozen=True)
class Needs:
    k: int

    def init(self, setup):
        return None


def whole():
    return Strategy(compensator=NearestInSize(), server=HalfStep())


def broken():
    raise KeyError("k")


there = Bernoulli(p=0.5)
chosen = Strategy(compensator=NearestInSize())
seven = 7
'''
STUDY = """
name = "tiny"
rounds = 2
baseline = "fedavg"
metric = "accuracy_last"
data = { name = "digits", partition = "clustered", n_clients = 5, per_client = 16, validation = 0.2, seed = "run" }
model = "softmax"
local = { lr = 0.1, steps = 2, batch_size = 8 }

[strategies]
full = { method = "fedavg", availability = "always" }
fedavg = "fedavg"
stale = "stale"
fdms = "fdms"

[availability]
half = { name = "fixed_dropout", alpha = 0.5 }
groups = { name = "wang_ji_groups", rounds_each = 1 }

[[block]]
name = "plain"
strategies = ["full", "fedavg", "stale"]

[[block]]
name = "tuned"

[[block]]
name = "own"
strategies = { drop = "fedavg" }

[scale.quick]
blocks = ["plain", "tuned"]
block.tuned.strategies = ["fedavg", "stale"]

[scale.quick.tune]
blocks = ["tuned"]
seeds = [1000]
metric = "validation_loss"
server = [{ name = "sgd", lr = 1.0 }, { name = "sgd", lr = 2.0 }]

[scale.all]
seeds = 2
"""  # noqa: E501
ROW = "NearestInSize"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A study in one folder, the row's module in another, which is the current one."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "tiny.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments):
    """A process of its own, as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "understudy", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ran(runs):
    """Labels of all cells and trials that a folder has rounds of."""
    with Store.open(runs) as store:
        there = [*store.cells("tiny"), *store.trials("tiny")]
        return sorted(
            (cell.labels["strategy"], cell.labels["block"], cell.labels.get("tuned", ""), cell.key)
            for cell in there
            if cell.status == "done"
        )


def words(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.process
@pytest.mark.slow
def test_only_the_new_row_runs_and_is_shown_beside_the_exported_ones(place):
    study = place / "theirs" / "tiny.toml"
    command("run", study, "--folder", "before", "--no-report")
    command("export", "tiny", "--folder", "before", "--to", "numbers")
    exported = read("numbers/tiny").rows
    assert len(exported) == 5 + 4  # of which `full` has no availability

    out = command("run", study, "--with", "mine:NearestInSize", "--skip-in", "numbers")
    mine = ran("runs")
    assert [row[:3] for row in mine] == [
        *[(ROW, "plain", "")] * 2,
        *[(ROW, "tuned", "")] * 2,
        *[(ROW, "tuned", "sgd(lr=1.0)")] * 2,
        *[(ROW, "tuned", "sgd(lr=2.0)")] * 2,
    ]
    assert out.count(f"\n{ROW} ") == out.count("\nfedavg ") == out.count("\nstale ") == 4

    # the same row, and the same picks, as where everything runs
    command("run", study, "--with", "mine:NearestInSize", "--folder", "all", "--no-report")
    assert [row for row in ran("all") if row[0] == ROW] == mine
    assert len(ran("all")) == len(mine) + len(ran("before"))
    with Store.open("all") as one, Store.open("runs") as other:
        assert one.study("tiny").picks == other.study("tiny").picks
        assert set(one.study("tiny").picks) == {f"tuned/{n}" for n in ("fedavg", "stale", ROW)}
    frame, whole = whole_results("runs", "tiny"), whole_results("all", "tiny")
    assert list(frame["key"]) == list(whole["key"])
    assert set(frame["status"]) == {"done"}
    for name in ("accuracy_last", "loss_last", "participants", "rounds_played"):
        assert frame[name].tolist() == pytest.approx(whole[name].tolist(), rel=1e-5), name
    assert command("table", "tiny") == out.partition("\n\n")[2].rpartition("Report:")[0]

    report = (place / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
    assert "4 of 13 cells done, 9 exported before, not run here" in report
    assert "--with NearestInSize=mine:NearestInSize" in report
    assert "4 done, 9 exported\n" in command("show", "tiny")

    # exported into the same folder it is there for the next one
    command("export", "tiny", "--to", "numbers")
    whole = read("numbers/tiny").rows
    assert [row for row in whole if row.labels["strategy"] != ROW] == list(exported)
    assert len(whole) == 13
    assert words("numbers/tiny/with.csv") == [{"strategy": ROW, "part": "mine:NearestInSize"}]
    trials = words("numbers/tiny/tuning.csv")
    assert [row["strategy"] for row in trials].count(ROW) == 4
    assert len(trials) == 12
    again = command(
        "run", study, "--with", "mine:NearestInSize", "--skip-in", "numbers", "--folder", "new",
        "--dry-run",
    )  # fmt: skip
    assert "\n  to run        0, 0 done, 25 skipped\n" in again


# -- what is left to run ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """What a run of the study exported, and its runs."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    Study.read(folder / "tiny.toml").run(folder / "runs", on="here", progress=False)
    export(folder / "runs", "tiny", folder / "exported")
    return folder


def study(numbers, *rows, scale=None, overrides=()):
    return Study.read(numbers / "tiny.toml", scale, overrides, rows)


def without(text, words):
    return "".join(line for line in text.splitlines(keepends=True) if words not in line)


def edited(numbers, tmp_path, edit):
    """The exports with another table of trials; None takes it away."""
    folder = tmp_path / "exported" / "tiny"
    folder.mkdir(parents=True)
    for path in (numbers / "exported" / "tiny").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    path = folder / "tuning.csv"
    text = None if edit is None else edit(path.read_text(encoding="utf-8"))
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")
    return folder.parent


def test_trials_are_skipped_where_their_scores_pick_the_cells_that_were_exported(numbers):
    made = study(numbers)
    work = work_of(made, exported_in(numbers / "exported", made))
    assert (work.trials, work.cells) == ([], [])
    assert set(work.scores) == {trial.key for trial in made.tuning()}
    assert len(work.scores) == 8


@pytest.mark.parametrize(
    ("edit", "n_trials"),
    [
        (None, 8),  # nobody knows what was picked
        (lambda text: text.replace("validation_loss", "validation_accuracy"), 8),
        # one score is missing: that row's trials run
        (lambda text: without(text, "stale,half,tuned,sgd(lr=1.0)"), 4),
        (lambda text: text.replace(",1000,", ",1001,"), 8),
    ],
)  # fmt: skip
def test_trials_without_scores_run(numbers, tmp_path, edit, n_trials):
    made = study(numbers)
    work = work_of(made, exported_in(edited(numbers, tmp_path, edit), made))
    assert len(work.trials) == n_trials
    assert {trial.key for trial in made.tuning()} == {t.key for t in work.trials} | set(work.scores)


def test_scores_that_pick_other_cells_than_those_exported_are_not_believed(numbers):
    made = study(numbers)
    skipped = exported_in(numbers / "exported", made)
    stale = {t.key: t.labels["tuned"] for t in made.tuning() if t.labels["strategy"] == "stale"}
    with Store.open(numbers / "runs") as store:
        picked = store.study("tiny").picks["tuned/stale"]["server"]
    turned = {key: float(label == picked) for key, label in stale.items()}  # less is better
    work = work_of(made, Skipped(skipped.keys, {**skipped.scores, **turned}))
    assert {trial.key for trial in work.trials} == set(stale)


def test_cells_of_further_seeds_take_their_trials_with_them(numbers):
    """What was not exported must be made at a pick that trials of this run found."""
    made = study(numbers, overrides=["seeds=2"])
    work = work_of(made, exported_in(numbers / "exported", made))
    assert len(work.trials) == 8
    # of blocks without tuning only the second seed; what is tuned is counted at the study's values
    assert {cell.seed for cell in work.cells if cell.labels["block"] == "plain"} == {1}


def test_a_study_whose_every_cell_was_exported_runs_nothing(numbers, tmp_path):
    made = study(numbers)
    skipped = exported_in(numbers / "exported", made)
    outcome = made.run(tmp_path / "runs", on="here", progress=False, skip=skipped)
    assert (outcome.done, outcome.failed) == ((), {})
    assert set(outcome.skipped) == keys_in(numbers / "exported") | set(skipped.scores)
    frame = whole_results(tmp_path / "runs", "tiny")
    assert set(frame["status"]) == {"done"}
    assert frame.attrs["picks"].keys() == {"tuned/fedavg", "tuned/stale"}


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "scale"), [("quickstart-tuned", None), ("absence", "quick")])
def test_a_row_changes_no_other_cell_and_is_in_every_block_and_tuned(name, scale, place):
    before = built_in(name, scale)
    made = built_in(name, scale, (), ["mine:NearestInSize", "first=fedfv"])
    labels = {"NearestInSize", "first"}
    assert {row.label for row in made.rows} == labels
    for theirs, ours in ((before.cells(), made.cells()), (before.tuning(), made.tuning())):
        others = [cell for cell in ours if cell.labels["strategy"] not in labels]
        assert [cell.key for cell in others] == [cell.key for cell in theirs]
        new = [cell for cell in ours if cell.labels["strategy"] in labels]
        fedavg = "dropout" if name == "quickstart-tuned" else "fedavg"
        like = [cell for cell in theirs if cell.labels["strategy"] == fedavg]
        assert len(new) == 2 * len(like) > 0
        first = {cell.key for cell in new if cell.labels["strategy"] == "first"}
        assert first.isdisjoint(cell.key for cell in new if cell.labels["strategy"] == ROW)


def test_a_row_joins_lists_and_tables_of_blocks_at_every_scale(place, numbers):
    for scale, blocks in (("quick", ("plain", "tuned")), ("all", ("plain", "tuned", "own"))):
        made = study(numbers, "mine:NearestInSize", scale=scale)
        found = {c.labels["block"] for c in made.cells() if c.labels["strategy"] == ROW}
        assert found == set(blocks)
    # the document says all of it: it is what a report repeats
    document = made.about()["document"]
    assert document["strategies"][ROW] == {"compensator": "mine:NearestInSize"}
    assert document["block"]["plain"]["strategies"] == ["full", "fedavg", "stale", ROW]
    assert ROW in document["block"]["own"]["strategies"]
    assert made.about()["joined"] == {ROW: "mine:NearestInSize"}


@pytest.mark.parametrize(
    ("text", "label", "table"),
    [
        ("mine:NearestInSize", "NearestInSize", {"compensator": "mine:NearestInSize"}),
        ("mine:Newest", "Newest", {"sampler": "mine:Newest"}),
        ("step=mine:HalfStep", "step", {"server": "mine:HalfStep"}),
        ("mine:whole", "whole", {"method": "mine:whole"}),
        ("mine:chosen", "chosen", {"method": "mine:chosen"}),
        ("fedfv", "fedfv", {"method": "fedfv"}),  # an aggregator is called so too
        ("kriging", "kriging", {"compensator": "kriging"}),
        ("median", "median", {"aggregator": "median"}),
        ("prox=proximal", "prox", {"local": {"rule": "proximal"}}),
    ],
)
def test_a_row_is_found_out_by_what_it_can_do(text, label, table, place, numbers):
    (row,) = study(numbers, text).rows
    assert (row.label, dict(row.table)) == (label, table)


def test_every_registered_part_has_one_role(place):
    from understudy.studies.definition.build import user_rows

    for role, known in user_rows.REGISTRIES.items():
        for name in known:
            try:
                made = user_rows._made(known[name])
            except StudyError:
                continue  # it has no defaults
            assert user_rows._role_of(made) == role, name


def test_a_server_step_that_is_the_method_is_not_tuned_away(place, numbers):
    for row in ("mine:whole", "fedexp", "step=mine:HalfStep"):
        made = study(numbers, row)
        label = made.rows[0].label
        assert label not in {trial.labels["strategy"] for trial in made.tuning()}, row
        servers = {
            type(cell.task.strategy.server).__name__
            for cell in made.cells()
            if cell.labels["strategy"] == label
        }
        assert servers == {"Extrapolated" if row == "fedexp" else "HalfStep"}
    tuned = {trial.labels["strategy"] for trial in study(numbers, "mine:chosen").tuning()}
    assert tuned == {"fedavg", "stale", "chosen"}


EXPECTED = (
    "a method, or a sampler, compensator, aggregator, server, guard or rule of local training"
)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("nomod:X", "no module named 'nomod' (neither in this folder nor installed)"),
        ("mine:No", "'mine' has no 'No'"),
        ("mine:", "expected [LABEL=]MODULE:NAME, got 'mine:'"),
        ("=mine:Newest", "expected [LABEL=]MODULE:NAME, got '=mine:Newest'"),
        ("mine:Needs", ("expected defaults for all parameters, got none for k; or name an object "
         "that is made already")),
        ("mine:broken", "cannot be made: KeyError: 'k'"),
        ("mine:Half", ("expected a compensator with signed, normalised, init, fill, learn, got one "
         "without signed, normalised, learn")),
        ("mine:Both", ("expected one role, got sampler and compensator in one; write a function "
         "that returns a Strategy")),
        ("mine:there", (f"expected {EXPECTED}, got an availability, which is the same for all rows "
         "of a study: write it in its file")),
        ("bernoulli", (f"expected {EXPECTED}, got an availability, which is the same for all rows "
         "of a study: write it in its file")),
        ("mine:seven", f"expected {EXPECTED}, got 7"),
        ("fedavgg", (f"expected MODULE:NAME, or {EXPECTED} by name, got 'fedavgg'; did you mean "
         "'fedavg'?")),
        ("mine:Picky", "compensator: needs a sampler of mine"),
        ("fedavg", ("expected a label that the study does not have, got 'fedavg'; give it another, "
         "as in --with my-fedavg=fedavg")),
        ("fdms=mine:Newest", ("expected a label that the study does not have, got 'fdms'; give it "
         "another, as in --with my-fdms=mine:Newest")),  # which has no row at this scale
        ("drop=mine:Newest", ("expected a label that the study does not have, got 'drop'; give it "
         "another, as in --with my-drop=mine:Newest")),  # of a block
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_one_is_refused_by_name(row, words, place, numbers):
    with pytest.raises(StudyError) as error:
        study(numbers, row)
    assert str(error.value) == f"--with {row}: {words}"


def test_two_rows_of_one_label_are_refused(place, numbers):
    with pytest.raises(StudyError, match=r"^--with mine:Newest: expected a label"):
        study(numbers, "mine:Newest", "mine:Newest")


def test_a_part_that_breaks_its_contract_is_refused_before_anything_runs(
    place, capsys, monkeypatch
):
    said = Command(capsys, monkeypatch)("run", "theirs/tiny.toml", "--with", "mine:Heavy")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(
        "understudy: --with mine:Heavy: Heavy does not pass understudy.testing.check_compensator: "
        "broken: "
    )
    assert said.err.count("\n") == 1
    assert not (place / "runs").exists()


def test_rows_of_ones_own_stay_when_others_are_exported(place, numbers, tmp_path, monkeypatch):
    """A built-in study drops what is none of its rows: but not what joined it."""
    from understudy.studies.statistics import export as exports

    monkeypatch.setattr(exports, "places_of", lambda name: frozenset(
        exports.place_of(cell.labels) for cell in study(numbers).cells()
    ))  # fmt: skip
    to = tmp_path / "to"
    for row in ("a=mine:NearestInSize", "b=mine:Newest"):
        made = study(numbers, row, overrides=["blocks=['plain']", "availability=['half']"])
        made.run(tmp_path / row[0], on="here", progress=False)
        told = []
        export(tmp_path / row[0], "tiny", to, tell=told.append)
        assert told == []
    found = [row.labels["strategy"] for row in read(to / "tiny").rows]
    assert found == ["a", "b", "fedavg", "full", "stale"]
    assert [line["strategy"] for line in words(to / "tiny" / "with.csv")] == ["a", "b"]
