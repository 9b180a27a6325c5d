"""A study's words: what they mean, and what is said where they mean nothing."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.studies.texts import DATA, MODEL, STRATEGIES, strategy, study, text
from understudy import (
    FDMS,
    Blind,
    Deadline,
    Exponential,
    FedAR,
    FedGS,
    FixedDropout,
    HoeffdingRace,
    Latency,
    LinearCutoff,
    Local,
    Markov,
    Plain,
    Proximal,
    Strategy,
    Trace,
    fdms,
    fedgs,
    fedprox,
    registry,
)
from understudy.parts.schedules import inverse_time
from understudy.strategies import FDMS_LOCAL, FEDAR_LOCAL, FEDGS_LOCAL
from understudy.studies import Study, StudyError
from understudy.studies.definition.cell import Cell, DataRecipe
from understudy.studies.definition.overrides import parsed, path_of, written


def error_of(rest: str = "", **parts: str) -> str:
    with pytest.raises(StudyError) as caught:
        study(rest, **parts)
    return str(caught.value)


# -- what words stand for --------------------------------------------------------------------------


def test_a_name_of_a_method_is_the_method_trained_as_all_are() -> None:
    assert strategy('"fdms"') == fdms(local=Local())
    assert strategy('{method = "fdms"}') == fdms(local=Local())
    assert strategy('{method = "fdms", local = "paper"}') == fdms()


def test_the_settings_of_a_method_and_the_parts_of_a_strategy_share_one_table() -> None:
    made = strategy('{method = "fedgs", alpha = 2, m = 3, compensator = "fdms"}')
    assert made == fedgs(alpha=2.0, m=3, compensator=FDMS(), local=Local())


def test_parts_in_parts() -> None:
    made = strategy(
        '{sampler = {name = "blind", inner = {name = "fedgs", m = 0.5}}, '
        'compensator = {name = "fdms", race = {name = "hoeffding_race", threshold = "code"}}, '
        'guard = "norm_guard", weighting = "examples", server = {name = "adam", lr = 0.5}}'
    )
    assert made.sampler == Blind(FedGS(m=0.5))
    assert made.compensator == FDMS(race=HoeffdingRace("code"))
    assert made.guard is not None
    assert made.weighting == "examples"
    assert made.server.lr == 0.5


def test_a_part_of_one_class_only_needs_no_name() -> None:
    made = strategy('{method = "fdms", race = {scale = 0.5}}')
    assert made.compensator == FDMS(race=HoeffdingRace(scale=0.5))
    made = strategy('{method = "fdms", race = "hoeffding_race"}')
    assert made.compensator == FDMS(race=HoeffdingRace())


@pytest.mark.parametrize(
    ("word", "cutoff"),
    [
        ('{name = "linear_cutoff", b = 4}', LinearCutoff(b=4.0)),
        ("5", 5.0),
        ("7.5", 7.5),
        ('"none"', None),
    ],
)
def test_a_cutoff_is_a_number_a_part_or_nothing(word: str, cutoff: object) -> None:
    made = strategy(f'{{method = "fedar", cutoff = {word}}}').compensator
    assert isinstance(made, FedAR)
    assert made.cutoff == cutoff
    assert type(made.cutoff) is type(cutoff)


def test_a_number_stays_whole_where_that_means_something_else() -> None:
    """m = 1 is one client, m = 1.0 is all of them."""
    for word, kind in (("1", int), ("1.0", float)):
        m = strategy(f'{{method = "mdsample", m = {word}}}').sampler.m
        assert m == 1
        assert type(m) is kind


def test_training_is_the_studys_then_the_strategys_own() -> None:
    """No schedule, weight decay or batch size of a paper comes along with a method's name."""
    table = '{method = "fedar", local = {batch_size = 8}}'
    made = strategy(table, "[local]\nlr = 0.5\nbatch_size = 16\nweight_decay = 0.1").local
    assert made == Local(lr=0.5, batch_size=8, weight_decay=0.1)
    for method in ("fdms", "mifa", "fedgs"):
        assert strategy(f'"{method}"').local == Local()
    assert strategy('{compensator = "mifa"}').local == Local()


def test_training_as_the_papers_have_it_is_asked_for() -> None:
    own, paper = '{method = "mifa", local = "paper"}', 'local = "paper"'
    assert strategy(own, "[local]\nlr = 0.5").local == FEDAR_LOCAL
    assert strategy('"fdms"', top=paper).local == FDMS_LOCAL
    assert strategy('"mdsample"', top=paper).local == FEDGS_LOCAL
    over = strategy('{method = "fedar", local = {batch_size = 8}}', top=paper).local
    assert over == replace(FEDAR_LOCAL, batch_size=8)


def test_nothing_is_set_below_the_papers_training() -> None:
    told = r"local: is 'paper', each method's own: nothing can be set below it"
    with pytest.raises(StudyError, match=told):
        study(top='local = "paper"', overrides=["local.lr=0.5"])
    with pytest.raises(StudyError, match=told):
        study('[axes]\n"local.lr" = [0.1, 0.2]', top='local = "paper"')
    with pytest.raises(StudyError, match=r"a table of lr, .* or 'paper', got 'papers'"):
        study(top='local = "papers"')


