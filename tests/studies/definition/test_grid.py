"""The cells of a study: which there are, what they are called, what they are known by."""

from __future__ import annotations

import pytest

from tests.studies.texts import DATA, STRATEGIES, study
from understudy import (
    FDMS,
    Bernoulli,
    Blind,
    FixedDropout,
    FullStart,
    Gather,
    HoeffdingRace,
    KeepAsking,
    Local,
    Markov,
    Uniform,
)
from understudy.studies import Study, StudyError
from understudy.studies.definition.cell import Cell
from understudy.studies.definition.tune_table import Tune

MODES = """
[availability]
few = {name = "fixed_dropout", alpha = 0.3}
walk = "markov"
"""
FULL = STRATEGIES + 'full = {method = "fedavg", availability = "always"}\n'


def labels(made: Study) -> list[tuple[object, ...]]:
    """Labels and seed of each cell."""
    return [(*cell.labels.values(), cell.seed) for cell in made.cells()]


def found(made: Study, **wanted: object) -> Cell:
    """The one cell with these labels."""
    (cell,) = [c for c in made.cells() if all(c.labels[k] == v for k, v in wanted.items())]
    return cell


# -- which cells there are -------------------------------------------------------------------------


def test_every_strategy_in_every_mode_with_every_seed() -> None:
    made = study(MODES, top="seeds = 2")
    assert [list(cell.labels) for cell in made.cells()] == [["strategy", "availability"]] * 8
    assert labels(made) == [
        ("drop", "few", 0),
        ("drop", "few", 1),
        ("fdms", "few", 0),
        ("fdms", "few", 1),
        ("drop", "walk", 0),
        ("drop", "walk", 1),
        ("fdms", "walk", 0),
        ("fdms", "walk", 1),
    ]
    assert len({cell.key for cell in made.cells()}) == 8
    assert found(study(MODES), strategy="fdms", availability="walk").task.availability == Markov()


def test_everyone_comes_where_nothing_is_said() -> None:
    assert labels(study()) == [("drop", "always", 0), ("fdms", "always", 0)]


def test_a_strategy_with_its_own_availability_runs_once() -> None:
    made = study(MODES + "[axes]\n'availability.alpha' = [0.1, 0.5]", strategies=FULL)
    assert [row for row in labels(made) if row[0] == "full"] == [("full", None, None, 0)]
    assert made.references == ("full",)


def test_an_axis_of_an_availability_touches_the_modes_that_have_it() -> None:
    made = study(MODES + "[axes]\n'availability.alpha' = [0.1, 0.5]", strategies=FULL)
    assert labels(made) == [
        ("drop", "few", 0.1, 0),
        ("fdms", "few", 0.1, 0),
        ("full", None, None, 0),
        ("drop", "walk", None, 0),
        ("fdms", "walk", None, 0),
        ("drop", "few", 0.5, 0),
        ("fdms", "few", 0.5, 0),
    ]
    assert list(made.cells()[0].labels) == ["strategy", "availability", "alpha"]
    assert found(made, strategy="drop", alpha=0.5).task.availability == FixedDropout(0.5)


def test_settings_of_a_strategys_own_lie_over_every_mode() -> None:
    """A table without a name: the strategy keeps the modes and their axes."""
    drop = 'drop = {method = "fedavg", availability = {first_round_full = false}}'
    own = f'[strategies]\n{drop}\nfdms = "fdms"\n'
    few = "[availability]\nfew = {name = 'fdms_dropout', alpha = 0.3}\n"
    made = study(few + "[axes]\n'availability.alpha' = [0.1, 0.5]", strategies=own)
    changed = FixedDropout(0.5, keep_one_per_group=True)
    assert found(made, strategy="drop", alpha=0.5).task.availability == changed
    whole = FixedDropout(0.5, keep_one_per_group=True, first_round_full=True)
    assert found(made, strategy="fdms", alpha=0.5).task.availability == whole
    with pytest.raises(StudyError, match=r"availability\.here.*first_round_full: no such key"):
        study("[availability]\nhere = 'always'\n", strategies=own)


