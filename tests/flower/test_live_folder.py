"""A live run's own folder: tables and reports without a ledger, and a result with all rounds."""

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from tests.cli import Command
from tests.crafted import flipped
from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.test_resume import Killed, noisy
from tests.flower.toy import play, reply_of, round_of, toy_app
from understudy import FixedDropout, fdms
from understudy.core.json_lines import sealed
from understudy.flower import request_retirement
from understudy.studies import results

ABSENCE = FixedDropout(0.4)


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def played(folder, rounds=4, crash=None, **options):
    def after_round(t):
        if t == crash:
            raise Killed

    return play(
        LoopbackGrid(nodes_of(toy_app(noisy), 5, secure=True)),
        fdms(),
        rounds=rounds,
        folder=folder,
        availability=ABSENCE,
        after_round=after_round,
        **options,
    )


def test_show_table_report_and_export_work_on_the_folder_of_a_live_run(tmp_path, command):
    folder = tmp_path / "run"
    played(folder)
    shown = command("show", str(folder))
    assert shown.code == 0, shown.err
    assert "live: 1 cell, 1 done" in shown.out
    assert "40.0 %" in shown.out  # what `evaluate_fn` returned after the last round
    assert "who stood in for whom most" in shown.out
    assert "hospital-" in shown.out.split("who stood in for whom most")[1]
    table = command("table", str(folder))
    assert table.code == 0, table.err
    assert "fdms" in table.out
    report = command("report", str(folder))
    assert report.code == 0, report.err
    page = (folder / "live" / "report.html").read_text()
    assert "live federation" in page
    export = command("export", str(folder), "--level", "round")
    assert export.code == 0, export.err
    (written,) = (folder / "live").glob("*round*.csv")
    assert len(written.read_text().splitlines()) == 1 + 4
    assert command("show", "--folder", str(folder)).out == shown.out  # and nothing is outdated