def test_an_axis_of_training_leaves_a_strategy_with_its_papers_alone() -> None:
    strategies = '[strategies]\na = "fdms"\nb = {method = "mifa", local = "paper"}'
    cells = study('[axes]\n"local.lr" = [0.1, 0.2]', strategies=strategies).cells()
    found = [(c.labels["strategy"], c.labels["lr"], c.task.strategy.local) for c in cells]
    assert found == [
        ("a", 0.1, Local(lr=0.1)),
        ("b", None, FEDAR_LOCAL),
        ("a", 0.2, Local(lr=0.2)),
    ]


def test_epochs_unset_the_steps_that_would_win() -> None:
    made = strategy('{method = "mdsample", local = {epochs = 3}}', "[local]\nsteps = 4").local
    assert (made.epochs, made.steps) == (3, None)
    made = strategy('{method = "mdsample", local = {steps = 4}}', "[local]\nepochs = 3").local
    assert (made.epochs, made.steps) == (3, 4)


STEPS = "[local]\nsteps = 10\n"


@pytest.mark.parametrize(
    ("rest", "parts", "override"),
    [
        (STEPS + "[axes]\n'local.epochs' = [3]", {}, None),
        (STEPS + "[axes]\nlocal = {three = {epochs = 3}}", {}, None),
        (STEPS, {}, "local.epochs=3"),
        (STEPS, {}, "local={epochs=3}"),
        (STEPS + "[[block]]\nlocal = {epochs = 3}", {}, None),
        (STEPS + "[[block]]\nlocal = {steps = 9}", {}, "local.epochs=3"),
        (STEPS + "[[block]]\nname = 'b'\nlocal = {steps = 9}", {}, "block.b.local.epochs=3"),
        (STEPS + "[scale.quick]\n'local.epochs' = 3", {}, None),
        (STEPS + "[scale.quick]\nlocal.epochs = 3", {}, None),
        (STEPS, {"strategies": "[strategies]\nx = {local = {epochs = 3}}"}, None),
        ("", {"strategies": "[strategies]\nx = {local = {steps = 9}}"},
         "strategies.x.local.epochs=3"),
        ("", {"strategies": "[strategies]\nx = {local = {steps = 9}}"},
         "strategies.x.local={epochs=3}"),
    ],
)  # fmt: skip
def test_setting_epochs_unsets_steps_wherever_they_are_set(
    rest: str, parts: dict[str, str], override: str | None
) -> None:
    for cell in study(rest, overrides=[override] if override else [], **parts).cells():
        local = cell.task.strategy.local
        assert (local.epochs, local.steps) == (3, None)


def test_setting_steps_leaves_epochs_which_then_mean_nothing() -> None:
    for cell in study("[local]\nepochs = 3\n[[block]]\nlocal = {steps = 7}").cells():
        assert cell.task.strategy.local.steps == 7


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ("[local]\nepochs = 3\nsteps = 10", "local"),
        ("[strategies.y]\nlocal = {epochs = 3, steps = 10}", "strategies.y.local"),
        ("[[block]]\nname = 'b'\nlocal = {epochs = 3, steps = 10}", "block.b.local"),
        ("[scale.big]\nlocal = {epochs = 3, steps = 10}", "scale.big.local"),
        ("[scale.big]\n'local.epochs' = 3\n'local.steps' = 10", "scale.big.local"),
    ],
)
def test_epochs_and_steps_in_one_table_are_refused(rest: str, place: str) -> None:
    expected = f"study: {place}: expected epochs or steps, got both"
    assert error_of(rest) == expected
    with pytest.raises(StudyError, match="expected epochs or steps, got both"):
        study(overrides=["local={epochs=3, steps=10}"])


def test_schedules_by_name_and_by_table() -> None:
    assert strategy('"fdms"', '[local]\nschedule = "inverse_time"').local.schedule is inverse_time
    made = strategy('"fdms"', '[local]\nschedule = {name = "exponential", decay = 0.5}')
    assert made.local.schedule == Exponential(0.5)


def test_a_rule_for_all_leaves_a_method_its_own() -> None:
    rule = '[local]\nrule = {name = "proximal", mu = 0.2}'
    assert strategy('"fdms"', rule).local.rule == Proximal(0.2)
    assert strategy('{method = "fedprox", mu = 0.5}', rule) == fedprox(mu=0.5, local=Local())
    own = strategy('{method = "fedprox", local = {rule = "plain"}}')
    assert own.local.rule == Plain()


def test_availability_delay_loss_and_evaluation() -> None:
    task = (
        study(
            '[availability]\nhalf = {name = "markov", p = 0.25}',
            top='delay = {name = "deadline", seconds = 5, latency = {name = "latency", '
            'jitter = 0}}\nloss = "mse_loss"\nevaluate = ["test", "train"]\nevaluate_every = 2\n'
            "oracle = true",
        )
        .cells()[0]
        .task
    )
    assert task.availability == Markov(p=0.25)
    assert task.delay == Deadline(Latency(jitter=0.0), 5.0)
    assert task.loss.__name__ == "mse_loss"
    assert (task.evaluate, task.evaluate_every, task.oracle) == (("test", "train"), 2, True)


def test_one_word_will_do_where_a_list_is_meant() -> None:
    assert study(top='evaluate = "train"').cells()[0].task.evaluate == ("train",)


def test_a_text_where_a_text_or_a_path_is_meant() -> None:
    made = study('[availability]\nphones = {name = "trace", file = "some.csv"}').cells()[0].task
    assert made.availability == Trace("some.csv")


