"""Running a study: what is played, what is kept, and what happens when something goes wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli import Command
from tests.studies.running import STUDY, TROUBLED, assert_same, contents, study_in
from understudy import Local, compare, fedavg, results
from understudy._version import __version__
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import FolderInUse
from understudy.simulation import clustered_digits
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.definition.study import Study
from understudy.studies.execution import budget as budgets
from understudy.studies.execution import executors, locks, runner, scheduler
from understudy.studies.execution import signals as stopping
from understudy.studies.execution.runner import cell_module, run_study
from understudy.studies.execution.signals import StopSignals, command_that_goes_on
from understudy.studies.report.report import render
from understudy.studies.store.connection import StoreFull
from understudy.studies.store.store import Store

pytestmark = pytest.mark.process  # it starts and kills processes


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """The study, never interrupted, one cell after another in this process."""
    folder = tmp_path_factory.mktemp("played")
    study = study_in(folder)
    outcome = run_study(study, folder / "runs", on="here")
    assert len(outcome.done) == 4
    assert not outcome.failed
    return study, folder / "runs"


def keys(study: Study) -> list[str]:
    return [cell.key for cell in study.cells()]


# -- what is kept ----------------------------------------------------------------------------------


def test_a_finished_cell_has_its_rounds_its_findings_and_its_model_and_no_memory(
    played: tuple[Study, Path],
) -> None:
    study, runs = played
    with Store.open(runs) as store:
        cells = store.cells("small")
        assert [cell.key for cell in cells] == keys(study)
        for cell in cells:
            assert (cell.status, cell.rounds, cell.version) == ("done", 12, __version__)
            assert cell.findings_metrics == {"n_rounds": 12}
            assert cell.facts["n_clients"] == 8
            assert cell.facts["sizes"] == [8] * 8
            assert cell.facts["n_parameters"] == 64 * 8 + 8 + 8 * 10 + 10
            assert len(set(cell.facts["groups"])) == 2
            logged = [log.metrics["test_accuracy"] for log in store.logs(cell.key)]
            assert logged == store.arrays(cell.key)["accuracy"].tolist()
            files = {path.name for path in (runs / "cells" / cell.key).iterdir()}
            assert files == {"model.safetensors", "model.json"}
    assert {path.name for path in (runs / "cells").iterdir()} == set(keys(study))


def test_the_module_of_a_cell_is_the_trained_one(played: tuple[Study, Path]) -> None:
    study, runs = played
    cell = study.cells()[0]
    by_key, by_cell = cell_module(runs, cell.key), cell_module(runs, cell)
    federation = cell.task.federation()
    with torch.no_grad():
        outputs = by_key(federation.x[federation.test])
        assert torch.equal(outputs, by_cell(federation.x[federation.test]))
    right = (outputs.argmax(1) == federation.y[federation.test]).double().mean()
    with Store.open(runs) as store:
        last = list(store.logs(cell.key))[-1]
    assert last.metrics["test_accuracy"] == pytest.approx(float(right), abs=1e-12)
    about = json.loads((runs / "cells" / cell.key / "model.json").read_text())
    assert about["labels"] == dict(cell.labels)
    with pytest.raises(CheckpointError, match="no trained model"):
        cell_module(runs, "0" * 16)


def test_a_model_that_was_given_as_an_object_needs_its_cell(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    study = Study(
        name="own",
        data=clustered_digits(n_clients=4, n_clusters=2, per_client=8),
        model=module,
        strategies={"fedavg": fedavg(local=Local(lr=0.1))},
        rounds=2,
    )
    run_study(study, tmp_path, on="here")
    (cell,) = study.cells()
    trained = cell_module(tmp_path, cell)
    assert not torch.equal(trained[1].weight, module[1].weight)  # type: ignore[index]
    with pytest.raises(ValueError, match="pass the cell"):
        cell_module(tmp_path, cell.key)


# -- processes -------------------------------------------------------------------------------------


def test_two_cells_at_once_in_two_lasting_processes_equal_one_after_the_other(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    started: list[executors.Worker] = []
    at_once: list[int] = []

    class Counted(executors.Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

        def received(self) -> list[tuple[str, tuple[Any, ...]]]:
            at_once.append(sum(worker.key is not None for worker in started))
            return super().received()

    monkeypatch.setattr(executors, "Worker", Counted)
    monkeypatch.setattr(budgets, "usable_cores", lambda: 2)
    study, runs = played
    outcome = run_study(study, tmp_path, jobs=2, progress=False)
    assert sorted(outcome.done) == sorted(keys(study))
    assert len(started) == 2
    assert max(at_once) == 2
    assert_same(contents(tmp_path), contents(runs))
    assert capfd.readouterr() == ("", "")  # nobody wants to see it
    for worker in started:
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)


def test_failing_and_dying_cells_leave_the_others_alone_and_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One raises, one dies each time, one dies once and goes on, one has no trouble."""
    monkeypatch.setenv("TROUBLE", str(tmp_path))
    monkeypatch.setenv("COMMIT_EVERY", "0")
    study = study_in(tmp_path, TROUBLED, strategies=["stale"], seeds=1)
    by_mode = {cell.labels["availability"]: cell.key for cell in study.cells()}
    runs = tmp_path / "runs"
    outcome = run_study(study, runs, jobs=2)
    assert sorted(outcome.done) == sorted([by_mode["once"], by_mode["none"]])
    assert sorted(outcome.failed) == sorted([by_mode["raise"], by_mode["die"]])
    raised, died = outcome.failed[by_mode["raise"]], outcome.failed[by_mode["die"]]
    assert raised.startswith("ValueError: the weather is bad\n")
    assert "in draw" in raised
    assert died.startswith("2 times: the worker process died (signal 9, SIGKILL")
    with Store.open(runs) as store:
        stored = {cell.key: cell for cell in store.cells("small")}
        assert stored[by_mode["raise"]].status == "failed"
        assert stored[by_mode["raise"]].error == raised
        assert stored[by_mode["raise"]].rounds == 3  # those before are kept
        assert stored[by_mode["die"]].status == "failed"

    (tmp_path / "mended").touch()
    again = run_study(study, runs, on="here")
    assert sorted(again.done) == sorted(outcome.failed)
    assert sorted(again.skipped) == sorted(outcome.done)
    assert not again.failed
    run_study(study, tmp_path / "whole", on="here")
    assert_same(contents(runs), contents(tmp_path / "whole"))


