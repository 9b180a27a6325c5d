"""The built-in studies: their sizes, their settings, and that each of them runs."""

import math
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch

from tests.studies.images import write_images
from tests.studies.tiny import tiny_tasks
from understudy import strategies
from understudy.analysis import analyse
from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.core.types import Population
from understudy.papers.readings import (
    AtMostDropout,
    HalfOfThoseThere,
    SinLogNormal23,
    fdms_cnn_320,
)
from understudy.parts.availability import Always, Bernoulli, FixedDropout, FullStart, fdms_dropout
from understudy.parts.availability.skewed import SinLogNormal
from understudy.parts.compensators.gather import Gather
from understudy.parts.compensators.ignore import Ignore
from understudy.parts.local import Local, Plain, Proximal
from understudy.parts.samplers.blind import Blind
from understudy.parts.samplers.keep_asking import KeepAsking
from understudy.parts.samplers.uniform import Uniform
from understudy.parts.schedules import Exponential, inverse_time
from understudy.parts.servers import Adam, Momentum, Sgd
from understudy.simulation import clustered_digits, simulate
from understudy.studies.definition import builtins, estimates
from understudy.studies.definition.errors import StudyError
from understudy.testing import check_availability, check_sampler, example_population

# Cells at the scales quick, results, paper (absence: quick, standard, full), counted by hand from
# the settings of the papers.
# A strategy with everybody present has no levels of availability: 1 + 4 × 3 = 13 in fdms-fig1.
CELLS = {
    # eight methods under two kinds of absence, and everybody present
    "quickstart": ((2 * 8 + 1) * 5, (2 * 8 + 1) * 10, (2 * 8 + 1) * 10),
    # the same two, at step 1 and tuned: nine methods, and everybody present
    "quickstart-tuned": (2 * (2 * 9 + 1) * 5, 2 * (2 * 9 + 1) * 10, 2 * (2 * 9 + 1) * 10),
    # five methods with ten servers under two kinds of absence; one data set when quick, else four
    "server-step": (100, 100 * (5 + 5 + 3 + 3), 100 * (5 + 5 + 3 + 3)),
    # quick: six rows, and two in three modes. Digits and Synthetic: 36 rows in ten modes and two
    # with everybody; a trace without two; errors; cold start; IID; tuned: 37 rows in four modes.
    # Three seeds: MNIST, 33 rows in three modes; FMNIST, 22 in three; CIFAR-10, 28 in two
    "concord": (
        6 + 2 * 3,
        (2 * 362 + 36 + 15 + 38 + 14 + 2 * 149) * 5 + (100 + 67 + 57) * 3,
        (2 * 362 + 36 + 15 + 38 + 14 + 2 * 149 + 100 + 67 + 57) * 10,
    ),
    # 22 rows in each mode and one with everybody, but for a row that has no trace. Quick: three
    # modes in two views. Digits and Synthetic in both views: eleven modes and a trace; F-MNIST and
    # CIFAR-10 with 14 rows in three modes and a trace. Full: all of each, and two sets without it
    "absence": (
        2 * (22 * 3 + 1) * 2,
        4 * (22 * 11 + 1 + 21 + 1) * 5 + 2 * (14 * 3 + 1 + 13 + 1) * 3,
        6 * (22 * 11 + 1 + 21 + 1) * 5 + 2 * (22 * 11 + 1) * 5,
    ),
    # MNIST and CIFAR-10 as in the authors' code, and as published
    "fdms-fig1": (4 * 13, 13 * 5 + 13 * 8 + 13 * 5 + 13 * 4, 4 * 13 * 10),
    "fdms-fig2": (13, 13 * 5, 13 * 10),
    "fdms-fig3": (2, 2 * 5, 2 * 10),
    "fdms-fig4": (5, 5 * 5, 5 * 10),
    "fdms-fig5": (3 * 5, 3 * 5 * 5, 3 * 5 * 10),
    # four strategies on each set, and one with a constant and a growing batch
    "fdms-sigma": (2 * 4 + 2, (2 * 4 + 2) * 5, (2 * 4 + 2) * 10),
    "fdms-e": (3 * 5 * 2, 10 * 8 + 10 * 5 + 10 * 4, 3 * 5 * 2 * 10),
    "fdms-k40": (3 * 5, 5 * 8 + 5 * 5 + 5 * 4, 3 * 5 * 10),
    "fdms-fedprox": (2 * 5, 5 * 5 + 5 * 4, 2 * 5 * 10),
    "fdms-fmnist": (13, 13 * 8, 13 * 10),
    # nine strategies in five modes on Synthetic, the authors' and drawn; six (two when quick) on
    # the images
    "fedgs-table2": (
        2 * 45 + 2 * 5 + 2 * 3,
        2 * 45 * 10 + 6 * 5 * 5 + 6 * 3 * 5,
        (2 * 45 + 45 + 27) * 3,
    ),
    "fedgs-table3": (2, 2 * 5, 2 * 3),
    "fedgs-fig4": (2 * 4, 4 * 5 + 4 * 5, 2 * 4 * 3),
    # four strategies in two modes; theorem 1 with one in two modes
    "fedgs-graphs": (8 + 2, (8 + 2) * 5, (8 + 2) * 3),
    "fedar-fig1": (7, 7 * 5, 7 * 30),
    # six methods, one of them in three readings, at two p_min
    "fedar-fig2": (3 * 16, 3 * 16 * 5, 3 * 16 * 5),
    "fedar-table2": (2 * 16, 2 * 16 * 5, 2 * 16 * 5),
    "fedar-table3": (4, 4 * 5, 4 * 5),
    "fedar-fig4": (25, 25 * 3, 25 * 5),
    "fedar-fig5": (25, 25 * 3, 25 * 5),
    "fedar-rho": (6 + 1, 7 * 3, 7 * 5),
    "fedar-size": (4, 4, 4),
    # as read, server step, steps, 80 %, 320 units, LeNet, race 5 each; distance 2; Dropout full in
    # round 0 1; four kinds of absence 4 each; friends absent at two α 3 each; CIFAR-10 5, with
    # four seeds
    "fdms-readings": (60 + 20, 60 * 5 + 10 * 4 + 5 * 8 + 5 * 5, 80 * 10),
    # as read 16; scale 12; edges, graph, one start, reported losses, losses on training data, β,
    # the same clients, variances 8 each; epochs and ten per cent 12 each; days 4; drawn data 16;
    # the calibration of MDF 6, with ten seeds
    "fedgs-readings": (142, 136 * 3 + 60, 136 * 3 + 60),
    # as read 5; ψ 2; cut-off 3; no wait 1; full start 5; S = 50 waits 2; by label 5; steps 5;
    # constant 5; half 2
    "fedar-readings": (35, 35 * 3, 35 * 5),
    # FedAWE 4 in three modes; FedAU, FedStale 4 in two; conflicts 5 in two; one model and two, 3 in
    # two; cycles 4; late 8
    "newer-readings": (62, 62 * 5, 62 * 10),
    # seven methods at two α; eleven in four modes; eight at two p_min
    "fdms-home": (2 * 9, 2 * 9 * 5, 2 * 9 * 10),
    "fedgs-home": (4 * 15, 4 * 15 * 5, 4 * 15 * 10),
    "fedar-home": (2 * 10, 2 * 10 * 5, 2 * 10 * 5),
}


