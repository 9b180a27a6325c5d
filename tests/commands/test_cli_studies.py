"""The commands on studies: their own words, exactly, at 80 columns.

What is read is a store whose rounds are made by hand, so that every number is the same on every
machine; what is run is a study of a few seconds.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
import safetensors.numpy

from tests.cli import Command
from understudy import FixedDropout, Gone, Local, Outcome, RoundLog, fdms, fedavg
from understudy._version import __version__
from understudy.commands import text
from understudy.simulation import clustered_digits, simulate
from understudy.studies.definition import builtins
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.statistics import summary
from understudy.studies.statistics.summary import summarise
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store

CAME, AWAY = Outcome.CAME, Outcome.UNAVAILABLE
FACTS = {
    "n_clients": 3,
    "groups": None,
    "sizes": [10, 20, 30],
    "n_parameters": 650,
    "n_classes": 10,
    "data": "digits",
}
# in percent, of dropout and of fdms with seeds 0, 1, 2
ACCURACY = {"dropout": (50.0, 52.0, 54.0), "fdms": (53.0, 56.0, 56.0)}


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def cells():
    strategies = {"dropout": fedavg(), "fdms": fdms(local=Local(), weighting="examples")}
    recipe = DataRecipe("digits", "iid", settings={"n_clients": 3})
    return [
        Cell.of(
            {"strategy": label, "availability": "missing"},
            Task(recipe, "softmax", strategy, 2, availability=FixedDropout(0.3), seed=seed),
        )
        for label, strategy in strategies.items()
        for seed in range(3)
    ]


def played(t, label, accuracy):
    """Client 2 is away in round 1; with fdms, client 0 speaks for it."""
    outcome = [CAME, CAME, CAME if t == 0 else AWAY]
    ids, source = [0, 1, 2], [0, 1, 2]
    if t == 1:
        ids, source = ([0, 1], [0, 1]) if label == "dropout" else ([0, 1, 2], [0, 1, 0])
    return RoundLog(
        t=t,
        outcome=np.array(outcome, dtype=np.int8),
        refusals=(),
        ids=np.array(ids),
        source=np.array(source),
        coef=np.full(len(ids), 1 / len(ids)),
        notes={},
        metrics={"test_loss": 1.5, "test_accuracy": accuracy / 100},
    )


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A runs folder with a study of six cells, all done."""
    monkeypatch.chdir(tmp_path)
    about = {"name": "by-hand", "baseline": "dropout", "target": 0.55}
    made = cells()
    with Store.open("runs", write=True) as store:
        store.save_study("by-hand", about, made, __version__)
        for cell in made:
            label = cell.labels["strategy"]
            store.begin(cell.key, cell.resolved, FACTS, __version__)
            final = ACCURACY[label][cell.seed]
            store.add_rounds(cell.key, [played(t, label, final - 1 + 2 * t) for t in (0, 1)])
            store.finish(cell.key)
    return tmp_path / "runs"


def key_of(label, seed=0):
    return next(c.key for c in cells() if c.labels["strategy"] == label and c.seed == seed)


def change(runs, label, seed, how, *arguments):
    """Something else became of a cell."""
    with Store.open(runs, write=True) as store:
        getattr(store, how)(key_of(label, seed), *arguments)


# -- show ----------------------------------------------------------------------------------------


def test_show_a_study(runs, command):
    keys = [cell.key[:8] for cell in cells()]
    said = command("show", "by-hand")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "by-hand: 6 cells, 6 done\n"
        "\n"
        "  cell      strategy  seed  rounds  accuracy\n"
        f"  {keys[0]}  dropout      0       2    51.0 %\n"
        f"  {keys[1]}  dropout      1       2    53.0 %\n"
        f"  {keys[2]}  dropout      2       2    55.0 %\n"
        f"  {keys[3]}  fdms         0       2    54.0 %\n"
        f"  {keys[4]}  fdms         1       2    57.0 %\n"
        f"  {keys[5]}  fdms         2       2    57.0 %\n"
    )


def test_show_takes_the_study_that_ran_last(runs, command):
    assert command("show").out == command("show", "by-hand").out
    assert command("show", "runs/by-hand").code == 2  # no such folder yet
    (runs / "by-hand").mkdir()
    assert command("show", "runs/by-hand").out == command("show").out