# -- what is played --------------------------------------------------------------------------------


def test_what_is_done_is_not_played_again_and_other_studies_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(notes))

    def n_rounds_since() -> int:
        size = notes.stat().st_size if notes.exists() else 0
        notes.unlink(missing_ok=True)
        return size

    runs, folder = tmp_path / "runs", tmp_path / "study"
    study = study_in(folder, seeds=1)
    assert len(run_study(study, runs, on="here").done) == 2
    assert n_rounds_since() == 24
    outcome = run_study(study, runs, on="here")
    assert (outcome.done, outcome.skipped) == ((), tuple(keys(study)))
    assert n_rounds_since() == 0
    longer = study_in(folder, seeds=2, name="longer")  # one seed more, under another name
    outcome = run_study(longer, runs, on="here")
    assert sorted(outcome.skipped) == sorted(keys(study))
    assert len(outcome.done) == 2
    assert n_rounds_since() == 24
    left_out = keys(study_in(folder, seeds=3))[-1]
    third = study_in(folder, seeds=3)
    outcome = run_study(third, runs, on="here", skip={left_out})
    assert left_out in outcome.skipped
    assert len(outcome.done) == 1
    with Store.open(runs) as store:
        assert store.status(left_out) == "waiting"


def test_an_edited_plug_in_plays_exactly_the_cells_that_use_it(tmp_path: Path) -> None:
    text = STUDY.replace('analysis = ["pacing:seen"]\n', "") + 'always = "always"\n'
    before = study_in(tmp_path, text, "edited", seeds=1)
    runs = tmp_path / "runs"
    assert len(run_study(before, runs, on="here").done) == 4
    with open(tmp_path / "edited.py", "a") as plugin:
        plugin.write("\n# edited\n")
    after = study_in(tmp_path, text, "edited", seeds=1)
    outcome = run_study(after, runs, on="here")
    assert sorted(outcome.done) == sorted(
        cell.key for cell in after.cells() if cell.labels["availability"] == "half"
    )
    assert sorted(outcome.skipped) == sorted(
        cell.key for cell in before.cells() if cell.labels["availability"] == "always"
    )