def test_a_run_that_was_stopped_is_shown_and_its_resumption_too(tmp_path, command):
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        played(folder, crash=2)
    about = json.loads((folder / "run.json").read_bytes())
    assert about["status"] == "failed"
    shown = command("show", str(folder))
    assert "1 failed" in shown.out
    assert "Killed" in shown.out
    assert len(results(folder, level="round", study="live")) == 2
    played(folder)
    assert "1 done" in command("show", str(folder)).out
    whole = results(folder, level="round", study="live")
    assert whole["test_accuracy"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_run_whose_process_is_gone_is_stopped_and_one_that_is_written_is_running(
    tmp_path, command
):
    folder = tmp_path / "run"
    seen = []

    def evaluate(t):
        if t == 2:
            seen.append(command("show", str(folder)).out)

    play(
        LoopbackGrid(nodes_of(toy_app(), 3)),
        rounds=4,
        folder=folder,
        after_round=evaluate,
    )
    (text,) = seen
    assert "1 running" in text
    about = json.loads((folder / "run.json").read_bytes())
    about.pop("crc32")
    (folder / "run.json").write_bytes(sealed(json.dumps({**about, "status": "running"}).encode()))
    assert "1 stopped" in command("show", str(folder)).out


def test_the_result_of_a_resumed_run_has_all_rounds(tmp_path):
    whole = played(tmp_path / "whole").result
    with pytest.raises(Killed):
        played(tmp_path / "run", crash=2)
    again = played(tmp_path / "run").result
    for name in (
        "train_metrics_clientapp",
        "evaluate_metrics_clientapp",
        "evaluate_metrics_serverapp",
    ):
        one, other = getattr(again, name), getattr(whole, name)
        assert sorted(one) == sorted(other)
        assert {t: dict(one[t]) for t in one} == {t: dict(other[t]) for t in other}
    assert sorted(again.evaluate_metrics_serverapp) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(again.arrays["w"].numpy(), whole.arrays["w"].numpy())


def test_damage_is_named(tmp_path, command, caplog):
    folder = tmp_path / "run"
    played(folder, rounds=2)
    path = folder / "results.jsonl"
    path.write_bytes(flipped(path.read_bytes(), 40))
    again = played(folder, rounds=3).result
    assert "results.jsonl, line 1: damaged" in caplog.text
    assert sorted(again.evaluate_metrics_serverapp) == [1, 2, 3]
    path = folder / "run.json"
    path.write_bytes(flipped(path.read_bytes(), 40))
    done = command("show", str(folder))
    assert done.code != 0
    assert "run.json: damaged" in " ".join(done.err.split())


def test_a_folder_without_its_description_is_told_and_gets_it_again(tmp_path, command):
    folder = tmp_path / "run"
    played(folder, rounds=2)
    (folder / "run.json").unlink()
    done = command("show", str(folder))
    assert done.code != 0
    assert "found no run" in " ".join(done.err.split())
    played(folder, rounds=3)
    assert "live: 1 cell, 1 done" in command("show", str(folder)).out
    assert len(results(folder, level="round", study="live")) == 3


def test_the_log_says_what_the_server_suggests(tmp_path, caplog):
    caplog.set_level("INFO", "flwr.understudy")
    played(tmp_path / "run", rounds=1)
    assert "The server suggests: Local(lr=" in caplog.text
    assert "Clients train:" not in caplog.text


def test_the_log_names_who_stood_in_for_whom_and_whose_late_answer_was_refused(tmp_path, caplog):
    caplog.set_level("INFO", "flwr.understudy")
    nodes = nodes_of(toy_app(), 3, secure=True)

    def behave(message, context):
        if context.node_config["partition-id"] == 2 and round_of(message) == 1:
            nan = ArrayRecord({"w": Array(np.full(3, np.nan, dtype=np.float32))})
            return reply_of(message, nan)
        return None

    nodes[2].app = toy_app(behave)
    nodes[2].delay = lambda message: 40.0 if round_of(message) == 1 else 0.0
    grid = LoopbackGrid(nodes)
    options = {"deadline": 30.0, "fraction_evaluate": 0.0}
    play(grid, fdms(), rounds=3, after_round=lambda t: grid.time.sleep(15), **options)
    lines = [line.strip() for line in caplog.messages]
    stood_in = [line for line in lines if line.startswith("> stood in: ")]
    assert stood_in[0] in [f"> stood in: hospital-{one} for hospital-2" for one in (0, 1)]
    assert "> hospital-2: missing (no answer in time)" in lines
    (refused,) = [line for line in lines if "refused" in line]
    assert refused.startswith("> hospital-2: a late answer is refused (not finite: ")


def test_a_folder_without_a_run_is_named_and_not_the_runs_folder(tmp_path, command):
    missing, empty = tmp_path / "no" / "run", tmp_path / "empty"
    empty.mkdir()
    for folder, found in ((missing, "no such folder"), (empty, "no run")):
        for name in ("show", "table", "report", "export"):
            done = command(name, str(folder))
            assert done.code == 2
            words = " ".join(done.err.split())
            assert f"{folder.name}: expected a study or the folder of a run" in words
            assert f"found {found}" in words


def test_the_command_that_a_message_names_shows_the_rounds_of_now(tmp_path, command):
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        played(folder, crash=2)
    said = " ".join(command("table", str(folder)).err.split())
    named = said.split("there is no table; ")[1].removesuffix(" shows their progress").split()
    assert named[:3] == ["understudy", "show", "live"]
    with pytest.raises(Killed):
        played(folder, crash=3)
    shown = command(*named[1:])
    assert shown.code == 0, shown.err
    assert "failed after 3 rounds" in shown.out


def test_who_joined_later_is_not_called_least_represented_nor_is_who_left(tmp_path, command):
    nodes = nodes_of(toy_app(), 4, secure=True)
    nodes[3].online = False

    def after_round(t):
        nodes[3].online = t >= 0
        if t == 2:
            request_retirement(tmp_path, "hospital-0")

    play(
        LoopbackGrid(nodes),
        rounds=5,
        folder=tmp_path,
        after_round=after_round,
        fraction_evaluate=0.0,
    )
    shown = command("show", str(tmp_path))
    assert "every client was represented in every round" in shown.out
    clients = results(tmp_path, level="client", study="live")
    assert clients["n_examples"].tolist()[1:] == [2.0, 3.0, 4.0]  # of those who did not leave
    assert np.isnan(clients["n_examples"][0])