def cells(name, scale, **labels):
    found = builtins.built_in(name, scale).cells()
    return [c for c in found if all(c.labels[key] == value for key, value in labels.items())]


def only(name, scale, **labels):
    """The first cell with these labels, at its first seed."""
    return next(iter(cells(name, scale, **labels)))


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images"))


def test_every_file_is_a_listed_study_and_says_what_it_shows():
    folders = files("understudy.studies.builtin"), files("understudy.papers").joinpath("studies")
    names = [path.name for folder in folders for path in folder.iterdir()]
    inside = {name.removesuffix(".toml") for name in names if name.endswith(".toml")}
    assert inside == set(builtins.NAMES) == set(CELLS)
    for study in builtins.listed():
        assert study.title
        assert study.shows
        assert not study.shows.endswith(".")  # it is put into sentences
        assert builtins.built_in(study.name).scales == builtins.scales_of(study.name)


@pytest.mark.parametrize("name", builtins.NAMES)
def test_number_of_cells(name):
    assert tuple(len(cells(name, scale)) for scale in builtins.scales_of(name)) == CELLS[name]


@pytest.mark.parametrize("name", builtins.NAMES)
def test_every_study_runs(name, images, monkeypatch):
    """Two rounds of each cell on generated images, and what its analyses find."""
    monkeypatch.setenv("UNDERSTUDY_DATA", str(images))
    for task in tiny_tasks(cells(name, "quick")):
        logs, found = [], None
        for log in (run := task.open(workers=1)):
            logs.append(log)
            if log.t + 1 == task.rounds:
                found = analyse(run, task)
        assert [log.t for log in logs] == [0, 1]
        assert math.isfinite(logs[-1].metrics["test_loss"])
        assert str(run.warnings) == "nobody was left out"
        assert bool(found.metrics) == bool(task.analysis)