def test_an_availability_may_be_drawn_by_the_seed_of_the_run() -> None:
    luck = "[availability]\nluck = {name = 'log_normal', seed = 'run'}"
    made = study(luck, overrides={"seeds": 2})
    seeds = {cell.seed: cell.task.availability.seed for cell in made.cells()}
    assert seeds == {0: 0, 1: 1}


def test_an_axis_may_name_the_mode() -> None:
    made = study(MODES + "[axes]\n'availability.few.alpha' = [0.1, 0.5]")
    assert found(made, strategy="drop", alpha=0.5).task.availability == FixedDropout(0.5)
    made = study(MODES + "[axes]\n'availability.walk' = ['always', {name = 'markov', p = 0.4}]")
    assert made.axes == {"walk": ["always", "markov(p=0.4)"]}
    assert found(made, strategy="drop", walk="markov(p=0.4)").task.availability == Markov(0.4)


def test_an_axis_may_bring_what_its_availability_cannot_do_without() -> None:
    coins = "[availability]\ncoins = 'bernoulli'\n"
    for name in ("p", "p_min"):
        made = study(f"{coins}[axes]\n'availability.{name}' = [0.1, 0.5]")
        availability = found(made, strategy="drop", **{name: 0.5}).task.availability
        assert availability == Bernoulli(**{name: 0.5})
    with pytest.raises(StudyError, match=r"^study: availability\.coins: .* or p_min, .* neither$"):
        study(coins)


def test_an_axis_of_one_strategy_leaves_the_others_alone() -> None:
    made = study("[axes]\n'strategies.fdms.similarity' = ['cosine', 'distance']")
    assert labels(made) == [
        ("drop", "always", None, 0),
        ("fdms", "always", "cosine", 0),
        ("fdms", "always", "distance", 0),
    ]
    assert found(made, similarity="distance").task.strategy.compensator == FDMS("distance")


def test_an_axis_of_training_leaves_a_strategy_that_decided_alone() -> None:
    made = study(
        "[axes]\nlocal.lr = [0.1, 0.2]",
        strategies='[strategies]\na = "fdms"\nb = {method = "fdms", local = {lr = 0.5}}',
    )
    assert labels(made) == [
        ("a", "always", 0.1, 0),
        ("b", "always", None, 0),
        ("a", "always", 0.2, 0),
    ]
    assert found(made, strategy="b").task.strategy.local.lr == 0.5
    rules = "[axes]\n'local.rule' = ['plain', 'proximal']"
    made = study(rules, strategies='[strategies]\na = "fdms"\nb = "fedprox"')
    assert labels(made) == [
        ("a", "always", "plain", 0),
        ("b", "always", None, 0),
        ("a", "always", "proximal", 0),
    ]


def test_everyone_first_and_a_fedavg_that_waits() -> None:
    made = study(
        '[availability]\nfirst = {name = "full_start", inner = {name = "bernoulli", p = 0.5}}',
        strategies='[strategies]\na = {method = "waiting_fedavg", m = 5}',
    )
    (cell,) = made.cells()
    assert cell.task.availability == FullStart(Bernoulli(0.5))
    assert cell.task.strategy.sampler == KeepAsking(Blind(Uniform(5)))
    assert cell.task.strategy.compensator == Gather()


def test_clients_optimizers() -> None:
    made = study(
        "[local]\nlr = 0.01\noptimizer = 'adam'\noptimizer_options = {betas = [0.8, 0.9]}",
        strategies='[strategies]\na = "fdms"\nb = {method = "fdms", local = {optimizer = "sgd"}}',
    )
    adam = found(made, strategy="a").task.strategy.local
    assert (adam.lr, adam.optimizer, adam.optimizer_options) == (
        0.01,
        "adam",
        {"betas": [0.8, 0.9]},
    )
    plain = found(made, strategy="b").task.strategy.local
    assert (plain.lr, plain.plain_sgd) == (0.01, True)  # another's options are not kept
    assert plain == Local(lr=0.01)


