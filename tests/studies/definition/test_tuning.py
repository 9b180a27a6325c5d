"""Several keys of ``[tune]``, whole parts, and picks at the edge of what was tried."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest

from tests.cli import Command
from tests.studies.texts import DATA, study
from understudy import Adam, FixedDropout, Local, Momentum, Sgd, Study, fdms, fedavg
from understudy.core.types import RoundLog
from understudy.studies import StudyError, compare, results
from understudy.studies.definition.tune_table import Tune, edges_of
from understudy.studies.store.store import Store

VALIDATED = DATA + "validation = 0.2\n"
SERVERS = '{name = "sgd", lr = 1}, {name = "sgd", lr = 4}, {name = "adam", lr = 0.1}'
TUNE = f"""
[tune]
server = [{SERVERS}]
"local.lr" = [0.1, 0.5]
"strategies.fdms.similarity" = ["cosine", "distance"]
seeds = [100]
"""


def scored(made: Study, loss) -> pandas.DataFrame:
    """Results of the trials, from a function of the strategy's label and the trial's task."""
    return pandas.DataFrame(
        [
            {**trial.labels, "seed": trial.seed,
             "validation_loss": loss(trial.labels["strategy"], trial.task.strategy)}
            for trial in made.tuning()
        ]
    )  # fmt: skip


def test_all_combinations_of_the_keys_that_a_strategy_has_are_tried() -> None:
    """3 servers × 2 rates for both, × 2 similarities for fdms alone."""
    made = study(TUNE, data=VALIDATED)
    found = [
        (t.labels["strategy"], t.task.strategy.server, t.task.strategy.local.lr)
        for t in made.tuning()
    ]
    servers = (Sgd(1.0), Sgd(4.0), Adam(0.1))
    assert found[:6] == [("drop", *pair) for pair in product(servers, (0.1, 0.5))]
    assert len(found) == 6 + 12
    similar = [t.task.strategy.compensator.similarity for t in made.tuning()[6:]]
    assert similar == ["cosine", "distance"] * 6
    assert made.tuning()[0].labels["tuned"] == "server = sgd(lr=1), local.lr = 0.1"
    assert len({t.key for t in made.tuning()}) == 18


def test_a_block_without_tuned_rows_is_run_alone() -> None:
    """Its server is given, so nothing is to be tried; without the other block that is no error."""
    given = '{x = {method = "fedavg", server = {name = "sgd", lr = 2}}}'
    blocks = f"""
[[block]]
name = "given"
strategies = {given}
[[block]]
name = "open"
strategies = {{x = "fedavg"}}
[tune]
server = [{SERVERS}]
seeds = [100]
"""
    assert len(study(blocks, data=VALIDATED).tuning()) == 3
    alone = study(blocks, data=VALIDATED, overrides=['blocks=["given"]'])
    assert alone.tuning() == []
    assert [cell.task.strategy.server for cell in alone.cells()] == [Sgd(2.0)]


def test_only_the_blocks_named_are_tuned() -> None:
    """In the other one the same strategy keeps the server it has, whatever is picked."""
    blocks = f"""