def test_quickstart_tuned_tunes_one_of_its_blocks():
    """The same methods, once with server step 1 and once with 15 servers to choose from."""
    study = builtins.built_in("quickstart-tuned")
    trials = study.tuning()
    assert len(trials) == (2 * 9 + 1) * 15 * 3
    assert {trial.labels["block"] for trial in trials} == {"tuned"}
    one, tuned = (
        [c.task.strategy for c in cells("quickstart-tuned", "quick", block=block) if c.seed == 0]
        for block in ("step 1", "tuned")
    )
    assert one == tuned  # before anything is picked, the step is 1
    picks = {f"tuned/{name}": {"server": "adam(lr=0.03)"} for name in study.strategies}
    by_block = {"step 1": Sgd(1.0), "tuned": Adam(0.03)}
    for cell in study.cells(picks):
        assert cell.task.strategy.server == by_block[cell.labels["block"]]
    minutes = estimates.estimate([*trials, *study.cells(picks)]).seconds(cores=2) / 60
    assert minutes < 5


def test_absence_tunes_the_blocks_that_say_so_and_leaves_one_server_in_the_others():
    study = builtins.built_in("absence", "quick")
    trials = study.tuning()
    # 23 rows but for three that are server steps; eight servers; everybody has one mode, others 3
    assert len(trials) == (19 * 3 + 1) * 8
    assert {trial.labels["block"] for trial in trials} == {"digits_tuned"}
    assert not {trial.seed for trial in trials} & {cell.seed for cell in study.cells()}
    picks = {trial.labels["strategy"]: {"server": "adam(lr=0.03)"} for trial in trials}
    made = study.cells({f"digits_tuned/{name}": pick for name, pick in picks.items()})
    own = {"fedexp", "generalized", "amplified"}
    for cell in made:
        name, server = cell.labels["strategy"], cell.task.strategy.server
        tuned = cell.labels["block"] == "digits_tuned"
        if name in own:
            assert name not in picks
            assert type(server).__name__ in ("Extrapolated", "GeneralizedFedAvg")
        else:
            assert server == (Adam(0.03) if tuned else Sgd(1.0)), (name, tuned)
    rows = {cell.labels["strategy"]: cell.task.strategy for cell in made}
    assert len({strategy.weighting for strategy in rows.values()}) == 1
    assert len({replace(strategy.local, rule=Plain()) for strategy in rows.values()}) == 1


def test_absence_at_full_size_keeps_the_cells_of_standard():
    """What is tuned apart; of the images the runs are longer."""
    small, large = (
        {cell.key for cell in cells("absence", scale, block="synthetic")}
        for scale in ("standard", "full")
    )
    assert small == large
    traces = cells("absence", "standard", block="digits_trace")
    assert "known p" not in {cell.labels["strategy"] for cell in traces}


def test_quickstart_is_the_comparison_it_says():
    """A cell plays exactly what the same parts play when put together in Python."""
    local = Local(lr=0.1, epochs=2, batch_size=5)
    anyone = ("anyone missing", FixedDropout(0.7))
    friend = ("friend present", FixedDropout(0.7, keep_one_per_group=True, first_round_full=True))
    by_hand = [
        ("full", strategies.fedavg(local=local, server=Momentum(4.0, 0.5)), (None, Always())),
        ("fedar", strategies.fedar(local=local, server=Sgd(4.0)), anyone),
        (
            "uniform",
            strategies.fedavg(sampler=Uniform(), local=local, server=Adam(0.03)),
            friend,
        ),
        ("fedgs", strategies.fedgs(local=local, server=Adam(0.03)), friend),
        ("concord", strategies.concord(local=local, server=Momentum(2.0, 0.5)), anyone),
    ]
    federation = clustered_digits(20, 5, per_client=64, seed=1)
    for label, strategy, (mode, availability) in by_hand:
        found = cells("quickstart", "quick", strategy=label, availability=mode)
        (cell,) = [c for c in found if c.seed == 1]
        assert cell.task.rounds == 30
        expected = simulate(
            federation, strategy, model="mlp", availability=availability, rounds=2, seed=1,
            workers=1,
        )  # fmt: skip
        with cell.task.open(workers=1) as played:
            for theirs, ours in zip(expected, played, strict=False):
                assert ours.metrics == theirs.metrics