def test_an_axis_of_optimizers() -> None:
    made = study("[axes]\n'local.optimizer' = ['sgd', 'adam']")
    kept = study().cells()
    adam = found(made, strategy="drop", optimizer="adam").task.strategy.local
    assert adam.optimizer == "adam"
    # SGD is the default, and changes no key
    assert found(made, strategy="drop", optimizer="sgd").key == kept[0].key


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("optimizer = 'adamm'", r"study: local.optimizer: expected one of .*got 'adamm'"),
        ("optimizer = 3", r"study: local.optimizer: expected a text, got 3"),
        (
            "optimizer = 'adam'\noptimizer_options = {beta = 1}",
            r"study: local.optimizer_options: expected options of Adam.*got 'beta'",
        ),
    ],
)
def test_an_optimizer_that_cannot_be_is_refused_when_read(table: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study(f"[local]\n{table}").cells()


def test_an_axis_of_steps_leaves_a_strategy_alone_that_counts_epochs() -> None:
    made = study(
        "[axes]\n'local.steps' = [1, 2]",
        strategies='[strategies]\na = "fdms"\nb = {method = "fdms", local = {epochs = 3}}',
    )
    assert labels(made) == [
        ("a", "always", 1, 0),
        ("b", "always", None, 0),
        ("a", "always", 2, 0),
    ]
    assert found(made, strategy="b").task.strategy.local.steps is None


def test_axes_of_data_models_and_rounds_touch_all() -> None:
    made = study(
        "[axes]\n'data.n_clients' = [5, 10]\n'model' = {flat = {name = 'softmax'}, "
        "deep = {name = 'mlp', hidden = 3}}\nrounds = [1, 2]",
    )
    # "rounds" is a column of what is exported
    assert made.axes == {"n_clients": [5, 10], "model": ["flat", "deep"], "rounds played": [1, 2]}
    assert len(made.cells()) == 2 * 2 * 2 * 2
    wanted = {"strategy": "drop", "n_clients": 10, "model": "deep", "rounds played": 2}
    task = found(made, **wanted).task
    assert (task.data.settings["n_clients"], task.rounds) == (10, 2)
    assert task.model == {"name": "mlp", "hidden": 3}


def test_levels_that_are_tables_have_labels() -> None:
    made = study(
        "[axes]\n'strategies.fdms.race' = ['none', {label = 'case 2', scale = 0.5}, "
        "{threshold = 'code'}, {label = 'one', value = {scale = 1.0}}]"
    )
    assert made.axes == {"race": ["none", "case 2", "threshold=code", "one"]}
    race = {
        cell.labels["race"]: cell.task.strategy.compensator.race
        for cell in made.cells()
        if cell.labels["strategy"] == "fdms"
    }
    assert race == {
        "none": None,
        "case 2": HoeffdingRace(scale=0.5),
        "threshold=code": HoeffdingRace("code"),
        "one": HoeffdingRace(),
    }


def test_tables_of_data_add_to_what_the_study_says() -> None:
    made = study("[axes]\ndata = {level = {n_clients = 4}, other = {partition = 'iid'}}",
                 data="[data]\nname = 'digits'\nn_clients = 6")  # fmt: skip
    recipe = found(made, strategy="drop", data="other").task.data
    assert (recipe.name, recipe.partition, recipe.settings) == ("digits", "iid", {"n_clients": 6})
    assert found(made, strategy="drop", data="level").task.data.settings == {"n_clients": 4}


def test_an_axis_is_called_by_its_last_word_unless_that_is_taken() -> None:
    made = study(
        "[axes]\n'local.lr' = [0.1]\n'strategies.fdms.server.lr' = [0.5]\n"
        "'data.seed' = [0, 1]\n'model.name' = ['softmax']",
        strategies='[strategies]\nfdms = {method = "fdms", server = "sgd"}',
    )
    assert list(made.axes) == ["local.lr", "strategies.fdms.server.lr", "data.seed", "name"]
    assert found(made, **{"data.seed": 1}).task.strategy.server.lr == 0.5


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("'seeds' = [1]", "study: axes.seeds: no such key; known: rounds, data, model, local, "),
        ("'availability.beta' = [1]", ('study: axes."availability.beta": none of few, walk has a '
         "parameter 'beta'")),
        ("'strategies.fmds.m' = [1]", ("study: axes.\"strategies.fmds.m\": no strategy 'fmds'; did "
         "you mean 'fdms'? known: drop, fdms")),
        ("'strategies' = ['drop']", ("study: axes.strategies: write [strategies], whose labels are "
         "compared anyway")),
        ("'local.steps' = [1]\n'local.epochs' = [1]", ("study: axes.local: expected epochs or "
         "steps, got both")),
        ("'local.steps' = [1]\n[[block]]\nname = 'b'\naxes.'local.epochs' = [1]",
         "study: axes: expected local.epochs or local.steps, got both"),
        ("'local.lr' = 3", ('study: axes."local.lr": expected a list of values or a table of '
         "labels, got 3")),
        ("'local.lr' = [0.1, 0.1]", ('study: axes."local.lr": two levels are called 0.1; give them '
         "labels")),
        ("'local.lr' = [-1]", "study: local.lr: expected a number in (0, inf], got -1.0"),
        ("'local.lrr' = [1]", "study: local.lrr: no such key; did you mean 'lr'? known: lr, "),
        ("'data.n' = [1]", "study: data.n: no such key; known: n_clients, "),
        ("'rounds' = [0]", "study: rounds: expected a whole number >= 1, got 0"),
    ],
)  # fmt: skip
def test_axes_that_cannot_be(axes: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(f"{MODES}[axes]\n{axes}")
    assert str(caught.value).startswith(message)


# -- blocks ----------------------------------------------------------------------------------------

BLOCKS = """
[availability]
always = "always"
few = {name = "fixed_dropout", alpha = 0.3}
[axes]
"availability.alpha" = [0.3, 0.6]
[[block]]
name = "plain"
strategies = ["fdms"]
[[block]]
name = "wide"
rounds = 9
data = {n_clients = 8}
availability = ["always"]
axes."local.lr" = [0.1, 0.2]
strategies.mine = {method = "mifa"}
"""


def test_blocks_are_rectangles_of_their_own() -> None:
    made = study(BLOCKS)
    assert made.blocks == ("plain", "wide")
    assert made.strategies == ("fdms", "mine")
    assert list(made.cells()[0].labels) == ["strategy", "availability", "alpha", "lr", "block"]
    assert labels(made) == [
        ("fdms", "always", None, None, "plain", 0),
        ("fdms", "few", 0.3, None, "plain", 0),
        ("fdms", "few", 0.6, None, "plain", 0),
        ("mine", "always", None, 0.1, "wide", 0),
        ("mine", "always", None, 0.2, "wide", 0),
    ]
    task = found(made, lr=0.2).task
    assert (task.rounds, task.data.settings) == (9, {"per_client": 30, "n_clients": 8})


def test_blocks_without_names_are_known_by_their_position() -> None:
    """A label that is missing would mean "in every group"."""
    made = study("[[block]]\nstrategies = ['drop']\n[[block]]\nrounds = 9")
    assert made.blocks == ("1", "2")
    assert labels(made) == [
        ("drop", "always", "1", 0),
        ("drop", "always", "2", 0),
        ("fdms", "always", "2", 0),
    ]
    named = study("[[block]]\nname = 'short'\n[[block]]\nrounds = 9")
    assert named.blocks == ("short", "2")
    one = study("[[block]]\n[[block]]\nrounds = 9", overrides=["blocks=['2']"])
    assert one.blocks == ("2",)
    only = study("[[block]]\nrounds = 9")
    assert labels(only) == [("drop", "always", 0), ("fdms", "always", 0)]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("nam = 'x'", "study: block.1.nam: no such key; did you mean 'name'? known: name, "),
        ("baseline = 'drop'", "study: block.1.baseline: no such key; "),
        ("strategies = ['fmds']", ("study: block.1.strategies: no label 'fmds'; did you mean "
         "'fdms'? known: drop, fdms")),
        ("name = 'a'\nrounds = 0", "study: block.a.rounds: expected a whole number >= 1, got 0"),
        ("name = 'a'\ndata.x = 0", "study: block.a.data.x: no such key; known: n_clients, "),
        ("name = 'a'\n[[block]]\nname = 'a'", "study: block: two blocks have the name 'a'"),
    ],
)  # fmt: skip
def test_blocks_that_cannot_be(block: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(f"[[block]]\n{block}")
    assert str(caught.value).startswith(message)


# -- what a cell is known by -----------------------------------------------------------------------


def key(rest: str = "", **parts: str) -> str:
    return study(rest, strategies='[strategies]\nx = "fdms"', **parts).cells()[0].key


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("", {"top": "oracle = false\nevaluate = ['test']\nloss = 'cross_entropy'"}),
        ("[local]\nlr = 0.1\nbatch_growth = 0.0\nsteps = 'none'", {}),
        ("[availability]\nx = {name = 'always'}", {}),
        ("", {"data": DATA + "n_clients = 20\ntest = 0.2\nvalidation = 0\nseed = 0"}),
        ("", {"data": DATA + "root = 'elsewhere'"}),
        ("", {"top": "title = 'Another'\nshows = 'the same'\ntarget = 0.5\nbaseline = 'x'"}),
        ("", {"data": "[data]\nper_client = 30\npartition = 'clustered'\nname = 'digits'"}),
    ],
)
def test_a_default_that_is_said_is_the_same_cell(rest: str, parts: dict[str, str]) -> None:
    assert key(rest, **parts) == key()


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("", {"top": "oracle = true"}),
        ("", {"top": "seeds = [1]"}),
        ("", {"data": DATA + "seed = 1"}),
        ("", {"data": DATA.replace("30", "31")}),
        ("", {"model": "[model]\nname = 'mlp'"}),
        ("[local]\nlr = 0.2", {}),
        ("[availability]\nx = 'markov'", {}),
        ("", {"top": "loss = 'mse_loss'"}),
        ("", {"top": "delay = 'failure'"}),
        ("", {"top": "evaluate_every = 2"}),
    ],
)
def test_whatever_changes_a_run_is_another_cell(rest: str, parts: dict[str, str]) -> None:
    assert key(rest, **parts) != key()