def test_data_are_divided_as_they_come_or_evenly() -> None:
    recipe = study(top='data = "digits"\nmodel = "softmax"', data="", model="").cells()[0].task.data
    assert (recipe.name, recipe.partition, recipe.seed) == ("digits", "iid", 0)
    recipe = study(data="[data]\nname = 'synthetic'\nalpha = 1").cells()[0].task.data
    assert (recipe.partition, recipe.settings) == (None, {"alpha": 1.0})


def test_normalisation_counts_where_it_is_not_the_default() -> None:
    """The default is not in the key of a cell: keys from before there was a choice stay."""

    def cell(more: str = "") -> Cell:
        data = f"[data]\nname = 'mnist'\npartition = 'iid'\nn_clients = 3\n{more}"
        return study(data=data).cells()[0]

    plain = cell()
    assert "normalise" not in plain.resolved["data"]
    assert cell("normalise = true").key == plain.key
    raw = cell("normalise = false")
    assert raw.key != plain.key
    assert raw.resolved["data"]["normalise"] is False
    own = cell("normalise = [0.5, [0.5]]").task.data
    assert isinstance(own, DataRecipe)
    assert own.settings["normalise"] == (0.5, (0.5,))


def test_a_partition_for_each_seed() -> None:
    made = study(top="seeds = [3, 7]", data=DATA + 'seed = "run"').cells()
    assert [cell.task.data.seed for cell in made if cell.labels["strategy"] == "fdms"] == [3, 7]
    made = study(top="seeds = [3, 7]", data=DATA + "seed = 5").cells()
    assert {cell.task.data.seed for cell in made} == {5}