def test_show_tells_what_is_not_done(runs, command):
    change(runs, "fdms", 0, "fail", "ValueError: no luck\n\nTraceback: here")
    change(runs, "fdms", 1, "fail", "ValueError: no luck\n\nTraceback: there")
    change(runs, "fdms", 2, "forget")
    lines = command("show").out.splitlines()
    assert lines[0] == "by-hand: 6 cells, 3 done, 2 failed, 1 waiting"
    last = key_of("fdms", 2)[:8]
    assert lines[2:4] == [
        "  cell      strategy  seed  status   rounds  accuracy",
        f"  {key_of('dropout')[:8]}  dropout      0  done          2    51.0 %",
    ]
    assert lines[8] == f"  {last}  fdms         2  waiting       0         –"
    first, second = key_of("fdms", 0)[:8], key_of("fdms", 1)[:8]
    assert lines[-1] == f"{first}, {second} failed: ValueError: no luck"


def test_show_tells_of_another_version(runs, command):
    with Store.open(runs, write=True) as store:
        store.begin(key_of("fdms"), {}, FACTS, "0.0.1")
        store.finish(key_of("fdms"))
    assert command("show").out.endswith(
        f"\n\nSome cells were run by version 0.0.1; this is {__version__}. "
        "understudy run --again\nreruns them.\n"
    )


CELL = """\
{key}, a cell of by-hand
strategy fdms, availability missing, seed 0
done after 2 rounds, by understudy {version}

last metrics
  test_loss      1.5
  test_accuracy  0.54

every client was represented in every round with a step

who stood in for whom most
  for client  stood in  rounds
           2  client 0       1

configuration
  data = DataRecipe
    name = "digits"
    partition = "iid"
"""


def test_show_a_cell(runs, command):
    key = key_of("fdms")
    said = command("show", key[:6])
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(CELL.format(key=key, version=__version__))
    assert '\n      similarity = "cosine"\n' in said.out
    assert "\n    alpha = 0.3\n" in said.out


def test_show_who_is_left_out(runs, command):
    said = command("show", key_of("dropout"))
    assert (
        "\nleast represented, of 2 rounds with a step\n"
        "  client  came  fresh  remembered  age  others  nobody\n"
        "       2  50 %   50 %         0 %    –     0 %    50 %\n"
        "\nconfiguration\n"
    ) in said.out


def test_show_who_is_left_out_of_a_simulation_in_a_folder(tmp_path, command):
    run = simulate(
        clustered_digits(),
        fedavg(),
        model="softmax",
        availability=Gone([3, 5]),
        rounds=12,
        folder=tmp_path / "mine",
    )
    list(run)
    said = command("show", tmp_path / "mine").out
    assert "strategy fedavg, seed 0" in said
    assert (
        "  * clients 3 and 5, 10 % of the examples, were in none of the updates so far\n"
        "    (12 rounds): they could not be reached; their labels: 5, 6, 8 and 9\n" in said
    )
    assert "       3   0 %    0 %         0 %    –     0 %   100 %" in said


def test_show_the_error_of_a_cell(runs, command):
    change(runs, "fdms", 0, "fail", "ValueError: no luck\n\nTraceback: here")
    said = command("show", key_of("fdms"))
    assert said.out.splitlines()[2:6] == [
        f"failed after 2 rounds, by understudy {__version__}",
        "",
        "ValueError: no luck",
        "",
    ]


def test_show_what_is_not_there(runs, command):
    said = command("show", "by-foot")
    assert said.code == 2
    assert said.out == ""
    assert said.err == "understudy: runs/understudy.sqlite: no study 'by-foot'; there: by-hand\n"
    assert command("show", "ffff").err.startswith("understudy: runs/understudy.sqlite: no study")