def test_a_model_is_known_by_its_settings_said_or_not() -> None:
    assert key(model="[model]\nname = 'mlp'") == key(model="[model]\nname = 'mlp'\nhidden = 32")
    assert key(model="[model]\nname = 'mlp'") != key(model="[model]\nname = 'mlp'\nhidden = 33")


def test_whole_numbers_are_floats_where_floats_are_meant_and_only_there() -> None:
    half = "[availability]\nx = {name = 'diurnal', period = %s, low = %s}"
    assert key(half % (24, 0)) == key(half % ("24.0", "0.0"))
    picks = '[strategies]\nx = {method = "mdsample", m = %s}'
    whole, share = (study(strategies=picks % m).cells()[0].key for m in ("1", "1.0"))
    assert whole != share


def test_a_cell_is_the_same_in_whatever_study() -> None:
    """Labels, other strategies and axes do not matter to it."""
    one = study("[local]\nlr = 0.2").cells()[1]
    other = study("[axes]\n'local.lr' = [0.1, 0.2]", top="seeds = 2",
                  strategies='[strategies]\nanother_name = {method = "fdms"}')  # fmt: skip
    assert one.key in [cell.key for cell in other.cells()]
    assert one.labels != other.cells()[0].labels


# -- tuning ----------------------------------------------------------------------------------------