@pytest.mark.parametrize(
    ("seeds", "meant"), [("2", (0, 1)), ("[4]", (4,)), ("[5, 1]", (5, 1)), ("1", (0,))]
)
def test_seeds(seeds: str, meant: tuple[int, ...]) -> None:
    made = study(top=f'seeds = {seeds}\nstrategies = ["fdms"]', strategies="")
    assert tuple(cell.seed for cell in made.cells()) == meant
    assert made.seeds == meant


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"top": "roundz = 3"},
            ("study: roundz: no such key; did you mean 'rounds'? known: name, title, shows, "
            "baseline, target, metric, references, rounds, seeds, data, model, local, weighting, "
            "strategies, availability, axes, delay, loss, metrics, evaluate, evaluate_every, "
            "per_client_every, evaluate_mean_of, oracle, device, engine, trainer, analysis, tune, "
            "block, blocks, scale"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fdms", similarty = "cosine"}'},
            ("study: strategies.x.similarty: no such key; did you mean 'similarity'? known: "
            "similarity, race, sampler, compensator, aggregator, server, local, guard, weighting, "
            "max_norm, max_examples, claim_factor, method, availability"),
        ),
        (
            {"strategies": '[strategies]\nx = {name = "fdms"}'},
            "study: strategies.x.name: no such key; did you mean 'method'?",
        ),
        (
            {"strategies": '[strategies]\nx = "fdsm"'},
            ("study: strategies.x.method: no strategy named 'fdsm'; did you mean 'fdms'? known: "
            f"{', '.join(registry.STRATEGIES)}"),
        ),
        (
            {"strategies": "[strategies]\nx = 3"},
            "study: strategies.x: expected the name of a method, or a table of parts, got 3",
        ),
        (
            {"strategies": '[strategies]\n"a b" = {sampler = {name = "uniform", n = 3}}'},
            'study: strategies."a b".sampler.n: no such key; known: m',
        ),
        (
            {"strategies": '[strategies]\nx = {sampler = {inner = "fedgs"}}'},
            ("study: strategies.x.sampler.name: expected the name of a sampler, one of "
            f"{', '.join(registry.SAMPLERS)}, got none"),
        ),
        (
            {"strategies": '[strategies]\nx = {sampler = {name = "blind", inner = "fedg"}}'},
            ("study: strategies.x.sampler.inner: no sampler named 'fedg'; did you mean 'fedgs'? "
            f"known: {', '.join(registry.SAMPLERS)}"),
        ),
        (
            {"strategies": "[strategies]\nx = {guard = 3}"},
            ("study: strategies.x.guard: expected a guard (norm_guard) or a table with its name, "
            "got 3"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fdms", race = {scale = -1}}'},
            "study: strategies.x.race.scale: expected a number in (0, inf], got -1.0",
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fdms", similarity = "cosin"}'},
            "study: strategies.x.similarity: expected one of 'cosine', 'distance', got 'cosin'",
        ),
        (
            {"strategies": '[strategies]\nx = {method = "mifa", wait = "yes"}'},
            "study: strategies.x.wait: expected true or false, got 'yes'",
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fedgs", m = "few"}'},
            "study: strategies.x.m: expected a whole number or a number, got 'few'",
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fedar", cutoff = "linear"}'},
            ("study: strategies.x.cutoff: no cutoff named 'linear'; did you mean "
            "'linear_cutoff'? known: linear_cutoff, sqrt_cutoff"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fdms", local = {lrr = 1}}'},
            ("study: strategies.x.local.lrr: no such key; did you mean 'lr'? known: lr, schedule, "
            "epochs, steps, batch_size, batch_growth, momentum, weight_decay, rule, "
            "optimizer, optimizer_options"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "scaffold", local = {momentum = 0.9}}'},
            ("study: strategies.x.local.momentum: expected 0 with Scaffold, whose variates are "
            "gradients of plain steps, got 0.9"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "mdsample", weighting = "examples"}'},
            ("study: strategies.x.weighting: expected 'clients' with ByData, which draws by "
            "examples already, got 'examples'"),
        ),
        (
            {"strategies": '[strategies]\nx = {method = "fdms", availability = "alway"}'},
            ("study: strategies.x.availability: no availability named 'alway'; did you mean "
            "'always'? known: "),
        ),
        ({"strategies": ""}, "study: strategies: expected at least one strategy, got none"),
        (
            {"rest": "[local]\nlr = 'fast'"},
            "study: local.lr: expected a number, got 'fast'",
        ),
        (
            {"rest": "[local]\nlr = 0"},
            "study: local.lr: expected a number in (0, inf], got 0.0",
        ),
        (
            {"rest": "[local]\nschedule = 'cosine'"},
            ("study: local.schedule: no schedule named 'cosine'; known: constant, inverse_time, "
            "exponential, inverse_root, inverse_root_horizon"),
        ),
        (
            {"rest": "[availability]\nhalf = {name = 'fixed_dropout', alpha = 7}"},
            "study: availability.half.alpha: expected a number in [0, 1], got 7.0",
        ),
        (
            {"rest": "[availability]\nhalf = {name = 'fixed_dropout', alpa = 0.7}"},
            ("study: availability.half.alpa: no such key; did you mean 'alpha'? known: alpha, "
            "keep_one_per_group, first_round_full, counts"),
        ),
        (
            {"rest": "[availability]\nhalf = {name = 'fdms_dropout', alpha = 7}"},
            "study: availability.half.alpha: expected a number in [0, 1], got 7.0",
        ),
        (
            {"rest": "[availability]\nhalf = {name = 'fdms_dropout', alpa = 0.7}"},
            ("study: availability.half.alpa: no such key; did you mean 'alpha'? known: alpha, "
            "keep_one_per_group, first_round_full, counts"),
        ),
        (
            {"rest": "[availability]\nhalf = {alpha = 0.7}"},
            "study: availability.half.name: expected the name of an availability, one of always, ",
        ),
        ({"top": "rounds = 0"}, "not TOML"),  # twice the same key
        ({"data": ""}, "study: data: expected a table with the name of a data set, got none"),
        (
            {"data": "[data]\nname = 'mnits'"},
            ("study: data.name: no data set named 'mnits'; did you mean 'mnist'? known: digits, "
            "synthetic, fedgs_synthetic, mnist, fashion_mnist, cifar10, cifar100, svhn, "),
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 'cluster'"},
            ("study: data.partition: no partition named 'cluster'; did you mean 'clustered'? "
            "known: iid, clustered, shards, classes_per_client, dirichlet"),
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 3"},
            ("study: data.partition: expected the name of a partition, one of iid, clustered, "
            "shards, classes_per_client, dirichlet, got 3"),
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 'iid'\nn_client = 3"},
            ("study: data.n_client: no such key; did you mean 'n_clients'? known: n_clients, name, "
            "partition, seed, test, validation, root, normalise"),
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 'iid'\nnormalise = 'no'"},
            ("study: data.normalise: expected true, false or (mean, std), each a number or one for "
            "each channel, got 'no'"),
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 'iid'\nnormalise = [0.5, 0]"},
            ("study: data.normalise: expected true, false or (mean, std), each a number or one for "
            "each channel, std above 0, got [0.5, 0]"),
        ),
        (
            {"data": "[data]\nname = 'digits'\nnormalise = false"},
            "study: data.normalise: 'digits' cannot be normalised otherwise",
        ),
        (
            {"data": "[data]\nname = 'mnist'\npartition = 'iid'\nn_clients = 'many'"},
            "study: data.n_clients: expected a whole number, got 'many'",
        ),
        (
            {"data": "[data]\nname = 'digits'\nseed = 'runs'"},
            ("study: data.seed: expected a whole number, or \"run\" for each seed its own, got "
            "'runs'"),
        ),
        (
            {"data": "[data]\nname = 'synthetic'\npartition = 'iid'"},
            "study: data.partition: 'synthetic' comes divided; leave it out",
        ),
        (
            {"data": "[data]\nname = 'synthetic'\ngamma = 1"},
            "study: data.gamma: no such key; known: alpha, beta, n_clients, name, partition, seed",
        ),
        (
            {"data": "[data]\nname = 'digits'\npartition = 'none'"},
            ("study: data.partition: 'digits' does not come divided; expected one of iid, "
            "clustered, shards, classes_per_client, dirichlet"),
        ),
        (
            {"model": "[model]\nname = 'mpl'"},
            ("study: model.name: no model named 'mpl'; did you mean 'mlp'? known: softmax, mlp, "
            "fdms_cnn, lenet5, fedgs_cifar, fedgs_fmnist, resnet18, char_lstm, char_transformer"),
        ),
        (
            {"model": "[model]\nname = 'mlp'\nwidth = 3"},
            "study: model.width: no such key; known: hidden, name",
        ),
        (
            {"model": "[model]\nname = 'mlp'\nhidden = 3.5"},
            "study: model.hidden: expected a whole number, got 3.5",
        ),
        ({"model": ""}, "study: model: expected a table with the name of a model, got none"),
        (
            {"top": "evaluate = ['tests']"},
            "study: evaluate: expected one of 'test', 'validation', 'train', got 'tests'",
        ),
        (
            {"top": "evaluate = ['validation']"},
            (
                "study: evaluate: 'validation' needs validation examples; set data.validation, "
                "for example to 0.1"
            ),
        ),
        (
            {"top": "evaluate_every = 0"},
            "study: evaluate_every: expected a whole number >= 1, got 0",
        ),
        ({"top": "oracle = 1"}, "study: oracle: expected true or false, got 1"),
        (
            {"top": "analysis = ['sigmas']"},
            "study: analysis: no analysis named 'sigmas'; did you mean 'sigma'? known: ",
        ),
        (
            {"top": "analysis = ['sigma']"},
            ("study: analysis: 'sigma' needs the updates of the absent too: expected oracle = "
            "true, got false"),
        ),
        (
            {"top": "loss = 'hinge'"},
            ("study: loss: expected one of cross_entropy, mse_loss, or a function as "
            "'module:name', got 'hinge'"),
        ),
        (
            {"top": "metrics = {accuracy = 'math:sqrt'}"},
            "study: metrics.accuracy: 'accuracy' is a built-in metric; choose another name",
        ),
        (
            {"top": "metrics = {loss = 'math:sqrt'}"},
            "study: metrics.loss: 'loss' is a built-in metric; choose another name",
        ),
        (
            {"top": "metric = 'accuracy_lst'"},
            "study: metric: no measure 'accuracy_lst'; did you mean 'accuracy_last'? known: ",
        ),
        (
            {"top": "metric = 'train_loss_last'"},  # evaluated on test data only
            (
                "study: metric: no measure 'train_loss_last'; did you mean 'loss_last'? known: "
                "accuracy_best, "
            ),
        ),
        (
            {"top": "metrics = {f2 = 'f2'}"},
            (
                "study: metrics.f2: expected one of auc, f1, balanced_accuracy, recall, r2, mae, "
                "rmse, or a function as 'module:name', got 'f2'"
            ),
        ),
        (
            {"top": "seeds = 0"},
            ("study: seeds: expected a whole number >= 1, or a list of different whole numbers "
            ">= 0, got 0"),
        ),
        (
            {"top": "seeds = [1, 1]"},
            ("study: seeds: expected a whole number >= 1, or a list of different whole numbers "
            ">= 0, got [1, 1]"),
        ),
        (
            {"top": "baseline = 'drops'"},
            "study: baseline: no strategy 'drops'; did you mean 'drop'? known: drop, fdms",
        ),
        ({"top": "target = 80"}, "study: target: expected an accuracy in (0, 1], got 80"),
        ({"top": "title = 3"}, "study: title: expected a text, got 3"),
        (
            {"top": "delay = 'late'"},
            ("study: delay: no delay named 'late'; did you mean 'latency'? known: failure, "
            "latency, recorded_latency, deadline, combined"),
        ),
        (
            {"top": "metrics = {f1 = 'nowhere_at_all:f1'}"},
            "study: metrics.f1: nowhere_at_all:f1: no module named 'nowhere_at_all'",
        ),
        (
            {"top": "metrics = {f1 = 'math:f1'}"},
            "study: metrics.f1: math:f1: 'math' has no 'f1'",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_key_what_is_allowed_and_what_may_be_meant(
    parts: dict[str, str], message: str
) -> None:
    found = error_of(**parts)
    # the long lists of what is known end where the next part is registered
    assert found.startswith(message) if message.endswith((": ", ", ")) else message in found
    if message.startswith("study") and not message.endswith((": ", ", ")):
        assert found == message


@pytest.mark.parametrize(
    "top",
    [
        "metric = 'client_accuracy_worst10'",
        "metric = 'train_loss_last'\nevaluate = ['test', 'train']",
        "metric = 'train_accuracy_last'\nevaluate = 'train'",
        "metric = 'test_root_last'\nmetrics = {root = 'math:sqrt'}",
        "metric = 'whatever_it_finds'\noracle = true\nanalysis = ['sigma']",
    ],
)
def test_a_measure_that_may_be_there_is_taken(top: str) -> None:
    assert study(top=top).metric == top.split("'")[1]


def test_a_measure_of_one_block_is_known() -> None:
    made = study(
        "[[block]]\nname = 'a'\n[[block]]\nname = 'b'\nevaluate = ['test', 'train']",
        top="metric = 'train_loss_last'",
    )
    assert made.metric == "train_loss_last"


def test_the_number_of_rounds_must_be_said() -> None:
    with pytest.raises(StudyError, match=r"^study: rounds: expected a value, got none$"):
        Study.read(f'name = "x"\n{DATA}\n{MODEL}\n{STRATEGIES}')


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "-x"])
def test_a_name_is_one_of_a_folder(name: str) -> None:
    with pytest.raises(StudyError, match=r"^study: name: expected a name of letters, digits"):
        Study.read(text().replace('"small"', f'"{name}"'))


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text(top="roundz = 3"))
    with pytest.raises(StudyError) as caught:
        Study.read(file)
    assert str(caught.value).startswith(f"{file}: roundz: no such key; did you mean 'rounds'?")
    assert caught.value.place == ("roundz",)
    file.write_text("name = \n")
    with pytest.raises(StudyError, match=r"mine\.toml: not TOML: .*line 1"):
        Study.read(file)
    with pytest.raises(StudyError, match=r"^no study file 'nowhere\.toml'$"):
        Study.read("nowhere.toml")