def test_a_folder_without_runs(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for arguments in (["show"], ["table"], ["plot"], ["report"]):
        said = command(*arguments)
        assert said.code == 2
        assert said.out == ""
        assert said.err == "understudy: runs: no runs here (no file understudy.sqlite)\n"


# -- table ---------------------------------------------------------------------------------------

# In the last round, dropout: 51, 53, 55: mean 53, half a 95 % interval
# t(0.975; 2)·2/√3 = 4.3027·1.1547 = 4.97; fdms: 54, 57, 57: mean 56, deviation
# √3: 4.3027·√3/√3 = 4.30. Differences 3, 4, 2: mean 3, deviation 1: 4.3027/√3 = 2.48. Two
# of three clients come in one round, three in the other.
TABLE = """\
                accuracy, last  minus dropout,
strategy  came        round, %          points  seeds
─────────────────────────────────────────────────────
dropout    2.5    53.00 ± 4.97               –      3
fdms       2.5    56.00 ± 4.30    +3.00 ± 2.48      3

came: participants per round. Accuracy: of the last evaluated round. ±: half a
95 % interval over seeds. Differences are taken seed by seed. t-test: too few
seeds, it takes 5. Wilcoxon: too few seeds, it takes 8.
"""


def test_table(runs, command):
    said = command("table", "by-hand")
    assert (said.code, said.err) == (0, "")
    assert said.out == TABLE


def test_table_for_a_paper(runs, command):
    said = command("table", "--format", "latex")
    assert r"\begin{tabular}" in said.out
    assert "56.00" in said.out
    said = command("table", "--format", "markdown")
    assert re.search(
        r"^\| fdms +\| +2\.5 \| +56\.00 ± 4\.30 \| +\+3\.00 ± 2\.48 \|", said.out, re.M
    )


def test_table_with_rounds_paired(runs, command):
    """Two rounds are too few for a test; the difference is the mean over both."""
    said = command("table", "by-hand", "--pair", "rounds")
    assert (said.code, said.err) == (0, "")
    heads, _, row, empty, *note = said.out.splitlines()
    assert heads.split() == ["availability", "strategy", "difference", "rounds", "p_rounds"]
    assert row.split()[:2] == ["missing", "fdms"]
    assert row.split()[3:] == ["2", "–"]
    assert empty == ""
    assert note[0].startswith("Rounds of one run follow from each other")
    said = command("table", "by-hand", "--pair", "rounds", "--format", "csv")
    assert said.out.splitlines()[0] == "availability,strategy,difference,rounds,p_rounds"


def test_table_as_numbers(runs, command):
    said = command("table", "--format", "csv", "--baseline", "fdms")
    lines = said.out.splitlines()
    assert lines[0].split(",")[:3] == ["availability", "strategy", "participants"]
    assert lines[1].startswith("missing,dropout,2.5,3,0.53,")


def test_table_of_a_measure_that_is_none(runs, command):
    said = command("table", "--metric", "acuracy_best")
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("understudy: metric: expected one of ")
    assert said.err.count("\n") == 1
    assert "'accuracy_best'" in said.err


def test_table_when_nothing_is_done(runs, command):
    for cell in cells():
        change(runs, cell.labels["strategy"], cell.seed, "forget")
    said = command("table")
    assert said.code == 2
    assert said.err == (
        "understudy: by-hand: no cell is done, so there is no table; understudy show by-hand shows "
        "their progress\n"
    )


# -- plot and report -----------------------------------------------------------------------------


def test_plot_writes_what_it_names(runs, command, tmp_path):
    said = command("plot", "by-hand", "attendance", "--to", "pictures")
    assert (said.code, said.err) == (0, "")
    named = said.out.splitlines()
    assert named
    assert sorted(f"pictures/{file.name}" for file in (tmp_path / "pictures").iterdir()) == sorted(
        named
    )
    assert all(re.fullmatch(r"pictures/attendance[\w.-]*\.(png|svg)", name) for name in named)


def test_plot_of_a_picture_that_is_none(runs, command):
    said = command("plot", "by-hand", "atendance")
    assert said.code == 2
    assert said.err.startswith("understudy: no picture named 'atendance' of by-hand; there: ")
    assert not (runs / "by-hand").exists()


def test_report_says_where_it_is(runs, command):
    said = command("report")
    assert (said.code, said.err) == (0, "")
    assert said.out == "Report: runs/by-hand/report.html\n"
    assert "55.00 ± 4.30" in (runs / "by-hand" / "report.html").read_text(encoding="utf-8")


def test_one_option_writes_figures_as_pdf_or_svg(runs, command, tmp_path):
    said = command("plot", "by-hand", "attendance", "--to", "pictures", "--format", "pdf,svg")
    assert (said.code, said.err) == (0, "")
    endings = sorted(path.suffix for path in (tmp_path / "pictures").iterdir())
    assert set(endings) == {".pdf", ".svg"}
    assert len(endings) == len(said.out.splitlines())
    said = command("report", "--figures", "pdf")
    assert (said.code, said.err) == (0, "")
    beside = list((runs / "by-hand" / "figures").iterdir())
    assert said.out.splitlines()[1] == f"Figures: {len(beside)} files in runs/by-hand/figures"
    assert {path.suffix for path in beside} == {".pdf"}
    assert all(path.read_bytes().startswith(b"%PDF-") for path in beside)
    said = command("report", "--figures", "eps")
    assert said.code == 2
    assert "format: expected one of 'png', 'svg', 'pdf', got 'eps'" in said.err


# -- export --------------------------------------------------------------------------------------


def test_export_of_a_level(runs, command):
    said = command("export", "--level", "round", "--to", "numbers")
    assert (said.code, said.err, said.out) == (0, "", "numbers/by-hand-round.csv\n")
    frame = pandas.read_csv(said.out.strip())
    assert len(frame) == 12
    last = frame[(frame["strategy"] == "fdms") & (frame["seed"] == 1)].iloc[-1]
    assert (last["t"], last["came"], last["test_accuracy"]) == (1, 2, 0.57)


def test_export_for_a_repository(runs, command):
    said = command("export", "by-hand", "--to", "numbers")
    assert said.code == 0
    assert said.out == "numbers/by-hand/cells.csv\nnumbers/by-hand/curves.csv\n"
    frame = pandas.read_csv("numbers/by-hand/cells.csv")
    assert sorted(frame["key"]) == sorted(cell.key for cell in cells())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--format", "csv"], "Invalid value for --format: needs --level"),
        (["--out", "x.safetensors"],
         "Invalid value for --out: needs --model; results are written with --to"),
        (["--model", "ab", "--level", "run"],
         "Invalid value for --model: cannot be combined with --level or --format"),
        (["--model", "ab", "--out", "x"],
         "Invalid value for --out: expected a name that ends in .safetensors, got x"),
    ],
)  # fmt: skip
def test_export_refuses_what_means_nothing(arguments, line, runs, command):
    said = command("export", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err == f"understudy: {line} (see understudy export --help)\n"


def test_export_of_a_model_that_is_not_there(runs, command):
    said = command("export", "--model", key_of("fdms"))
    assert said.code == 2
    assert said.err == (
        f"understudy: runs: no trained model of a cell whose key begins with '{key_of('fdms')}'\n"
    )


# -- studies -------------------------------------------------------------------------------------


def test_studies_lists_all_with_what_they_show_and_how_long_they_take(command):
    said = command("studies")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    named = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in named] == list(builtins.NAMES)
    assert all(re.match(r"[\w-]+ +\d+ (s|min)  \S", line) for line in named)
    words = " ".join(said.out.split())
    for study in builtins.listed():
        first, *_, last = study.shows.split()
        assert first in words
        assert last in words