[[block]]
name = "one"
[[block]]
name = "tuned"
[tune]
server = [{SERVERS}]
blocks = ["tuned"]
seeds = [100]
"""
    made = study(blocks, data=VALIDATED)
    assert {trial.labels["block"] for trial in made.tuning()} == {"tuned"}
    picks = {f"tuned/{name}": {"server": "adam(lr=0.1)"} for name in made.strategies}
    servers = {(c.labels["block"], c.task.strategy.server) for c in made.cells(picks)}
    assert servers == {("one", Sgd(1.0)), ("tuned", Adam(0.1))}
    with pytest.raises(StudyError, match=r"tune.blocks: no block 'tund'; did you mean 'tuned'"):
        study(blocks.replace('["tuned"]', '["tund"]'), data=VALIDATED)


def test_each_strategy_gets_the_combination_that_is_best_for_it() -> None:
    """drop: Adam at 0.5 has the smallest loss; fdms: step 4 at 0.1, by distance."""
    made = study(TUNE, data=VALIDATED)

    def loss(name: str, tried) -> float:
        if name == "drop":
            return (tried.server != Adam(0.1)) + abs(tried.local.lr - 0.5)
        by_distance = tried.compensator.similarity == "distance"
        return (tried.server != Sgd(4.0)) + tried.local.lr - by_distance

    picks = made.pick(scored(made, loss))
    assert picks == {
        "drop": {"server": "adam(lr=0.1)", "local.lr": 0.5},
        "fdms": {"server": "sgd(lr=4)", "local.lr": 0.1, "strategies.fdms.similarity": "distance"},
    }
    drop, friends = (cell.task.strategy for cell in made.cells(picks))
    assert (drop.server, drop.local.lr) == (Adam(0.1), 0.5)
    assert (friends.server, friends.local.lr) == (Sgd(4.0), 0.1)
    assert friends.compensator.similarity == "distance"
    # the same cells as those of a study that writes these values down
    written = study(
        data=VALIDATED,
        strategies='[strategies]\ndrop = {method = "fedavg", server = {name = "adam", lr = 0.1}, '
        'local = {lr = 0.5}}\nfdms = {method = "fdms", similarity = "distance", '
        'server = {name = "sgd", lr = 4.0}, local = {lr = 0.1}}',
    )
    assert [cell.key for cell in made.cells(picks)] == [cell.key for cell in written.cells()]


def test_a_trial_that_diverged_comes_last(tmp_path: Path) -> None:
    """At 0.5 the loss is 1 in round 0, below all others, and NaN in round 1, the last."""
    made = study('[tune]\n"local.lr" = [0.1, 0.5]\nseeds = [100]', data=VALIDATED)
    losses = {0.1: (3.0, 2.0), 0.5: (1.0, float("nan"))}
    with Store.open(tmp_path, write=True) as store:
        for trial in made.tuning():
            store.begin(trial.key, trial.resolved, {}, "0.1.0")
            for t, loss in enumerate(losses[trial.task.strategy.local.lr]):
                store.add_rounds(trial.key, [round_log(t, validation_loss=loss)])
            store.finish(trial.key)
        assert made.picks(store) == {"drop": {"local.lr": 0.1}, "fdms": {"local.lr": 0.1}}
    rounds = [
        {**trial.labels, "seed": trial.seed, "t": t, "validation_loss": loss}
        for trial in made.tuning()
        for t, loss in enumerate((*losses[trial.task.strategy.local.lr], None))
    ]
    frame = pandas.DataFrame(rounds)  # round 2 was not evaluated
    assert made.pick(frame) == {"drop": {"local.lr": 0.1}, "fdms": {"local.lr": 0.1}}
    with pytest.raises(StudyError, match="has a finite validation_loss in all its trials"):
        made.pick(frame[frame["t"] < 2].assign(validation_loss=float("inf")))


def round_log(t: int, **metrics: float) -> RoundLog:
    nobody = np.zeros(0, dtype=np.int64)
    return RoundLog(t, np.zeros(2, dtype=np.int8), (), nobody, nobody, np.zeros(0), {}, metrics)


def test_one_key_in_either_form_makes_the_same_trials() -> None:
    short = study('[tune]\nkey = "local.lr"\nvalues = [0.1, 0.5]', data=VALIDATED)
    quoted = study('[tune]\n"local.lr" = [0.1, 0.5]', data=VALIDATED)
    nested = study("[tune]\nlocal.lr = [0.1, 0.5]", data=VALIDATED)
    for other in (quoted, nested):
        assert [t.key for t in other.tuning()] == [t.key for t in short.tuning()]
        assert [t.labels for t in other.tuning()] == [t.labels for t in short.tuning()]
    changed = study(
        '[tune]\n"local.lr" = [0.1, 0.5]', data=VALIDATED, overrides=["tune.local.lr=[0.2, 0.3]"]
    )
    assert [t.labels["tuned"] for t in changed.tuning()[::3]] == [0.2, 0.3] * 2


def test_a_setting_of_a_part_is_tuned_where_the_part_has_it() -> None:
    """`server.lr` is kept by the strategy that sets it; `server.beta1` is of Adam alone."""
    strategies = (
        '[strategies]\nplain = "fedavg"\nown = {method = "fedavg", server = {name = "sgd", lr = 3}}'
        '\nadam = {method = "fdms", server = "adam"}'
    )
    made = study(
        '[tune]\n"server.lr" = [1, 2]\nseeds = [100]', data=VALIDATED, strategies=strategies
    )
    servers = [(t.labels["strategy"], t.task.strategy.server) for t in made.tuning()]
    assert servers == [
        ("plain", Sgd(1.0)),
        ("plain", Sgd(2.0)),
        ("adam", Adam(1.0)),
        ("adam", Adam(2.0)),
    ]
    momentum = study(
        "[tune]\nserver.beta1 = [0.5, 0.9]\nseeds = [100]", data=VALIDATED, strategies=strategies
    )
    assert [t.task.strategy.server for t in momentum.tuning()] == [
        Adam(beta1=0.5),
        Adam(beta1=0.9),
    ]
    # settings without a name amend the part that the strategy has
    amended = study(
        "[tune]\nserver = [{lr = 1}, {lr = 2}]\nseeds = [100]",
        data=VALIDATED,
        strategies=strategies,
    )
    assert [t.labels["strategy"] for t in amended.tuning()] == ["plain", "plain"]
    assert [t.task.strategy.server for t in amended.tuning()] == [Sgd(1.0), Sgd(2.0)]


def test_strategies_and_parts_made_in_python_are_tuned_too() -> None:
    made = Study(
        name="python",
        data={"name": "digits", "partition": "clustered", "per_client": 20, "validation": 0.2},
        model="softmax",
        strategies={"a": fedavg(local=Local(lr=0.2)), "b": fdms(server=Momentum(0.5))},
        availability={"half": FixedDropout(0.5)},
        rounds=2,
        tune={"server": [Sgd(1.0), Sgd(2.0), Adam(0.1)], "seeds": [100]},
    )
    assert [t.task.strategy.server for t in made.tuning()] == [Sgd(1.0), Sgd(2.0), Adam(0.1)] * 2
    assert made.tuning()[0].task.strategy.local.lr == 0.2
    label = made.tuning()[1].labels["tuned"]
    picks = {"a": {"server": label}, "b": {"server": label}}
    assert [cell.task.strategy.server for cell in made.cells(picks)] == [Sgd(2.0), Sgd(2.0)]
    assert edges_of(made.tune, picks) == {
        "a": {"server.lr": (2.0, "largest")},
        "b": {"server.lr": (2.0, "largest")},
    }


@pytest.mark.parametrize(
    ("values", "pick", "edges"),
    [
        ([0.1, 0.2, 0.4], 0.2, {}),
        ([0.1, 0.2, 0.4], 0.1, {"x": (0.1, "smallest")}),
        ([0.4, 0.1, 0.2], 0.4, {"x": (0.4, "largest")}),  # by size, not by place in the list
        (["a", "b"], "a", {}),
        ([True, False], True, {}),
        (["none", 1, 2], 1, {"x": (1, "smallest")}),
        (["none", 1, 2], "none", {}),
        ({"low": 1, "high": 2}, "high", {"x": (2, "largest")}),
        # compared with those that differ from it in this number alone
        ([{"name": "sgd", "lr": 1}, {"name": "sgd", "lr": 4}, {"name": "adam", "lr": 9}],
         "sgd(lr=4)", {"x.lr": (4, "largest")}),
        ([{"name": "sgd", "lr": 1}, {"name": "sgd", "lr": 4}, {"name": "adam", "lr": 9}],
         "adam(lr=9)", {}),
        ([{"name": "m", "lr": lr, "beta": 0.9} for lr in (1, 2, 3)] + [{"name": "m", "lr": 2,
         "beta": beta} for beta in (0.5, 0.7)], "m(lr=2, beta=0.9)", {"x.beta": (0.9, "largest")}),
    ],
)  # fmt: skip
def test_picks_at_the_edge(values, pick, edges) -> None:
    found = edges_of(Tune({"x": values}), {"a": {"x": pick}})
    assert found == ({"a": edges} if edges else {})


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ("server = [{name = 'sgd'}, {name = 'adma'}]",
         "study: tune.server: no server named 'adma'; did you mean 'adam'?"),
        ("server = [{name = 'sgd', lr = 1}, {name = 'sgd', rl = 1}]",
         "study: tune.server.rl: no such key; known: lr, schedule"),
        ("server = [{name = 'sgd', lr = 1}, {name = 'sgd', lr = -1}]",
         "study: tune.server.lr: expected"),
        ("'local.lr' = [0.1, 'x']", "study: tune.\"local.lr\": expected a number, got 'x'"),
        ("serverr = [1, 2]", "study: tune.serverr: no such key; did you mean 'server'?"),
        ("server = 3", "study: tune.server: expected a list of values or a table of labels, got 3"),
        ("'guard.x' = [1, 2]", "study: tune: no strategy is touched by 'guard.x'"),
        ("metric = 'validation_loss'", "study: tune.key: expected a value, got none"),
        ("key = 'local.lr'", "study: tune.values: expected a value, got none"),
        ("'local.epochs' = [1, 2]\n'local.steps' = [3, 4]",
         "study: tune.local: expected epochs or steps, got both"),
    ],
)  # fmt: skip
def test_an_error_names_the_key_of_tune(tune: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(f"[tune]\n{tune}", data=VALIDATED)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("picks", "message"),
    [
        ({"drop": 0.5}, "study: picks.drop: expected a table of keys, got 0.5"),
        ({"drop": {"local.lr": 0.3}},
         "study: picks.drop.\"local.lr\": expected one of 0.1, 0.5, got 0.3"),
    ],
)  # fmt: skip
def test_picks_that_were_not_tried_are_refused(picks, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(TUNE, data=VALIDATED).cells(picks)
    assert str(caught.value) == message


def test_a_tuned_key_is_not_set_beside_its_list() -> None:
    with pytest.raises(StudyError, match=r"is tuned; set tune\.local\.lr to a list instead"):
        study(TUNE, data=VALIDATED, overrides=["local.lr=0.1"])


RUN = """
name = "tuned"
rounds = 4
baseline = "drop"
model = "softmax"
data = { name = "digits", partition = "clustered", n_clients = 6, n_clusters = 3, per_client = 20, validation = 0.25 }
local = { lr = 0.05, steps = 2, batch_size = 10 }
strategies = { drop = "fedavg", one = { method = "fedavg", server = { name = "sgd", lr = 1.0 } } }