def test_a_file_without_a_name_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text().replace('name = "small"\n', "", 1))
    assert Study.read(file).name == "mine"


# -- scales ----------------------------------------------------------------------------------------

SCALES = """
[axes]
"local.lr" = [0.1, 0.2, 0.3]
[scale.quick]
rounds = 5
data.n_clients = 8
[scale.paper]
rounds = 100
"data.per_client" = 50
axes."local.lr" = []
[scale.paper.strategies.fdms]
similarity = "distance"
[scale.narrow]
strategies = ["fdms"]
"""


def test_quick_is_the_scale_of_a_study_that_has_it() -> None:
    made = study(SCALES)
    assert made.scale == "quick"
    assert made.scales == ("quick", "paper", "narrow")
    cell = made.cells()[0].task
    assert cell.rounds == 5
    assert cell.data.settings == {"n_clients": 8, "per_client": 30}
    assert study().scale is None


def test_a_scale_amends_tables_keeps_labels_and_drops_axes() -> None:
    made = study(SCALES, scale="paper")
    assert made.axes == {}
    by_label = {cell.labels["strategy"]: cell.task for cell in made.cells()}
    assert by_label["fdms"].strategy.compensator == FDMS("distance")
    assert by_label["drop"].rounds == 100
    assert by_label["drop"].data.settings == {"per_client": 50}
    assert study(SCALES, scale="narrow").strategies == ("fdms",)