def test_studies_at_a_scale_that_is_none(command):
    said = command("studies", "--scale", "huge")
    assert said.code == 2
    assert re.fullmatch(r"understudy: .*no scale named 'huge'; known: quick, .*\n", said.err)


# -- run -----------------------------------------------------------------------------------------

STUDY = """
name = "small"
shows = "whether it runs"
rounds = 2
seeds = 2
baseline = "dropout"

[data]
name = "digits"
partition = "clustered"
n_clients = 10
per_client = 10

[model]
name = "softmax"

[local]
epochs = 2
batch_size = 5

[strategies]
full = { method = "fedavg", weighting = "clients", availability = "always" }
dropout = { method = "fedavg", weighting = "clients" }
fdms = { method = "fdms", weighting = "clients" }

[availability]
half = { name = "fixed_dropout", alpha = 0.5 }
"""

PLAN = """\
small: whether it runs
6 cells of 2 rounds
  strategy      full, dropout, fdms
  availability  half
  seeds         0, 1
  to run        {left}, {done} done
"""

RUN = r"""small: whether it runs
6 cells of 2 rounds

 +accuracy, last +minus dropout,
strategy +came +round, % +points +seeds
─+
full +10\.0 +NUMBER +[+−]NUMBER +2
dropout +5\.0 +NUMBER +– +2
fdms +5\.0 +NUMBER +[+−]?NUMBER +2

came: participants per round\. Accuracy: of the last evaluated round\. Most
frequent class: NUMBER %\. For reference, and not tested: full\. Rows differ from
dropout in more than the method: availability = Always \(full\), not FixedDropout\.
No intervals: they take 3 seeds\. Differences are taken seed by seed\. t-test: too
few seeds, it takes 5\. Wilcoxon: too few seeds, it takes 8\.
Report: runs/small/report\.html
""".replace("NUMBER", r"\d+\.\d\d")


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(STUDY)
    return tmp_path


