"""What a part of somebody's answers: each mistake is named where it is made."""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from understudy import Arrivals, Contributions, Ignore, Linear, Population, Sgd, Strategy
from understudy.server.part_state import MAY_BE
from understudy.testing import check_compensator


@dataclass(frozen=True)
class Mean:
    """The mean of those who came; what it says is up to a test."""

    made: Any = None  # its state
    filled: Any = "contributions"
    learnt: Any = None
    signed = False
    normalised = True

    def init(self, setup):
        return self.made

    def fill(self, state, end):
        came = end.came
        right = Contributions.of((came, end.fresh(), np.arange(len(came)), 1 / len(came)))
        return right if self.filled == "contributions" else self.filled

    def learn(self, state, end, step):
        return self.learnt


def play(strategy):
    state = strategy.init(Population(3), torch.zeros(4))
    cohort = strategy.select(state, [True, True, False])
    return strategy.apply(state, cohort, Arrivals(cohort.asked, torch.ones(2, 4)))


def test_learn_may_have_nothing_to_tell():
    applied = play(Strategy(compensator=Mean(learnt=None)))
    assert applied.notes == {"largest_share": 0.5}
    assert applied.stepped
    check_compensator(Mean())


def test_notes_are_numbers_also_those_of_torch():
    notes = {"norm": torch.tensor(2.5), "n": 3, "share": np.float32(0.5)}
    told = play(Strategy(compensator=Mean(learnt=notes))).notes
    assert told == {"norm": 2.5, "n": 3, "share": 0.5, "largest_share": 0.5}
    assert type(told["norm"]) is float
    assert type(told["n"]) is int


@pytest.mark.parametrize(
    ("learnt", "words"),
    [
        (3.0, "Mean.learn: expected notes, a dict of numbers by name, or None, got 3.0"),
        ([("a", 1.0)], "Mean.learn: expected notes, a dict of numbers by name, or None, got [("),
        ({"a": "loud"}, "Mean.learn: expected a number as note 'a', got 'loud'"),
        ({"a": torch.ones(2)}, "expected a number as note 'a', got a tensor of shape (2,)"),
    ],
)
def test_other_notes_are_refused(learnt, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        play(Strategy(compensator=Mean(learnt=learnt)))


@pytest.mark.parametrize(
    ("filled", "came"),
    [
        (torch.ones(4), "a tensor of shape (4,)"),
        (None, "None"),
        ([(0, 1.0)], "[(0, 1.0)]"),
        ("x" * 100, f"'{'x' * 58}…"),
    ],
)
def test_fill_returns_contributions(filled, came):
    expected = (
        "Mean.fill: expected Contributions, which point to rows instead of summing them: "
        f"Contributions.of((ids, block, row, coef), …); got {came}"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(expected)}$"):
        play(Strategy(compensator=Mean(filled=filled)))


@dataclass(frozen=True)
class Sums(Linear):
    answer: Any = None

    def aggregate(self, contributions):
        return self.answer


@dataclass(frozen=True)
class Steps(Sgd):
    answer: Any = None

    def step(self, state, params, update, t):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "came"), [(None, "None"), (torch.ones(4, 1), "a tensor of shape (4, 1)"), (1, "1")]
)
def test_an_update_and_a_model_are_as_long_as_the_model(answer, came):
    """Without an update there would be no step, and nobody would notice."""
    words = f"expected a tensor of shape (4,), as long as the model, got {came}"
    with pytest.raises(TypeError, match=re.escape(f"Sums.aggregate: {words}")):
        play(Strategy(aggregator=Sums(answer=answer)))
    with pytest.raises(TypeError, match=re.escape(f"Steps.step: {words}")):
        play(Strategy(server=Steps(answer=answer)))


# -- states ----------------------------------------------------------------------------------------


@dataclass
class Inner:
    value: Any
    _derived: Any = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    count: int = 0


@pytest.mark.parametrize(
    "state",
    [
        None,
        Inner(np.zeros(3)),
        Inner(torch.zeros(4)),
        Inner(Inner(2.5)),
        Inner("text"),
        Inner(np.float32(1)),
        Inner(None, _derived={"anything": lambda: 1}),
    ],
)
def test_what_a_state_may_be(state):
    assert play(Strategy(compensator=Mean(made=state))).stepped


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"memory": 1}, "Mean.init: expected a dataclass object, got a dict; a state is None or a"),
        ([1, 2], "Mean.init: expected a dataclass object, got a list; "),
        (np.zeros(3), "Mean.init: expected a dataclass object, got a ndarray; "),
        (Inner, "Mean.init: expected a dataclass object, got the class Inner; "),
        (Inner({}), f"Mean.init: state.value is a dict; {MAY_BE}"),
        (Inner(Inner([])), "Mean.init: state.value.value is a list; a state is None or a "),
        (Inner(np.array([None])), "Mean.init: state.value is an array of objects; "),
        (Frozen(), "expected a dataclass that can be written to, got Frozen, which is frozen"),
        (Inner(Frozen()), "Mean.init: expected state.value to be a dataclass that can be written"),
    ],
)
def test_what_a_state_may_not_be(state, words):
    strategy = Strategy(compensator=Mean(made=state))
    with pytest.raises(TypeError, match=re.escape(words)):
        strategy.init(Population(3), torch.zeros(4))
    with pytest.raises(TypeError, match=re.escape(words)):
        strategy.footprint(Population(3), 4)


def test_the_part_whose_state_it_is_is_named():
    @dataclass(frozen=True)
    class Wants:
        def init(self, setup):
            return {}

        def pick(self, state, start):
            return [0], [1.0]

        def learn(self, state, end): ...

    with pytest.raises(TypeError, match=r"^Wants\.init: expected a dataclass object, got a dict"):
        Strategy(sampler=Wants(), compensator=Ignore()).init(Population(3), torch.zeros(4))