def test_fdms_settings_are_the_papers():
    code = only("fdms-fig1", "paper", strategy="fdms", alpha=0.7, block="cifar10").task
    assert code.strategy.local == Local(lr=0.1, epochs=2, batch_size=200)
    assert code.data.settings["per_client"] == 800
    cell = only("fdms-fig1", "paper", strategy="fdms", alpha=0.7, block="cifar10_as_published")
    task = cell.task
    assert (task.rounds, task.model) == (500, "lenet5")
    assert task.strategy.local == Local(lr=0.1, epochs=2, batch_size=20)
    assert task.availability == fdms_dropout(0.7)
    assert task.strategy.server.lr == 1.0
    assert dict(task.data.settings) == {
        "n_clients": 20, "n_clusters": 5, "classes_per_cluster": 2, "per_client": 1000,
    }  # fmt: skip
    full = only("fdms-fig1", "paper", strategy="full", block="mnist")
    assert full.labels["alpha"] is None
    assert full.labels["availability"] is None
    assert full.task.availability == Always()
    assert full.task.rounds == 100
    prox = only("fdms-fedprox", "paper", strategy="stale")
    assert prox.task.strategy.local.rule == Proximal(0.2)


def test_fedgs_settings_are_the_papers():
    task = only(
        "fedgs-table2", "paper", strategy="uniform", availability="LN", block="cifar10"
    ).task
    decayed = Local(lr=0.03, schedule=Exponential(0.998), steps=10, batch_size=32)
    assert task.strategy.local == decayed
    assert (task.rounds, task.model, task.strategy.weighting) == (1000, "fedgs_cifar", "examples")
    synthetic = only("fedgs-table2", "results", strategy="fedprox", availability="MDF",
                     block="synthetic").task  # fmt: skip
    assert synthetic.strategy.local.rule == Proximal(0.01)
    assert (synthetic.rounds, synthetic.strategy.local.batch_size) == (300, 10)
    assert synthetic.strategy.weighting == "clients"  # drawn by data already


def test_fedar_settings_are_the_papers():
    task = only("fedar-fig2", "paper", strategy="mifa", p_min=0.5, block="cifar10").task
    assert task.strategy.local == Local(
        lr=0.1, schedule=inverse_time, epochs=5, batch_size=64, weight_decay=0.001
    )
    assert (task.rounds, task.availability.p_min) == (200, 0.5)


def test_s50_of_fedar_in_all_three_readings():
    """At most 50 of those who are there; 50 of all, waited for, as MIFA's authors run it; half of
    those who are there."""
    there, waits, half = (
        only("fedar-fig2", "paper", strategy=name, p_min=0.1, block="mnist").task.strategy
        for name in ("fedavg_s50", "fedavg_s50_waits", "fedavg_half")
    )
    assert (there.sampler, there.compensator) == (Uniform(50), Ignore())
    assert (waits.sampler, waits.compensator) == (KeepAsking(Blind(Uniform(50))), Gather())
    assert (half.sampler, half.compensator) == (HalfOfThoseThere(), Ignore())
    assert there.local == waits.local == half.local
    full = only("fedar-readings", "paper", strategy="mifa", block="mifa_full_start").task
    assert full.availability == FullStart(Bernoulli(p_min=0.1))


@pytest.mark.parametrize("scale", ["quick", "results", "paper"])
@pytest.mark.parametrize("name", ["fdms-fig4", "fdms-readings"])
def test_the_horizon_of_a_race_is_the_rounds_of_its_run(name, scale):
    """T of Theorem 2."""
    tasks = [cell.task for cell in cells(name, scale)]
    races = [
        (task.strategy.compensator.race.horizon, task.rounds)
        for task in tasks
        if getattr(task.strategy.compensator, "race", None) is not None
    ]
    assert races
    assert all(horizon == rounds for horizon, rounds in races)