def test_an_unknown_scale_and_an_unknown_key_of_a_scale() -> None:
    with pytest.raises(StudyError) as caught:
        study(SCALES, scale="papers")
    assert str(caught.value) == (
        "study: scale: no scale named 'papers'; did you mean 'paper'? known: quick, paper, narrow"
    )
    assert "study: scale.full.round: no such key; did you mean 'rounds'?" in error_of(
        "[scale.full]\nround = 3"
    )
    with pytest.raises(StudyError, match=r"^study: scale\.x\.strategies: no label 'fdmz'; did you"):
        study("[scale.x]\nstrategies = ['fdmz']", scale="x")


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("a=1", (("a",), 1)),
        ("a.b = 0.5", (("a", "b"), 0.5)),
        ("a=true", (("a",), True)),
        ("a=[1, 2]", (("a",), [1, 2])),
        ("a={x = 1}", (("a",), {"x": 1})),
        ("a=distance", (("a",), "distance")),
        ("a='1'", (("a",), "1")),
        ("a=module:Name", (("a",), "module:Name")),
        ("a=b=c", (("a",), "b=c")),
        ('strategies."x = y".m=3', (("strategies", "x = y", "m"), 3)),
    ],
)
def test_a_value_is_toml_or_a_bare_word(word: str, meant: tuple[tuple[str, ...], object]) -> None:
    assert parsed([word]) == [meant]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rounds", "expected key=value, got 'rounds'"),
        ("=3", "expected key=value, got '=3'"),
        ("rounds=[1", "rounds: expected a value of TOML, got '[1' ("),
        ("rounds=", "rounds: expected a value of TOML, got '' ("),
        ("rounds=1\nseeds=2", "rounds: expected one value of TOML, got '1\\nseeds=2'"),
        ("a..b=1", "expected a dotted key, got 'a..b'"),
        ('a."b=1', "expected key=value, got 'a.\"b=1'"),
    ],
)
def test_bad_words_on_the_command_line(word: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        parsed([word])
    assert str(caught.value).startswith(message)


def test_a_part_of_a_key_may_be_quoted() -> None:
    assert path_of('a."b.c".d') == ("a", "b.c", "d")


def test_the_command_line_has_the_last_word() -> None:
    made = study(
        SCALES,
        overrides=[
            "rounds=7",
            "data.n_clients=6",
            "strategies.fdms.similarity=distance",
            "axes.local.lr=[0.5]",
            "model={name = 'mlp', hidden = 4}",
            "availability.half=markov",
        ],
    )
    assert made.axes == {"lr": [0.5]}
    assert made.availability == ("always", "half")
    for cell in made.cells():
        assert cell.task.rounds == 7
        assert cell.task.data.settings == {"n_clients": 6, "per_client": 30}
        assert cell.task.model == {"name": "mlp", "hidden": 4}
        if cell.labels["strategy"] == "fdms":
            assert cell.task.strategy.compensator == FDMS("distance")


def test_overrides_are_told_as_they_would_be_given() -> None:
    given = ["rounds=5", "a.b=distance", 'a."c.d"=0.5', "seeds=[1, 2]", 'x="5"', "y=true"]
    assert written(parsed(given)) == given
    assert written(parsed({"rounds": 5, "a.b": "distance", "x": "5"})) == [
        "rounds=5",
        "a.b=distance",
        'x="5"',
    ]
    assert written([(("a",), object()), (("b",), {"c": 1})]) == []  # beyond a command line


def test_overrides_as_a_table() -> None:
    assert study(overrides={"rounds": 7}).cells()[0].task.rounds == 7


def test_an_availability_parameter_without_a_label_is_of_all_that_have_it() -> None:
    modes = "[availability]\na = {name = 'fixed_dropout'}\nb = 'always'\nc = 'markov'"
    by_mode = {
        cell.labels["availability"]: cell.task.availability
        for cell in study(modes, overrides=["availability.alpha=0.25"]).cells()
    }
    assert by_mode["a"] == FixedDropout(0.25)
    assert by_mode["c"] == Markov()
    with pytest.raises(StudyError, match=r"^--set availability\.beta: no such label; known: a, b"):
        study(modes, overrides=["availability.beta=0.25"])


BLOCKS = """
[[block]]
name = "a"
rounds = 10
strategies = ["drop"]
[[block]]
name = "b"
rounds = 20
strategies = {mine = "mifa"}
"""


def test_the_command_line_reaches_into_blocks() -> None:
    made = study(BLOCKS, overrides=["rounds=7", "strategies.mine.wait=false"])
    assert {cell.task.rounds for cell in made.cells()} == {7}
    (mine,) = [cell for cell in made.cells() if cell.labels["strategy"] == "mine"]
    assert mine.task.strategy.compensator.wait is False
    assert {c.task.rounds for c in study(BLOCKS, overrides=["block.a.rounds=4"]).cells()} == {4, 20}
    with pytest.raises(StudyError, match=r"^study: strategies\.yours: no such label; known: mine"):
        study(BLOCKS, overrides=["strategies.yours.wait=false"])
    with pytest.raises(StudyError, match=r"^--set block\.c: no such block; known: a, b"):
        study(BLOCKS, overrides=["block.c.rounds=4"])


def test_only_some_strategies_or_blocks() -> None:
    assert study(BLOCKS, overrides=['strategies=["mine"]']).strategies == ("mine",)
    assert study(BLOCKS, overrides=['blocks=["a"]']).blocks == ("a",)
    with pytest.raises(StudyError, match=r"^--block: no block 'c'; known: a, b$"):
        study(BLOCKS, overrides=['blocks=["c"]'])
    with pytest.raises(StudyError, match=r"^--set strategies: no label 'yours'"):
        study(overrides=['strategies=["yours"]'])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("round=3", "--set round: no such key; did you mean 'rounds'? known: name, "),
        ("scale.quick.rounds=3", "--set scale.quick.rounds: is chosen as a whole, with --scale"),
        ("rounds=many", "--set rounds: expected a whole number, got 'many'"),
        ("rounds.x=3", "--set rounds: has no keys below it, got 'x'"),
        ("local.lr=0.1", "--set local.lr: is an axis; set axes.local.lr to a list instead"),
        ("strategies.fmds.similarity=cosine", "--set strategies.fmds: no such label; did you "),
        (
            "strategies.fdms.similarity.x=1",
            "study: strategies.fdms.similarity: expected a text, got",
        ),
    ],
)
def test_overrides_that_cannot_be(word: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(SCALES, overrides=[word])
    assert str(caught.value).startswith(message)


# -- other people's parts --------------------------------------------------------------------------

PLUGIN = '''
from dataclasses import dataclass, field
import numpy as np
import torch
from understudy import Strategy, Uniform
from understudy.core.roles import Sampler
from understudy.simulation import digits
from understudy.simulation import synthetic
from understudy.simulation.data.partitions import iid

@dataclass(frozen=True)
class Loud:
    inner: Sampler = field(default_factory=Uniform)
    volume: float = 1.0
    def __post_init__(self):
        if self.volume < 0:
            raise ValueError(f"volume: expected a number >= 0, got {self.volume!r}")
    def init(self, setup): return self.inner.init(setup)
    def pick(self, state, start): return self.inner.pick(state, start)
    def learn(self, state, end): self.inner.learn(state, end)

def method(volume: float = 1.0): return Strategy(sampler=Loud(volume=volume))
def everything(**fields): return Strategy(**fields)
READY = Strategy(sampler=Loud())
def halved(t, floor: float = 0.0): return max(0.5 ** t, floor)
def net(width: int = 4):
    layers = torch.nn.Linear(64, width), torch.nn.Linear(width, 10)
    return torch.nn.Sequential(torch.nn.Flatten(), *layers)
def loss(outputs, labels): return torch.nn.functional.cross_entropy(outputs, labels)
def always_one(outputs, labels): return 1.0
def pairs(labels, n_clients: int = 5, rng=None): return iid(labels, 2 * n_clients, rng)
def own(size: int = 3): return synthetic(n_clients=size)
def images(): return digits()
FEDERATION = synthetic(n_clients=4)
'''  # fmt: skip


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study's folder with a plug-in of its own; the path is as before when the test ends."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "loud_parts.py").write_text(PLUGIN)
    return tmp_path / "study.toml"


def test_parts_methods_models_losses_metrics_data_and_partitions_of_the_studys_folder(
    plugin: Path,
) -> None:
    plugin.write_text(
        text(
            top="loss = 'loud_parts:loss'\nmetrics = {one = 'loud_parts:always_one'}",
            data="[data]\nname = 'loud_parts:images'\npartition = 'loud_parts:pairs'\n"
            "n_clients = 4",
            model="[model]\nname = 'loud_parts:net'\nwidth = 3",
            strategies="[strategies]\n"
            "part = {sampler = {name = 'loud_parts:Loud', inner = {name = 'fedgs', m = 2},"
            " volume = 2}}\n"
            "method = {method = 'loud_parts:method', volume = 3, compensator = 'mifa'}\n"
            "everything = {method = 'loud_parts:everything', compensator = 'mifa'}\n"
            "ready = {method = 'loud_parts:READY', weighting = 'examples'}",
            rest="[local]\nschedule = {name = 'loud_parts:halved', floor = 0.1}",
        )
    )
    made = Study.read(plugin)
    tasks = {cell.labels["strategy"]: cell.task for cell in made.cells()}
    assert tasks["part"].strategy.sampler.inner == FedGS(m=2)
    assert tasks["part"].strategy.sampler.volume == 2.0
    assert tasks["method"].strategy.sampler.volume == 3.0
    assert type(tasks["method"].strategy.compensator).__name__ == "MIFA"
    assert type(tasks["everything"].strategy.compensator).__name__ == "MIFA"
    assert tasks["ready"].strategy.weighting == "examples"
    assert tasks["part"].strategy.local.lr_at(3) == pytest.approx(0.1 * 0.125)
    assert tasks["part"].strategy.local.lr_at(9) == pytest.approx(0.1 * 0.1)
    assert tasks["part"].path == (str(plugin.parent),)
    task = tasks["part"]
    assert task.federation().n_clients == 8
    log = next(iter(task.open(workers=1)))
    assert log.metrics["test_one"] == 1.0


@pytest.mark.parametrize(
    ("data", "n_clients"),
    [
        ("name = 'loud_parts:own'\nsize = 6", 6),  # takes no seed
        ("name = 'loud_parts:FEDERATION'", 4),
    ],
)
def test_other_peoples_data_that_come_divided(plugin: Path, data: str, n_clients: int) -> None:
    plugin.write_text(text(data=f"[data]\n{data}"))
    assert Study.read(plugin).cells()[0].task.federation().n_clients == n_clients


SOURCES = """
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import understudy.simulation as simulation
from understudy.simulation import clustered_digits, digits

if TYPE_CHECKING:
    from understudy.simulation import Dataset

FederatedDataset = simulation.Federation
Images = simulation.Dataset
DATASET = digits()
EITHER = Images | FederatedDataset

def divided() -> FederatedDataset:
    return clustered_digits(n_clients=4, n_clusters=2, per_client=8)

def whole() -> Images:
    return digits()

def for_checkers() -> Dataset:
    return digits()

def either() -> EITHER:
    return digits()

def silent():
    return clustered_digits(n_clients=4, n_clusters=2, per_client=8)

partly = functools.partial(whole)
"""


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("divided", None),  # though its name says Dataset
        ("whole", "iid"),  # though its name does not
        ("for_checkers", "iid"),
        ("either", "iid"),
        ("partly", "iid"),
        ("silent", None),
    ],
)
def test_whether_data_come_divided_is_asked_of_the_object(
    tmp_path: Path, name: str, partition: str | None
) -> None:
    (tmp_path / "own_sources.py").write_text(SOURCES)
    file = tmp_path / "study.toml"
    file.write_text(text(data=f"[data]\nname = 'own_sources:{name}'"))
    recipe = Study.read(file).cells()[0].task.data
    assert recipe.partition == partition  # type: ignore[union-attr]
    assert recipe.federation().n_clients == (4 if partition is None else 20)  # type: ignore[union-attr]