TUNE = """
[tune]
key = "local.lr"
values = [0.1, 0.5]
seeds = [100, 101]
rounds = 2
"""
VALIDATED = DATA + "validation = 0.2\n"


def test_trials_have_seeds_and_rounds_of_their_own_and_are_judged_on_validation_data() -> None:
    made = study(MODES + TUNE, data=VALIDATED, strategies=FULL, top="oracle = true")
    trials = made.tuning()
    # two values and two seeds; two strategies in two modes, and one that brings its own
    assert len(trials) == 2 * 2 * (2 * 2 + 1)
    assert list(trials[0].labels) == ["strategy", "availability", "tuned"]
    assert {cell.seed for cell in trials} == {100, 101}
    for cell in trials:
        assert cell.task.rounds == 2
        assert cell.task.evaluate == ("validation",)
        assert not cell.task.oracle
        assert cell.task.strategy.local.lr == cell.labels["tuned"]
    assert len(made.cells()) == 5


def test_trials_in_one_mode_only() -> None:
    made = study(MODES + TUNE + "availability = 'walk'", data=VALIDATED, strategies=FULL)
    assert {cell.labels["availability"] for cell in made.tuning()} == {"walk", None}


def test_a_strategy_that_decided_is_not_tuned() -> None:
    made = study(
        TUNE,
        data=VALIDATED,
        strategies='[strategies]\na = "fdms"\nb = {method = "fdms", local = {lr = 0.3}}',
    )
    assert {cell.labels["strategy"] for cell in made.tuning()} == {"a"}
    cells = made.cells({"a": {"local.lr": 0.5}})
    assert [cell.task.strategy.local.lr for cell in cells] == [0.5, 0.3]