def test_other_readings_of_fedgs_differ_in_what_they_say():
    """No level is another one under a second name, but for those of strategies it leaves alone."""
    cells = [cell for cell in builtins.built_in("fedgs-readings", "results").cells()
             if cell.seed == 1]  # fmt: skip
    by_block = {}
    for cell in cells:
        by_block.setdefault(cell.labels["block"], {})[
            cell.labels["strategy"], cell.labels["availability"]
        ] = cell
    as_read = by_block.pop("as_read")
    for name, block in by_block.items():
        assert any(
            place not in as_read or as_read[place].key != cell.key for place, cell in block.items()
        ), name
    local = by_block["epochs"]["fedgs_a1", "LN"].task.strategy.local
    assert (local.epochs, local.steps) == (10, None)
    asked = by_block["losses_on_training_data"]["power_of_choice", "LN"].task.federation()
    theirs = as_read["power_of_choice", "LN"].task.federation()
    assert asked.validation is None
    assert theirs.validation is not None
    assert torch.equal(asked.x, theirs.x)
    assert [list(one) for one in asked.clients] == [list(one) for one in theirs.clients]


def test_studies_share_cells():
    """What one study has run, another that needs it does not run again."""
    table = {cell.key for cell in cells("fedgs-table2", "results")}
    assert {cell.key for cell in cells("fedgs-fig4", "results")} <= table
    figure = {cell.key for cell in cells("fedar-fig2", "results", block="svhn")}
    assert figure <= {cell.key for cell in cells("fedar-table2", "results")}
    rare = {cell.key for cell in cells("fedar-fig2", "results", block="cifar10", p_min=0.1)}
    clients = cells("fedar-table3", "results")
    shared = [cell.labels["strategy"] for cell in clients if cell.key in rare]
    assert shared == [cell.labels["strategy"] for cell in clients
                      if cell.labels["strategy"] != "full"]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith("fdms-")])
def test_dropout_and_stale_of_fdms_are_those_of_the_authors_code(name):
    """Dropout misses clients in round 0 too, and Stale is there in both readings.

    At home all rows face the same attendance, with everybody in round 0.
    """
    found = cells(name, "paper")
    own_start = {"dropout_full_first"} if name == "fdms-readings" else set()
    dropouts = [cell.task for cell in found if cell.labels["strategy"] == "dropout"
                and cell.labels.get("block") not in own_start
                and isinstance(cell.task.availability, FixedDropout)]  # fmt: skip
    at_home = name == "fdms-home"
    assert all(task.availability.first_round_full == at_home for task in dropouts)
    by_block = {}
    for cell in found:
        by_block.setdefault(cell.labels.get("block"), set()).add(cell.labels["strategy"])
    for block, strategies_there in by_block.items():
        assert "stale" not in strategies_there or "stale_model" in strategies_there, block


def test_a_study_by_name_or_by_file(tmp_path):
    assert builtins.source("fdms-fig1").read_text() == builtins.text("fdms-fig1")
    mine = tmp_path / "mine.toml"
    mine.write_text(builtins.text("quickstart"))
    assert builtins.source(mine) == mine
    with pytest.raises(StudyError, match="did you mean 'fdms-fig1'"):
        builtins.source("fdms-fig11")
    with pytest.raises(StudyError, match="no built-in study named 'x'"):
        builtins.built_in("x")


# -- other readings --------------------------------------------------------------------------------