[tune]
server = [{ name = "sgd", lr = 0.001 }, { name = "sgd", lr = 2.0 }]
"local.lr" = [0.0001, 0.05, 1e9]
seeds = [7]
"""  # noqa: E501


def test_table_csv_report_and_show_name_the_picks_and_warn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 0.001 or 0.0001 learn nothing in four rounds, and 1e9 diverges."""
    file = tmp_path / "tuned.toml"
    file.write_text(RUN)
    runs = tmp_path / "runs"
    study = Study.read(file)
    assert "tuning        9 cells before them, for server, local.lr" in " ".join(
        Command(capsys, monkeypatch)("run", file, "--dry-run", "--folder", runs).out.splitlines()
    )
    outcome = study.run(runs, on="here", progress=False)
    assert not outcome.failed
    with Store.open(runs) as store:
        stored = store.study("tuned")
    assert stored.picks["drop"] == {"server": "sgd(lr=2.0)", "local.lr": 0.05}
    assert stored.picks["one"] == {"local.lr": 0.05}
    assert stored.edges == {"drop": {"server.lr": [2.0, "largest"]}}
    words = (
        "Tuned beforehand: server = sgd(lr=2.0) (drop); local.lr = 0.05 (drop, one). At the edge "
        "of its range, so that a better value may lie beyond: server.lr = 2, the largest tried "
        "(drop)."
    )
    comparison = compare(results(runs, study="tuned"), "accuracy_last")
    assert comparison.rows["picked"].tolist() == [
        "server = sgd(lr=2.0), local.lr = 0.05",
        "local.lr = 0.05",
    ]
    for text in (comparison.to_text(), comparison.to_markdown()):
        assert words in " ".join(text.split())
    shown = Command(capsys, monkeypatch)("show", "tuned", "--folder", runs).out
    assert words in " ".join(shown.split())