def test_the_best_mean_is_picked_for_each_strategy() -> None:
    """Losses of drop at 0.1: 1, 3 (mean 2), at 0.5: 2.5, 2.5; fdms diverges once at 0.1."""
    pandas = pytest.importorskip("pandas")
    made = study(TUNE, data=VALIDATED)
    losses = {
        ("drop", 0.1, 100): 1.0,
        ("drop", 0.1, 101): 3.0,
        ("drop", 0.5, 100): 2.5,
        ("drop", 0.5, 101): 2.5,
        ("fdms", 0.1, 100): 0.1,
        ("fdms", 0.1, 101): float("inf"),
        ("fdms", 0.5, 100): 7.0,
        ("fdms", 0.5, 101): 9.0,
    }
    rows = [
        {**cell.labels, "seed": cell.seed, "key": cell.key,
         "validation_loss": losses[str(cell.labels["strategy"]), cell.labels["tuned"], cell.seed]}
        for cell in made.tuning()
    ]  # fmt: skip
    picks = made.pick(pandas.DataFrame(rows))
    assert picks == {"drop": {"local.lr": 0.1}, "fdms": {"local.lr": 0.5}}
    assert [cell.task.strategy.local.lr for cell in made.cells(picks)] == [0.1, 0.5]
    # with rounds: what was best at the end, not in between; the last round was not evaluated
    rounds = [
        {**row, "t": t, "validation_loss": score}
        for row in rows
        for t, score in ((0, -row["validation_loss"]), (1, row["validation_loss"]), (2, None))
    ]
    assert made.pick(pandas.DataFrame(rounds)) == picks
    # more is better
    better = study(TUNE + "metric = 'validation_accuracy'", data=VALIDATED)
    scores = [{**row, "validation_accuracy": row["validation_loss"]} for row in rows]
    picks = better.pick(pandas.DataFrame(scores))
    assert picks == {"drop": {"local.lr": 0.5}, "fdms": {"local.lr": 0.5}}


def test_a_metric_of_ones_own_is_tuned_the_way_that_is_said() -> None:
    """Scores 1 at 0.1 and 2 at 0.5: less is better, then more is."""
    pandas = pytest.importorskip("pandas")
    metrics = "metrics = {perplexity = 'math:exp'}"
    for goal, best in (("min", 0.1), ("max", 0.5)):
        tuned = TUNE + f"metric = 'validation_perplexity'\ngoal = '{goal}'"
        made = study(tuned, data=VALIDATED, top=metrics)
        rows = [
            {**cell.labels, "seed": cell.seed,
             "validation_perplexity": 1.0 if cell.labels["tuned"] == 0.1 else 2.0}
            for cell in made.tuning()
        ]  # fmt: skip
        pick = {"local.lr": best}
        assert made.pick(pandas.DataFrame(rows)) == {"drop": pick, "fdms": pick}


@pytest.mark.parametrize(
    ("metric", "less"),
    [("loss", True), ("accuracy", False), ("top5_error", True), ("macro_f1", False)],
)
def test_which_way_is_better_is_known_of_some_words(metric: str, less: bool) -> None:
    tuned = Tune({"local.lr": [0.1, 0.5]}, metric=f"validation_{metric}")
    assert tuned.less_is_better is less
    assert Tune({"x": [1, 2]}, metric=f"validation_{metric}", goal="max").less_is_better is False