def test_run_from_the_first_cell_to_the_report(study, command):
    dry = command("run", "small.toml", "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.startswith(PLAN.format(left=6, done=0))
    assert re.search(r"\n  time          about \d+ s on \d+ cores?\n", dry.out)
    told = "Rows differ from dropout in more than the method: availability = Always (full),\n"
    told += "not FixedDropout.\n"
    assert re.search(r"\n  disk          about [\d.]+ kB in runs\n", dry.out)
    assert dry.out.endswith(told)
    assert not (study / "runs").exists()

    first = command("run", "small.toml", "--jobs", "1")
    assert first.code == 0
    begun, *ended = first.err.splitlines()  # where there is no terminal
    assert begun.startswith("small: 6 cells; 1 cell at once")
    pattern = r"\[(\d)/6\] (full|(dropout|fdms) · half) · [01]: 2 rounds, accuracy \d+\.\d%"
    assert [re.fullmatch(pattern, line)[1] for line in ended] == list("123456")
    assert re.fullmatch(RUN, first.out), first.out
    assert (study / "runs" / "small" / "report.html").is_file()

    assert command("run", "small.toml", "--dry-run").out == PLAN.format(left=0, done=6) + told
    assert command("run", "small.toml").out == first.out

    longer = command("run", "small.toml", "--dry-run", "--set", "seeds=[0, 5]").out
    assert "\n  to run        3, 3 done\n" in longer
    assert "\n  seeds         0, 5\n" in longer

    with Store.open("runs") as store:
        key = store.cells("small")[-1].key
    said = command("export", "--model", key[:8], "--out", "model.safetensors")
    assert (said.code, said.out) == (0, "model.safetensors\n")
    weights = safetensors.numpy.load_file("model.safetensors")
    assert sorted(array.shape for array in weights.values()) == [(10,), (10, 64)]

    assert command("export", "--to", "numbers").code == 0
    skipped = command("run", "small.toml", "--folder", "new", "--skip-in", "numbers", "--dry-run")
    assert "\n  to run        0, 0 done, 6 skipped\n" in skipped.out
    of_one = command("run", "small.toml", "--skip-in", "numbers/small", "--dry-run")
    assert of_one.code == 2
    assert of_one.err.startswith(
        "understudy: Invalid value for --skip-in: expected a folder of exports, with one for each "
        "study in it; numbers/small is the export of one study: name "
    )


@pytest.mark.parametrize(
    "arguments",
    [("run", "small.toml", "--on", "here"), ("report",), ("plot",), ("table",)],
    ids=lambda arguments: arguments[0],
)
def test_a_command_sums_up_each_cell_once(arguments, study, command, monkeypatch):
    """Table, report and pictures share one reading of the store."""
    if arguments[0] != "run":
        command("run", "small.toml", "--on", "here", "--no-report")
    summed_up = []

    def counted(*given):
        summed_up.append(given)
        return summarise(*given)

    monkeypatch.setattr(summary, "summarise", counted)
    assert command(*arguments).code == 0
    assert len(summed_up) == 6


def test_a_cell_that_fails_is_named_and_the_others_are_done(study, command):
    """With seven of ten away, no client of each of the five clusters can be there."""
    half = STUDY + 'most = { name = "fdms_dropout", alpha = 0.7 }\n'
    (study / "small.toml").write_text(half)
    said = command("run", "small.toml", "--on", "here", "--no-report", "--seeds", "1")
    assert said.code == 1
    assert "Report" not in said.out
    assert not (study / "runs" / "small" / "report.html").exists()
    assert "Not included: 2 unfinished cells." in " ".join(said.out.split())
    lines = said.err.splitlines()
    assert [line for line in lines if line.endswith(": failed")] == [
        "[4/5] dropout · most · 0: failed",
        "[5/5] fdms · most · 0: failed",
    ]
    assert len(lines) == 1 + 5 + 3
    for line in lines[6:8]:
        assert re.match(r"understudy: cell [0-9a-f]{16} failed: ValueError: alpha: with 7 of", line)
    assert lines[8] == (
        "understudy: 2 cells failed; understudy show KEY prints the error, the same command retries"
    )


@pytest.mark.process
def test_ctrl_c_prints_the_command_that_goes_on(study):
    """The real command in a process of its own, interrupted once its first rounds are stored."""
    program = Path(sys.executable).with_name("understudy")
    given = ["run", "small.toml", "--jobs", "1", "--rounds", "1000000"]
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    child = subprocess.Popen(
        [str(program), *given],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while child.poll() is None and not any_round_is_stored(study / "runs"):
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=240)
    finally:
        child.kill()
    assert child.returncode == 130, err
    assert out == "small: whether it runs\n6 cells of 1000000 rounds\n\n"
    assert err.startswith("small: 6 cells; 1 cell at once")
    assert err.partition("\n")[2] == (
        "Stopping after the rounds in progress; interrupt again to kill them.\n"
        "Stopped; finished rounds are kept. To resume:\n"
        "understudy run small.toml --jobs 1 --rounds 1000000\n"
    )


def any_round_is_stored(folder):
    with contextlib.suppress(StoreError), Store.open(folder) as store:
        return any(cell.rounds for one in store.studies() for cell in store.cells(one.name))
    return False


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["smal.toml"], "smal.toml: no such file; did you mean 'small.toml'?"),
        (["other/thing"], "other/thing: no such file"),
        (["quikstart"],
         "no file and no built-in study named 'quikstart'; did you mean 'quickstart'? known: "),
        (["small.toml", "--set", "local.rl=0.1"],
         "--set local.rl: no such key; did you mean 'rule'? known: lr, schedule, epochs"),
        (["small.toml", "--set", "strategies.fdms.similarity=cos"],
         "--set strategies.fdms.similarity: expected one of 'cosine', 'distance', got 'cos'"),
        (["small.toml", "--scale", "huge"],
         "small.toml: scale: no scale named 'huge'; the study has none"),
        (["small.toml", "--set", "rounds"], "--set: expected key=value, got 'rounds'"),
        (["small.toml", "--block", "a"], "--block: no block 'a'; the study has none"),
        (["fdms-fig1", "--block", "a"], "--block: no block 'a'; known: mnist, mnist_as_published"),
        (["small.toml", "--set", "lr=0.1"], "--set lr: no such key; did you mean 'local.lr'?"),
        (["small.toml", "--set", "alpha=0.1"],
         "--set alpha: no such key; did you mean 'availability.alpha'?"),
        (["small.toml", "--set", "rnds=3"], "--set rnds: no such key; did you mean 'rounds'?"),
        (["small.toml", "--rounds", "0"],
         "Invalid value for '--rounds': 0 is not in the range x>=1"),
        (["small.toml", "--seeds", "0"],
         "Invalid value for '--seeds': 0 is not in the range x>=1"),
        (["small.toml", "--skip-in", "no"], "Invalid value for --skip-in: no such folder: no"),
        (["small.toml", "--folder", "small.toml/x"], "small.toml/x/small: Not a directory"),
        (["small.toml", "--set", "data.name=mnist"],
         "mnist: no train-images-idx3-ubyte or train-images-idx3-ubyte.gz in data/MNIST/raw"),
    ],
)  # fmt: skip
def test_a_bad_call_is_refused_in_one_line_before_anything_runs(
    arguments, line, study, command, monkeypatch
):
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    said = command("run", *arguments)
    assert said.code == 2
    assert said.err.startswith(f"understudy: {line}")
    assert said.err.count("\n") == 1
    assert not (study / "runs" / "cells").exists()