def test_trials_are_shown_before_there_are_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All trials fail, so that nothing can be picked; the same study without the error runs."""
    (tmp_path / "broken_loss.py").write_text(
        "def loss(outputs, labels):\n    raise RuntimeError('this loss is broken')\n"
    )
    file = tmp_path / "tuned.toml"
    file.write_text('loss = "broken_loss:loss"\n' + RUN)
    runs, command = tmp_path / "runs", Command(capsys, monkeypatch)
    outcome = Study.read(file).run(runs, on="here", progress=False)
    assert len(outcome.failed) == 9
    said = command("show", "tuned", "--folder", runs).out
    assert said.startswith("tuned: tuning, before its cells: 9 trials, 9 failed\n")
    assert "failed: RuntimeError: this loss is broken" in " ".join(said.split())
    key = Study.read(file).tuning()[0].key
    assert "RuntimeError: this loss is broken" in command("show", key, "--folder", runs).out
    for name in ("table", "report", "plot"):
        refused = command(name, "tuned", "--folder", runs)
        assert refused.code == 2
        assert "tuned: has no cells before it is tuned; understudy show tuned" in refused.err
    # once the trials are done, the cells are shown
    file.write_text(RUN)
    Study.read(file).run(runs, on="here", progress=False)
    said = command("show", "tuned", "--folder", runs).out
    assert said.startswith("tuned: 2 cells, 2 done\n")
    trial = Study.read(file).tuning()[0]
    assert "a cell of tuned" in command("show", trial.key, "--folder", runs).out


def test_what_an_earlier_run_found_stays_while_trials_run(tmp_path: Path) -> None:
    file, runs = tmp_path / "tuned.toml", tmp_path / "runs"
    file.write_text(RUN)
    Study.read(file).run(runs, on="here", progress=False)
    with Store.open(runs) as store:
        before = [cell.key for cell in store.cells("tuned")]
    (tmp_path / "broken_loss.py").write_text(
        "def loss(outputs, labels):\n    raise OSError('no')\n"
    )
    file.write_text('loss = "broken_loss:loss"\n' + RUN)
    Study.read(file).run(runs, on="here", progress=False)
    with Store.open(runs) as store:
        assert [cell.key for cell in store.cells("tuned")] == before
        assert {trial.status for trial in store.trials("tuned")} == {"failed"}
        assert store.study("tuned").picks["drop"]["local.lr"] == 0.05


def test_picks_stored_when_there_was_one_key_are_read(tmp_path: Path) -> None:
    about = {"tune": {"key": "local.lr", "values": [0.1, 0.5]}, "picks": {"fdms": 0.5}}
    with Store.open(tmp_path, write=True) as store:
        store.save_study("old", about, [], "0.1.0")
        stored = store.study("old")
    assert stored.tuned == ("local.lr",)
    assert stored.picks == {"fdms": {"local.lr": 0.5}}
    assert stored.edges == {}
