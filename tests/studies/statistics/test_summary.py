"""The measures of a run: hand-worked rounds, and one real run."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy import strategies
from understudy.parts.availability import FixedDropout
from understudy.parts.compensators.race import HoeffdingRace
from understudy.parts.local import Local
from understudy.simulation.data.digits import clustered_digits
from understudy.simulation.run import simulate
from understudy.studies.statistics.summary import summarise

NAN = float("nan")


def rounds_of(accuracy: list[float], **columns: Any) -> pd.DataFrame:
    """Rounds of 2 seconds in which 3 + 1 megabytes are sent and 4 come."""
    n = len(accuracy)
    plain = {
        "t": np.arange(n),
        "clock": 2.0 * np.arange(1, n + 1),
        "megabytes_up": 3.0,
        "megabytes_down": 1.0,
        "came": 4.0,
        "wanted": 5.0,
        "test_accuracy": accuracy,
    }
    return pd.DataFrame({**plain, **columns})


def test_accuracy_over_the_last_rounds() -> None:
    """30 rounds of accuracy 0.01 … 0.30 but for one peak of 0.9 in round 3.

    Last ten: 0.21 … 0.30, mean 0.255; the last tenth: 0.28, 0.29, 0.30. Last twenty:
    0.11 … 0.30, whose variance is 0.01² (20² − 1)/12 = 0.0001 · 33.25, so that the standard
    deviation is 0.01 √33.25. They lie on a line, about which nothing fluctuates. All thirty:
    4.65 − 0.04 + 0.9 = 5.51.
    """
    accuracy = [0.01 * (t + 1) for t in range(30)]
    accuracy[3] = 0.9
    measures = summarise(rounds_of(accuracy), None, {"n_clients": 5}, None)
    assert measures == {
        "accuracy_best": 0.9,
        "accuracy_last": pytest.approx(0.30),
        "accuracy_last10": pytest.approx(0.255),
        "accuracy_tail": pytest.approx(0.29),
        "accuracy_mean": pytest.approx(5.51 / 30),
        "fluctuation": pytest.approx(0.01 * math.sqrt(33.25)),
        "fluctuation_detrended": pytest.approx(0, abs=1e-15),
        "fluctuation_late": pytest.approx(0, abs=1e-15),
        "participants": 4.0,
        "megabytes": 120,
    }


def test_a_curve_that_bends_and_then_is_straight_does_not_fluctuate_late() -> None:
    """24 rounds: ten of a steep rise, then a line. The last 20 hold the bend, the second half none.

    A wave of ±0.01 on the second half is seen: about its own line a wave of twelve has a
    standard deviation of 0.01·√(1 − 3/143), since the slope of the best line is 0.01 · −12/286.
    """
    steep = [0.05 * t for t in range(10)] + [0.5 + 0.001 * t for t in range(14)]
    measures = summarise(rounds_of(steep), None, {"n_clients": 5}, None)
    assert measures["fluctuation_late"] == pytest.approx(0, abs=1e-15)
    assert measures["fluctuation_detrended"] > 0.05
    wave = [a + (0.01 if t % 2 == 0 else -0.01) * (t >= 12) for t, a in enumerate(steep)]
    measures = summarise(rounds_of(wave), None, {"n_clients": 5}, None)
    assert measures["fluctuation_late"] == pytest.approx(0.01 * math.sqrt(1 - 3 / 143))


def test_rounds_without_evaluation_do_not_count() -> None:
    """Evaluated every third round: the last ten evaluated of 36 rounds are 0.03 … 0.12."""
    accuracy = [0.01 * (t + 1) / 3 if (t + 1) % 3 == 0 else NAN for t in range(36)]
    measures = summarise(rounds_of(accuracy), None, {}, 0.045)
    assert measures["accuracy_last10"] == pytest.approx(0.075)
    assert measures["accuracy_last"] == pytest.approx(0.12)
    # all twelve evaluated: the standard deviation of 1 … 12 is √((12² − 1)/12)
    assert measures["fluctuation"] == pytest.approx(0.01 * math.sqrt(143 / 12))
    # 0.05 is the first above 0.045, in round 15: 30 seconds and 15 · 4 megabytes, as the rounds
    # that were not evaluated have their price too
    assert measures["rounds_to_target"] == 15
    assert measures["clock_to_target"] == 30
    assert measures["megabytes_to_target"] == 60
    assert measures["megabytes"] == 144


def test_fewer_rounds_than_are_averaged() -> None:
    """Of 0.2, 0.4: mean 0.3, standard deviation 0.1. One round has no fluctuation to tell."""
    two = summarise(rounds_of([0.2, 0.4]), None, {}, None)
    assert two["accuracy_last10"] == pytest.approx(0.3)
    assert two["fluctuation"] == pytest.approx(0.1)
    one = summarise(rounds_of([0.2]), None, {}, None)
    assert one["accuracy_last10"] == 0.2
    assert "fluctuation" not in one


def test_the_target_is_reached_the_first_time_and_never() -> None:
    reached = summarise(rounds_of([0.1, 0.5, 0.4, 0.6]), None, {}, 0.5)
    assert reached["rounds_to_target"] == 2  # 0.5 is enough
    assert reached["clock_to_target"] == 4
    assert reached["megabytes_to_target"] == 8
    never = summarise(rounds_of([0.1, 0.5, 0.4]), None, {}, 0.7)
    for name in ("rounds_to_target", "clock_to_target", "megabytes_to_target"):
        assert math.isnan(never[name])
    timeless = summarise(rounds_of([0.1, 0.5], clock=[0.0, 0.0]), None, {}, 0.5)
    assert "clock_to_target" not in timeless  # without a delay
    assert timeless["rounds_to_target"] == 2
    without = summarise(rounds_of([0.1, 0.5, 0.4]), None, {}, None)
    assert not [name for name in without if name.endswith("_to_target")]


def test_regression_has_losses_only() -> None:
    """3, 1, 2 about the line 2.5, 2, 1.5: 0.5, −1, 0.5, whose standard deviation is √0.5."""
    rounds = rounds_of([0.0] * 4, test_loss=[3.0, 1.0, NAN, 2.0], train_loss=[NAN, 0.5, NAN, NAN])
    rounds["test_mae"] = [1.5, 1.0, NAN, 1.25]
    measures = summarise(rounds.drop(columns="test_accuracy"), None, {}, 0.5)
    assert measures == {
        "loss_best": 1.0,
        "loss_last": 2.0,
        "loss_fluctuation": pytest.approx(math.sqrt(0.5)),
        "train_loss_last": 0.5,
        "test_mae_last": 1.25,
        "participants": 4.0,
        "megabytes": 16,
    }


def test_a_diverged_run_has_no_last_loss() -> None:
    """Round 2 was evaluated (it has an accuracy), its loss is not a number."""
    measures = summarise(rounds_of([0.5, 0.6, 0.1], test_loss=[1.0, 0.8, NAN]), None, {}, None)
    assert math.isnan(measures["loss_last"])
    assert measures["loss_best"] == 0.8


def test_a_run_that_was_stopped() -> None:
    assert summarise(rounds_of([]), None, {}, 0.5) == {}
    stopped = summarise(rounds_of([NAN, NAN]), None, {}, 0.5)  # before the first evaluation
    assert stopped["participants"] == 4.0
    assert not [name for name in stopped if name.startswith("accuracy")]


def test_over_clients() -> None:
    """Twelve clients of accuracy 0 … 11 %, one of them without test data.

    Eleven are left, of 0 … 10 %: mean 5 %, variance (11² − 1)/12 = 10 in points²; a tenth of 11,
    rounded up, is two clients: worst (0 + 1)/2, best (9 + 10)/2. Wanted 0, 1, …, 11 times: variance
    (12² − 1)/12.
    """
    accuracy = [place / 100 for place in range(11)] + [NAN]
    clients = pd.DataFrame({"client": range(12), "wanted": range(12), "accuracy": accuracy[::-1]})
    measures = summarise(rounds_of([0.5]), clients, {"n_clients": 12}, None)
    assert measures["client_accuracy_mean"] == pytest.approx(0.05)
    assert measures["client_accuracy_variance"] == pytest.approx(10e-4)
    assert measures["client_accuracy_worst10"] == pytest.approx(0.005)
    assert measures["client_accuracy_best10"] == pytest.approx(0.095)
    assert measures["count_variance"] == pytest.approx(143 / 12)


def test_clients_without_a_row_were_never_wanted() -> None:
    """Counts 4, 4, 0, 0: mean 2, variance 4."""
    clients = pd.DataFrame({"client": [0, 1], "wanted": [4, 4]})
    measures = summarise(rounds_of([0.5]), clients, {"n_clients": 4}, None)
    assert measures["count_variance"] == 4.0
    assert "client_accuracy_mean" not in measures


def test_evaluations_spared() -> None:
    """4 come: 6 pairs a round. 6, 3 and 0 are needed in three rounds, one is silent: 9 of 18."""
    rounds = rounds_of([0.1] * 4, pairs_needed=[6.0, 3.0, NAN, 0.0])
    assert summarise(rounds, None, {}, None)["evaluations_spared"] == 0.5


def test_oracle_errors_are_means_over_rounds() -> None:
    rounds = rounds_of([0.1] * 3, oracle_error=[1.0, 2.0, 6.0])
    rounds["oracle_error_relative"] = [NAN, 0.5, 1.5]
    measures = summarise(rounds, None, {}, None)
    assert measures["oracle_error"] == 3.0
    assert measures["oracle_error_relative"] == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_what_must_hold_of_any_run(accuracy: list[float], target: float) -> None:
    measures = summarise(rounds_of(accuracy), None, {}, target)
    assert measures["accuracy_last10"] <= measures["accuracy_best"] + 1e-12
    assert measures["accuracy_last"] <= measures["accuracy_best"]
    assert measures.get("fluctuation", 0.0) <= 0.5
    reached = measures["accuracy_best"] >= target
    assert math.isnan(measures["rounds_to_target"]) != reached


def test_a_real_run_with_a_race_and_an_oracle() -> None:
    """What the logs of FL-FDMS say, counted anew from them."""
    race = HoeffdingRace(threshold="code", scale=0.02)
    run = simulate(
        clustered_digits(8, 4, per_client=8, seed=0),
        strategies.fdms(race=race, local=Local(lr=0.1, epochs=1, batch_size=8)),
        model="softmax",
        availability=FixedDropout(0.5),
        rounds=6,
        evaluate=("test", "train"),
        oracle=True,
    )
    logs = list(run)
    measures = summarise(run.frame(), None, {"n_clients": 8}, 0.0)
    needed = sum(log.notes["pairs_needed"] for log in logs)
    came = [int((log.outcome == 0).sum()) for log in logs]
    pairs = sum(math.comb(n, 2) for n in came)
    assert 0 < needed < pairs
    assert measures["evaluations_spared"] == pytest.approx(1 - needed / pairs)
    assert measures["participants"] == pytest.approx(np.mean(came))
    assert measures["train_loss_last"] == logs[-1].metrics["train_loss"]
    assert measures["accuracy_last10"] == pytest.approx(
        np.mean([log.metrics["test_accuracy"] for log in logs])
    )
    assert measures["oracle_error"] == pytest.approx(
        np.mean([log.notes["oracle_error"] for log in logs])
    )
    assert measures["rounds_to_target"] == 1
    assert measures["megabytes_to_target"] == logs[0].megabytes_up + logs[0].megabytes_down