@pytest.mark.parametrize("name", ["table", "show", "plot", "report", "export"])
def test_a_file_that_is_not_there_is_no_such_file(name, study, command):
    said = command(name, "smal.toml")
    assert (said.code, said.out) == (2, "")
    assert said.err == "understudy: smal.toml: no such file; did you mean 'small.toml'?\n"


def test_the_short_cuts_win_over_set(study, command):
    said = command(
        "run", "small.toml", "--dry-run", "--rounds", "3", "--set", "rounds=9", "--set", "seeds=7",
        "--seeds", "1",
    )  # fmt: skip
    assert said.out.splitlines()[1] == "3 cells of 3 rounds"


def test_a_dry_run_names_data_that_are_not_here(study, command, monkeypatch):
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    said = command("run", "fdms-fig1", "--dry-run")
    assert said.code == 0
    assert "\n  data          missing: cifar10, mnist\n" in said.out
    assert "torchvision.datasets.MNIST(root, download=True)" in said.out
    assert "  data " not in command("run", "small.toml", "--dry-run").out


def test_without_a_name_quickstart_is_run(study, command):
    said = command("run", "--dry-run", "--rounds", "5", "--seeds", "1")
    assert said.out.startswith("quickstart: ")
    assert "\n17 cells of 5 rounds at scale quick\n" in said.out


def test_columns_that_are_too_wide_are_cut():
    rows = [["name", "where", "n"], ["a" * 60, "b" * 30, "1"]]
    head, line = text.columns(rows)
    assert len(line) <= 80
    assert line == "  " + "a" * 42 + "…  " + "b" * 30 + "  1"
    assert head == "  name" + " " * 41 + "where" + " " * 27 + "n"