def test_parts_of_other_readings_keep_the_rules():
    check_availability(AtMostDropout(0.5))
    check_availability(SinLogNormal23())
    check_sampler(HalfOfThoseThere())
    # 10 × 25 + 10, 20 × 250 + 20, 320 × 320 + 320, 10 × 320 + 10
    assert sum(p.numel() for p in fdms_cnn_320().parameters()) == 260 + 5020 + 102_720 + 3210
    assert fdms_cnn_320()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_at_most_dropout_misses_any_number_up_to_alpha():
    availability = AtMostDropout(0.5)
    state = availability.init(Population(10, groups=np.arange(10) // 2))
    drawn = np.array(
        [availability.draw(state, t, generator(0, "availability", t)) for t in range(400)]
    )
    assert set((~drawn).sum(axis=1)) == {0, 1, 2, 3, 4, 5}
    assert not drawn.reshape(-1, 5, 2).any(axis=2).all()  # a whole group may be among them
    assert availability.rates(state, 1).mean() == pytest.approx(0.75)  # 5 .. 10 of 10, equally


def test_the_reading_at_most_keeps_its_key_and_plain_absence_has_another():
    """The study's process was told by two fields before it had a third, and was always this one."""
    found = only("fdms-readings", "results", strategy="fdms", block="at_most").task.availability
    assert found == AtMostDropout(0.5, first_round_full=True, keep_one_per_group=True)
    told = {"class": "AtMostDropout", "alpha": 0.5, "first_round_full": True}
    assert describe(found) == told
    assert describe(AtMostDropout(0.5, first_round_full=True)) != told
    state = found.init(Population(10, groups=np.arange(10) // 2))
    drawn = [found.draw(state, t, generator(0, "availability", t)) for t in range(200)]
    assert drawn[0].all()
    assert all(present.reshape(5, 2).any(axis=1).all() for present in drawn)
    with pytest.raises(ValueError, match=r"keep_one_per_group: .* got 'yes'"):
        AtMostDropout(keep_one_per_group="yes")


def test_days_of_23_steps_end_where_they_began():
    """sin(2π·t/23): hours 0 and 23 are alike, where the words' 2π/24 has them an hour apart."""
    population = example_population()
    code, words = SinLogNormal23(0.5), SinLogNormal(0.5)
    state = code.init(population)
    assert code.rates(state, 23) == pytest.approx(code.rates(state, 0))
    assert not np.allclose(
        words.chances(words.init(population), 23), words.chances(words.init(population), 0)
    )


# -- estimates -------------------------------------------------------------------------------------


def test_estimate_counts_steps_multiply_adds_and_evaluations(monkeypatch):
    """quickstart's full by the loop: 20 clients × 2 epochs × ⌈64/5⌉ = 13 batches, 64-32-10.

    A step is 150 µs; a pass over one example 64 × 32 + 32 × 10 = 2368 multiply-adds, three times
    that with the backward pass; 359 of the 1,797 digits are tested after each of 30 rounds, half a
    millisecond for each 250; the loop itself is 5 ms a round.
    """
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setenv("UNDERSTUDY_ENGINE", "loop")
    monkeypatch.setattr(estimates, "_models", {})
    cell = only("quickstart", "quick", strategy="full")
    steps = 20 * 2 * 13
    training = steps * 150e-6 + 3 * 20 * 2 * 64 * 2368 / 7e9
    judging = 359 * (2368 / 7e9 + 0.0005 / 250)
    found = estimates.estimate([cell, cell])
    assert found.n_cells == 1
    assert found.core_seconds == pytest.approx(30 * (0.005 + training + judging))
    # on the clock also six seconds in which processes start and the report is made
    assert found.seconds(cores=2) == pytest.approx(6 + found.core_seconds / 2)
    assert estimates.estimate([]).seconds(cores=2) == 0
    # 2410 parameters; 800 bytes of a round and 6 of each client in it
    assert found.n_bytes == 4 * (64 * 32 + 32 + 32 * 10 + 10) + 30 * (800 + 6 * 20)


def test_estimate_knows_who_is_asked():
    """At α = 0.7 six of 20 come, uniform asks four of them; with the oracle all are trained."""
    dropout, uniform, full = (
        estimates.estimate([only("quickstart", "quick", strategy=label)]).core_seconds
        for label in ("dropout", "uniform", "full")
    )
    assert uniform < dropout < full
    sigma = [
        estimates.estimate([only("fdms-sigma", "quick", strategy=label)]).core_seconds
        for label in ("full", "dropout")
    ]
    assert sigma[0] == pytest.approx(sigma[1])


def test_estimates_of_the_studies_shown(monkeypatch):
    """Within the budget of two cores: minutes when quick, and at results for the three shown."""
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)

    def minutes(name, scale, **overrides):
        study = builtins.built_in(name, scale, overrides)
        return estimates.estimate(study.cells()).seconds(cores=2) / 60

    for name in builtins.NAMES:
        assert minutes(name, "quick") < 10, name
    assert minutes("quickstart", "quick") < 1
    assert minutes("fdms-sigma", "results", blocks=["mnist"]) < 10  # four methods, five seeds
    assert minutes("fdms-fig1", "results", blocks=["mnist"]) < 65  # eight seeds
    assert minutes("fedgs-table2", "results", blocks=["synthetic"]) < 10


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (89, "89 s"),
        (90, "2 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (4e6, "1,111 h"),
    ],
)
def test_durations_in_words(seconds, words):
    assert estimates.readable(seconds) == words