def test_a_pick_needs_all_trials() -> None:
    pandas = pytest.importorskip("pandas")
    made = study(TUNE, data=VALIDATED)
    one = made.tuning()[0]
    row = {**one.labels, "seed": one.seed, "validation_loss": 1.0}
    with pytest.raises(StudyError, match=r"tune\.drop: no value of 'local\.lr' has all its trials"):
        made.pick(pandas.DataFrame([row]))
    with pytest.raises(
        StudyError, match="the trials' results have no 'validation_loss'; they have"
    ):
        made.pick(pandas.DataFrame([{**row, "validation_loss": 1}]).drop(columns="validation_loss"))


def test_blocks_are_tuned_one_by_one() -> None:
    pandas = pytest.importorskip("pandas")
    blocks = "[[block]]\nname = 'a'\nstrategies = ['drop']\n[[block]]\nname = 'b'\n"
    made = study(TUNE + blocks, data=VALIDATED)
    sign = {"a": 1, "b": -1}
    rows = [
        {**cell.labels, "seed": cell.seed,
         "validation_loss": cell.labels["tuned"] * sign[cell.labels["block"]]}
        for cell in made.tuning()
    ]  # fmt: skip
    picks = made.pick(pandas.DataFrame(rows))
    low, high = {"local.lr": 0.1}, {"local.lr": 0.5}
    assert picks == {"a/drop": low, "b/drop": high, "b/fdms": high}
    assert [cell.task.strategy.local.lr for cell in made.cells(picks)] == [0.1, 0.5, 0.5]


@pytest.mark.parametrize(
    ("tune", "data", "message"),
    [
        (TUNE, DATA, ("study: tune.metric: 'validation_loss' needs validation examples; set "
         "data.validation, for example to 0.1")),
        (TUNE + "goals = 'min'", VALIDATED, "study: tune.goals: no such key; did you mean 'goal'?"),
        (TUNE + "goal = 'least'", VALIDATED, "study: tune.goal: expected one of 'auto', 'min', "),
        (TUNE + "metric = 'loss'", VALIDATED, "study: tune.metric: expected test_… or "),
        (TUNE + "metric = 'validation_los'\ngoal = 'min'", VALIDATED, ("study: tune.metric: no "
         "metric 'validation_los'; did you mean 'validation_loss'? known: validation_loss, "
         "validation_accuracy")),
        (TUNE + "metric = 'validation_perplexity'", VALIDATED, ("study: tune.goal: expected 'min' "
         "or 'max': which of them is better is not known of 'validation_perplexity'")),
        (TUNE.replace("local.lr", "local.epochs") + "[axes]\n'local.steps' = [1]", VALIDATED,
         'study: tune."local.epochs": expected local.epochs or local.steps, got both'),
        (TUNE.replace("[100, 101]", "[0]"), VALIDATED, ("study: tune.seeds: expected seeds that "
         "the study does not use, got 0")),
        (TUNE.replace("[0.1, 0.5]", "[0.1]"), VALIDATED, ('study: tune."local.lr": expected at '
         "least two values, got 1")),
        (TUNE.replace("local.lr", "strategies.y.m"), VALIDATED,
         "study: tune.\"strategies.y.m\": no strategy 'y'"),
        (TUNE + "availability = 'x'", VALIDATED, "study: tune.availability: no label 'x'; known: "),
        (TUNE + "[axes]\n'local.lr' = [1]", VALIDATED, 'study: tune."local.lr": is an axis '),
        ("[tune]\nvalues = [1, 2]", VALIDATED, "study: tune.key: expected a value, got none"),
    ],
)  # fmt: skip
def test_tuning_that_cannot_be(tune: str, data: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(tune, data=data)
    assert str(caught.value).startswith(message)
    if tune == TUNE:
        with pytest.raises(StudyError, match=r"is tuned; set tune\.values to a list instead"):
            study(tune, data=VALIDATED, overrides=["local.lr=0.1"])