def test_a_dataset_that_is_no_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own_sources.py").write_text(SOURCES)
    file = tmp_path / "study.toml"
    file.write_text(text(data="[data]\nname = 'own_sources:DATASET'"))
    with pytest.raises(StudyError, match=r"data\.name: expected a function that makes a Dataset"):
        Study.read(file)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"strategies": "[strategies]\nx = {sampler = {name = 'loud_parts:Loud', vol = 3}}"},
            "strategies.x.sampler.vol: no such key; did you mean 'volume'? known: inner, volume",
        ),
        (
            {"strategies": "[strategies]\nx = {sampler = {name = 'loud_parts:Loud', volume = -3}}"},
            "strategies.x.sampler.volume: expected a number >= 0, got -3.0",
        ),
        (
            {"strategies": "[strategies]\nx = {sampler = 'loud_parts:Quiet'}"},
            "strategies.x.sampler: loud_parts:Quiet: 'loud_parts' has no 'Quiet'",
        ),
        (
            {"strategies": "[strategies]\nx = 'loud_parts:net'"},
            "strategies.x.method: expected a function that returns a Strategy, got Sequential(",
        ),
        (
            {"strategies": "[strategies]\nx = {sampler = {name = 'loud_parts:READY', m = 1}}"},
            "strategies.x.sampler.m: 'loud_parts:READY' is made already and takes no settings",
        ),
        (
            {"strategies": "[strategies]\nx = {sampler = 'loud_parts:READY'}"},
            "strategies.x.sampler: expected a sampler (everyone, ",
        ),
        (
            {"model": "[model]\nname = 'loud_parts:net'\nheight = 3"},
            "model.height: no such key; known: width, name",
        ),
        (
            {"data": "[data]\nname = 'loud_parts:own'\nsizes = 3"},
            "data.sizes: no such key; did you mean 'size'? known: size, name, partition, seed",
        ),
        (
            {"top": "metrics = {x = 'loud_parts:FEDERATION'}"},
            "metrics.x: expected a function, got <Federation ",
        ),
    ],
)
def test_errors_in_other_peoples_parts(plugin: Path, parts: dict[str, str], message: str) -> None:
    plugin.write_text(text(**parts))
    with pytest.raises(StudyError) as caught:
        Study.read(plugin)
    assert str(caught.value).startswith(f"{plugin}: {message}")


def test_a_study_without_plug_ins_leaves_the_path_alone(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text())
    before = list(sys.path)
    assert Study.read(file).path == ()
    assert sys.path == before


def test_a_strategy_of_parts_is_what_python_makes_of_them() -> None:
    assert strategy("{}") == Strategy()