def test_a_plug_in_that_is_edited_after_the_study_was_read_is_refused(tmp_path: Path) -> None:
    study = study_in(tmp_path, STUDY, "late", seeds=1)
    with open(tmp_path / "late.py", "a") as plugin:
        plugin.write("\n# edited too late\n")
    outcome = run_study(study, tmp_path / "runs", on="here")
    assert len(outcome.failed) == 2
    for error in outcome.failed.values():
        assert error.startswith("RuntimeError: late: its file was edited while the study ran")


def test_a_checkpoint_of_another_version_is_not_gone_on_with(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, runs = played
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    with monkeypatch.context() as older:
        older.setattr("understudy.server.checkpoint.__version__", "0.0.1")
        older.setenv("INTERRUPT_AT", "5")
        assert run_study(study, tmp_path / "runs", on="here").interrupted
    n_before = (tmp_path / "notes").stat().st_size
    run_study(study, tmp_path / "runs", on="here")
    assert (tmp_path / "notes").stat().st_size == n_before + 4 * 12  # all from the beginning
    assert_same(contents(tmp_path / "runs"), contents(runs))


def test_a_cell_begun_by_another_engine_is_run_again_with_a_message(
    played: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first try was trained by the loop; the second, by whatever trains here, is whole."""
    study, runs = played
    with Store.open(runs) as store:
        ours = {cell.facts["engine"] for cell in store.cells("small")}
    if ours == {"loop"}:
        pytest.skip("the kernels are not installed")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    with monkeypatch.context() as before:
        before.setenv("UNDERSTUDY_ENGINE", "loop")
        before.setenv("INTERRUPT_AT", "5")
        assert run_study(study, tmp_path / "runs", on="here").interrupted
    with Store.open(tmp_path / "runs") as store:
        begun = [cell for cell in store.cells("small") if cell.rounds]
        assert [cell.facts["engine"] for cell in begun] == ["loop"]
    capsys.readouterr()
    outcome = run_study(study, tmp_path / "runs", on="here")
    assert len(outcome.done) == 4
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "starts again" in line]
    (name,) = ours
    assert f"its checkpoint was trained by the engine 'loop', and here it is '{name}'" in told
    assert told.endswith(f"; {begun[0].rounds} stored rounds stay until new ones come")
    assert_same(contents(tmp_path / "runs"), contents(runs))


FAILING = """
import os
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class Failing:
    def init(self, population):
        return population.n_clients
    def rates(self, state, t):
        return None
    def draw(self, state, t, rng):
        if t == int(os.environ["FAIL_AT"]):
            raise ValueError("the weather is bad")
        return np.ones(state, dtype=bool)
"""


@pytest.mark.parametrize("trouble", ["another version", "a checkpoint that cannot be read"])
def test_rounds_that_cannot_be_gone_on_with_stay_until_new_ones_come(
    trouble: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Four rounds are stored. The next run begins anew: it fails before its first round, then after
    one, then ends; the store is never a mixture, and says whose rounds it has.
    """
    (tmp_path / "failing.py").write_text(FAILING)
    text = STUDY.replace('analysis = ["pacing:seen"]\n', "").partition("[availability]")[0]
    study = study_in(
        tmp_path, text + '[availability]\nbad = "failing:Failing"\n', strategies=["stale"], seeds=1
    )
    (cell,) = study.cells()
    runs = tmp_path / "runs"
    state = runs / "cells" / cell.key / "server" / STATE
    first = "0.0.1" if trouble == "another version" else __version__

    def stored() -> tuple[str, int, str | None]:
        with Store.open(runs) as store:
            (found,) = store.cells("small")
            assert [log.t for log in store.logs(cell.key)] == list(range(found.rounds))
            assert len(results(runs, level="round")) == found.rounds
            return found.status, found.rounds, found.version

    def failed(at: int) -> str:
        monkeypatch.setenv("FAIL_AT", str(at))
        outcome = run_study(study, runs, on="here")
        return outcome.failed[cell.key]

    with monkeypatch.context() as older:
        for place in ("studies.execution.runner", "studies.execution.scheduler"):
            older.setattr(f"understudy.{place}.__version__", first)
        older.setattr("understudy.server.checkpoint.__version__", first)
        failed(4)
    assert stored() == ("failed", 4, first)
    if trouble != "another version":
        state.write_bytes(state.read_bytes()[:100])

    capsys.readouterr()
    error = failed(0)
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "starts again" in line]
    assert told.startswith("stale · bad · 0: starts again: its checkpoint ")
    assert told.endswith("; 4 stored rounds stay until new ones come")
    reason = "is of understudy 0.0.1, and" if first != __version__ else "cannot be read ("
    assert f"its checkpoint {reason}" in told
    assert stored() == ("failed", 4, first)
    assert error.endswith(
        f"The 4 rounds stored are of an earlier run, by understudy {first}: this one stored none."
    )

    failed(1)
    assert stored() == ("failed", 1, __version__)
    monkeypatch.setenv("FAIL_AT", "-1")
    run_study(study, runs, on="here")
    assert stored() == ("done", 12, __version__)
    run_study(study, tmp_path / "whole", on="here")
    assert_same(contents(runs), contents(tmp_path / "whole"))


def test_a_cell_that_is_stopped_before_its_first_new_round_keeps_the_old_ones(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, whole = played
    first = study.cells()[0]
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("INTERRUPT_AT", "5")
    assert run_study(study, tmp_path / "runs", on="here").interrupted
    (tmp_path / "runs" / "cells" / first.key / "server" / STATE).write_bytes(b"no checkpoint")
    with Store.open(tmp_path / "runs") as store:
        before = [log.metrics for log in store.logs(first.key)]
    assert len(before) in (5, 6)

    def full(*_: object) -> None:
        raise StoreFull(tmp_path, 0)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "begin_anew", full)
        with pytest.raises(StoreFull):
            run_study(study, tmp_path / "runs", on="here")
    with Store.open(tmp_path / "runs") as store:
        assert store.status(first.key) == "stopped"
        assert [log.metrics for log in store.logs(first.key)] == before
    monkeypatch.delenv("INTERRUPT_AT")
    assert len(run_study(study, tmp_path / "runs", on="here").done) == 4
    assert_same(contents(tmp_path / "runs"), contents(whole))


def test_another_versions_results_are_kept_and_told_until_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, runs = study_in(tmp_path, seeds=1), tmp_path / "runs"
    with monkeypatch.context() as older:
        for module in (runner, scheduler):
            older.setattr(module, "__version__", "0.0.1")
        run_study(study, runs, on="here")
    before = contents(runs)
    capsys.readouterr()
    outcome = run_study(study, runs, on="here")
    assert outcome.versions == dict.fromkeys(keys(study), "0.0.1")
    assert outcome.done == ()
    told = capsys.readouterr().err
    assert told == (
        f"2 cells kept that understudy 0.0.1 ran (this is {__version__}); --again reruns them\n"
    )
    assert contents(runs)["runs"] == before["runs"]
    outcome = run_study(study, runs, on="here", again=True)
    assert sorted(outcome.done) == sorted(keys(study))
    assert not outcome.versions
    with Store.open(runs) as store:
        assert {cell.version for cell in store.cells("small")} == {__version__}


def test_a_value_is_tuned_before_the_cells_are_played(tmp_path: Path) -> None:
    """With a rate of zero nothing is learnt: the other one has the smaller loss."""
    tune = '[tune]\nkey = "local.lr"\nvalues = [0.0001, 0.5]\nseeds = [7]\nrounds = 6\n'
    text = STUDY.replace('seed = "run"', 'seed = "run"\nvalidation = 0.25') + tune
    study = study_in(tmp_path, text, seeds=1)
    runs = tmp_path / "runs"
    outcome = run_study(study, runs, on="here")
    trials = study.tuning()
    assert len(trials) == 4
    assert len(outcome.done) == 6
    with Store.open(runs) as store:
        picks = store.study("small").about["picks"]
        losses = {
            (c.labels["strategy"], c.labels["tuned"]): store.rounds(c.key)["validation_loss"].iloc[
                -1
            ]
            for c in trials
        }
        expected = {
            name: min((0.0001, 0.5), key=lambda lr: losses[name, lr]) for name in ("stale", "fdms")
        }
        assert expected == {"stale": 0.5, "fdms": 0.5}
        assert picks == {name: {"local.lr": value} for name, value in expected.items()}
        for cell in store.cells("small"):
            assert store.resolved(cell.key)["strategy"]["local"]["lr"] == 0.5
    assert len(run_study(study, runs, on="here").skipped) == 6


def test_table_report_and_show_tell_what_the_runner_was_told_of_tuning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tune = '[tune]\nkey = "local.lr"\nvalues = [0.0001, 0.5]\nseeds = [7]\nrounds = 6\n'
    text = STUDY.replace('seed = "run"', 'seed = "run"\nvalidation = 0.25') + tune
    study, runs = study_in(tmp_path, text, seeds=1), tmp_path / "runs"
    run_study(study, runs, on="here")
    with Store.open(runs) as store:
        stored = store.study("small")
        assert (stored.tuned, stored.picks) == (("local.lr",), study.picks(store))
        assert stored.picks == {"stale": {"local.lr": 0.5}, "fdms": {"local.lr": 0.5}}
    words = (
        "Tuned beforehand: local.lr = 0.5 (stale, fdms). At the edge of its range, so that a "
        "better value may lie beyond: local.lr = 0.5, the largest tried (stale, fdms)."
    )
    assert words in compare(results(runs, study="small")).to_markdown()
    page = render(runs, "small")
    assert "local.lr for each strategy by" in page
    assert "with seeds [7]" in page
    assert "the largest tried" in page
    shown = " ".join(Command(capsys, monkeypatch)("show", "small", "--folder", runs).out.split())
    assert words in shown


# -- interrupted -----------------------------------------------------------------------------------


def test_ctrl_c_ends_the_round_and_the_same_call_goes_on_to_the_same_bits(
    played: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, runs = played
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("INTERRUPT_AT", "17")  # the fifth round of the second cell
    monkeypatch.setenv("COMMIT_EVERY", "1000")
    monkeypatch.setattr("sys.argv", ["/bin/understudy", "run", "my study.toml", "--again"])
    monkeypatch.setattr(stopping, "which", lambda name: f"/bin/{name}")
    outcome = run_study(study, tmp_path / "runs", on="here", progress=False)
    assert outcome.interrupted
    assert len(outcome.done) == 1
    assert signal.getsignal(signal.SIGINT) is before
    told = capsys.readouterr().err
    assert told == (
        "Stopping after the rounds in progress; interrupt again to kill them.\n"
        "Stopped; finished rounds are kept. To resume:\nunderstudy run 'my study.toml'\n"
    )
    with Store.open(tmp_path / "runs") as store:
        cells = store.cells("small")
        assert [cell.status for cell in cells] == ["done", "stopped", "waiting", "waiting"]
        assert cells[1].rounds in (5, 6)  # the signal may be looked at one round later
    monkeypatch.delenv("INTERRUPT_AT")
    outcome = run_study(study, tmp_path / "runs", on="here")
    assert not outcome.interrupted
    assert len(outcome.done) == 3
    assert (tmp_path / "notes").stat().st_size == 4 * 12  # no round was played twice
    assert_same(contents(tmp_path / "runs"), contents(runs))


def test_the_command_that_goes_on_is_the_one_that_was_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = ["/x/understudy", "run", "a b.toml"]
    monkeypatch.setattr(stopping, "which", lambda name: f"/x/{name}")
    assert command_that_goes_on(typed) == "understudy run 'a b.toml'"
    monkeypatch.setattr(stopping, "which", lambda name: None)  # as when make called it
    assert command_that_goes_on(typed) == "/x/understudy run 'a b.toml'"
    assert command_that_goes_on(["dir/mine.py", "--again", "5"]) == "python dir/mine.py 5"


def test_signals_are_counted_only_meanwhile() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as heard:
        assert not heard.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard.asked
        assert not heard.at_once
        with heard.listening():
            os.kill(os.getpid(), signal.SIGINT)
            assert heard.at_once
        with pytest.raises(KeyboardInterrupt):  # nobody looks
            os.kill(os.getpid(), signal.SIGINT)
        assert heard.at_once
    assert signal.getsignal(signal.SIGTERM) is before


class BrokenOff(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("moment", ["before the model", "after the model", "after the store"])
def test_broken_off_while_a_cell_is_finished_it_goes_on_to_the_same_bits(
    moment: str, played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model, then store, then the memory is dropped: whatever is missing is done the next time."""
    study, runs = played
    first = study.cells()[0].key

    def broken(*_: object) -> None:
        raise BrokenOff

    with monkeypatch.context() as patched:
        if moment == "before the model":
            patched.setattr("understudy.studies.execution.run_cell.model_files", broken)
        elif moment == "after the model":
            patched.setattr(Store, "finish", broken)
        else:
            patched.setattr(scheduler.Scheduler, "_drop_memory", broken)
        if moment == "before the model":  # in the thread that plays: told as an error of the cell
            assert len(run_study(study, tmp_path, on="here").failed) == 4
        else:
            with pytest.raises(BrokenOff):
                run_study(study, tmp_path, on="here")
    folder = tmp_path / "cells" / first
    assert (folder / "server" / STATE).exists()
    assert (folder / "model.safetensors").exists() == (moment != "before the model")
    with Store.open(tmp_path) as store:
        status = {"before the model": "failed", "after the model": "running"}.get(moment, "done")
        assert store.status(first) == status
    outcome = run_study(study, tmp_path, on="here")
    assert len(outcome.done) == (3 if moment == "after the store" else 4)
    assert_same(contents(tmp_path), contents(runs))


def test_a_checkpoint_whose_rounds_are_not_in_the_store_is_not_used(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, runs = played
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("INTERRUPT_AT", "5")
    assert run_study(study, tmp_path / "runs", on="here").interrupted
    monkeypatch.delenv("INTERRUPT_AT")
    for file in (tmp_path / "runs").glob("understudy.sqlite*"):
        file.unlink()
    assert len(run_study(study, tmp_path / "runs", on="here").done) == 4
    assert_same(contents(tmp_path / "runs"), contents(runs))


# -- no room ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["store", "checkpoint"])
def test_a_full_disk_stops_all_cells_names_it_and_loses_nothing(
    where: str, played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, runs = played
    calls, whole = [0], Store.add_rounds

    def no_room(store: Store, key: str, logs: Any) -> None:
        calls[0] += 1
        if calls[0] > 2:
            raise StoreFull(tmp_path, 0)
        whole(store, key, logs)

    def no_room_for_state(*_: object) -> None:
        calls[0] += 1
        if calls[0] > 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("COMMIT_EVERY", "0")
    with monkeypatch.context() as patched:
        if where == "store":
            patched.setattr(Store, "add_rounds", no_room)
        else:
            patched.setattr("understudy.core.files.os.replace", no_room_for_state)
        with pytest.raises(StoreFull, match=r"the disk is full: [0-9,]+ bytes free") as full:
            run_study(study, tmp_path, on="here")
    assert full.value.errno == errno.ENOSPC
    assert str(tmp_path) in str(full.value)
    with Store.open(tmp_path) as store:
        assert store.status(keys(study)[0]) == "stopped"
        assert [store.status(key) for key in keys(study)[1:]] == ["waiting"] * 3
    assert len(run_study(study, tmp_path, on="here").done) == 4
    assert_same(contents(tmp_path), contents(runs))


# -- one writer ------------------------------------------------------------------------------------


def test_a_second_run_of_the_study_waits_and_is_refused_with_pid_and_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert locks.PATIENCE == 10.0
    study = study_in(tmp_path, seeds=1)
    runs = tmp_path / "runs"
    with locks.study_lock(runs / "small"):
        monkeypatch.setattr(runner, "study_lock", lambda folder: locks.study_lock(folder, 0.2))
        with pytest.raises(FolderInUse, match=rf"pid {os.getpid()} on {socket.gethostname()}"):
            run_study(study, runs, on="here")
        other = study_in(tmp_path, seeds=1, name="other")
        assert len(run_study(other, runs, on="here").done) == 2
    assert len(run_study(study, runs, on="here").skipped) == 2


def test_a_cell_that_another_process_plays_is_waited_for(
    played: tuple[Study, Path], tmp_path: Path
) -> None:
    """Its lock is held; the others are played meanwhile; it is played when the lock is gone."""
    study, runs = played
    first, *others = keys(study)
    elsewhere = locks.CellLocks(tmp_path / "cells")
    assert elsewhere.take(first)
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(run_study(study, tmp_path, on="here")))
    thread.start()
    try:
        deadline = 120.0
        while deadline > 0:
            thread.join(0.2)
            deadline -= 0.2
            if (tmp_path / "cells" / others[-1] / "model.safetensors").exists():
                break
        assert thread.is_alive()
        assert not (tmp_path / "cells" / first).exists()
    finally:
        elsewhere.release_all()
        thread.join(120)
    assert sorted(outcomes[0].done) == sorted(keys(study))
    assert outcomes[0].done[-1] == first
    assert_same(contents(tmp_path), contents(runs))


# -- how many at once ------------------------------------------------------------------------------


def cell_of(n_clients: int = 4, model: Any = "mlp", seed: int = 0) -> Cell:
    recipe = DataRecipe(
        "digits", "clustered", seed, {"n_clients": n_clients, "n_clusters": 2, "per_client": 8}
    )
    return Cell.of({"strategy": "fedavg"}, Task(recipe, model, fedavg(), rounds=1, seed=seed))


def test_the_need_of_a_cell_is_process_data_state_and_updates() -> None:
    """4 clients, d = 64·32 + 32 + 32·10 + 10 = 2,410 floats.

    State and round: the model, 4 updates and 3 vectors more. The data: 1,797 images of 64 floats
    and as many labels of 8 bytes; of all that, only what is held counts in the federation.
    """
    cell = cell_of()
    federation = cell.task.federation()
    data = federation.x.nbytes + federation.y.nbytes
    assert data >= len(federation.x) * (64 * 4 + 8)
    expected = budgets.PROCESS_BYTES + data + (1 + 4 + 3) * 2410 * 4
    assert budgets.largest_need([cell]) == expected
    seeds = [cell_of(seed=seed) for seed in range(3)]
    assert budgets.largest_need([*seeds, cell_of(model={"name": "mlp", "hidden": 64})]) > expected


def test_as_many_cells_at_once_as_cores_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "usable_cores", lambda: 8)
    cells = [cell_of(seed=seed) for seed in range(6)]
    need = budgets.largest_need(cells)
    much = 100 * need
    assert budgets.budget(cells, memory=much).at_once == 6  # no more than there are
    assert budgets.budget(cells, jobs=3, memory=much).at_once == 3
    assert budgets.budget(cells, memory=4 * need).at_once == 4
    assert budgets.budget(cells, memory=need // 2).at_once == 1  # it is tried
    shared_out = budgets.budget(cells, jobs=3, memory=much)
    assert [shared_out.workers(n_left) for n_left in (6, 3, 2, 1)] == [2, 2, 4, 8]
    tight = budgets.budget(cells, jobs=2, memory=2 * need)
    assert tight.workers(2) == 1  # cores are spare, memory is not
    assert f"2 cells at once; a cell needs about {need / 1e6:.1f} MB" in tight.words
    for name in ("jobs", "memory"):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            budgets.budget(cells, **{name: 0})


def test_data_are_counted_by_their_name_and_not_loaded(tmp_path: Path) -> None:
    """MNIST: 70,000 images of 28 × 28 floats and labels of 8 bytes, though no file is there.

    d = 784·32 + 32 + 32·10 + 10 = 25,450; the model, 2 updates and 3 vectors more.
    """
    missing = DataRecipe("mnist", "iid", 0, {"root": str(tmp_path), "n_clients": 2})
    cell = Cell.of(
        {"strategy": "fedavg"}, Task(missing, {"name": "mlp", "hidden": 32}, fedavg(), 1)
    )
    data = 70_000 * (784 * 4 + 8)
    expected = budgets.PROCESS_BYTES + data + (1 + 2 + 3) * 25_450 * 4
    assert budgets.largest_need([cell]) == expected


def test_data_of_ones_own_that_fail_are_left_for_the_cell_to_tell() -> None:
    failing = DataRecipe("math:sqrt", None, 0, {})
    cell = Cell.of({"strategy": "fedavg"}, Task(failing, "mlp", fedavg(), rounds=1))
    assert budgets.largest_need([cell]) == budgets.PROCESS_BYTES
