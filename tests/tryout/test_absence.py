"""Who is missing: what was asked for, as a study has it."""

import pickle

import pytest

from tests.tryout.tables import sales
from understudy.tryout.absence import Absence, situations
from understudy.tryout.look import look
from understudy.tryout.trouble import CannotTry


@pytest.fixture
def seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sales().to_csv("t.csv", index=False)
    return look("t.csv", "shop", "sold")


def found(seen, missing=None, trace=None, leave=(), since=0):
    return situations(Absence.asked(missing, trace, leave, since), seen, rounds=10)


def test_without_a_word_half_are_missing_and_the_largest_is_gone(seen):
    made = found(seen)
    assert made.at_times == {"2 of 3 missing": {"name": "fixed_dropout", "alpha": 0.5}}
    assert made.for_good == {"without north": {"name": "gone", "clients": ["north"]}}
    assert made.gone == {"without north": "north"}
    assert made.told == [
        "2 of 3 clients miss each round, drawn for each round",
        "north (40 rows) never takes part: no method can stand in for it",
    ]


def test_each_in_turn_and_one_by_name(seen):
    assert list(found(seen, leave="each").for_good) == [
        "without north",
        "without south",
        "without west",
    ]
    assert list(found(seen, leave=["west", "west"]).for_good) == ["without west"]


def test_one_that_leaves_later_may_be_stood_in_for(seen):
    made = found(seen, leave="largest", since=4)
    assert made.for_good == {}
    assert made.at_times == {"without north": {"name": "gone", "clients": ["north"], "since": 4}}
    assert made.told == ["north takes part in 4 rounds, and then never again"]


@pytest.mark.parametrize(("names", "by_name"), [("north south west", True), ("a b", False)])
def test_a_recording_is_spanned_by_the_rounds(names, by_name, seen):
    lines = [f"{name},{t},{state}" for name in names.split()
             for t, state in ((0, "AVL_TRAIN"), (500, "UN_AVL"))]  # fmt: skip
    with open("attendance.csv", "w") as file:
        file.write("\n".join(["device,t_s,state", *lines, ""]))
    (table,) = found(seen, trace="attendance.csv").at_times.values()
    assert table == {
        "name": "trace",
        "file": "attendance.csv",
        "seconds_per_round": 50.0,
        "drop_first_seconds": 0,
        "by_name": by_name,
    }


def test_recordings_of_phones_are_dealt(seen, tmp_path):
    phone = {"active": [0, 50], "inactive": [20, 80], "finish_time": 100, "duration": 50}
    (tmp_path / "behave").write_bytes(pickle.dumps({1: phone, 2: phone}))
    made = found(seen, trace="behave")
    assert made.at_times == {
        "as in behave": {"name": "fedscale_trace", "file": "behave", "seconds_per_round": 10.0}
    }
    assert made.told == [
        "behave: devices are dealt to clients at random; 10 rounds of 10 s span the recording"
    ]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (
            {"missing": 0.1},
            (
                "missing: 0.1 of 3 clients is nobody; from 0.33 to 0.67 some are "
                "missing, and some are there"
            ),
        ),
        (
            {"missing": 0.9},
            (
                "missing: 0.9 of 3 clients is everybody; from 0.33 to 0.67 some are "
                "missing, and some are there"
            ),
        ),
        ({"missing": 0.5, "since": 3}, "since: nobody leaves in round 3; --leave says who"),
        (
            {"leave": "nord"},
            (
                "leave: no client 'nord'; did you mean 'north'? known: north, south, west, "
                "largest, each"
            ),
        ),
    ],
)
def test_what_cannot_be(asked, line, seen):
    with pytest.raises(CannotTry) as error:
        found(seen, **asked)
    assert error.value.lines == (line,)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"missing": 1.0}, r"missing: expected a number in \(0, 1\), got 1.0"),
        ({"leave": "west", "since": 10}, "since: expected a whole number >= 0 and <= 9, got 10"),
        ({"trace": "nix.csv"}, r"nix.csv: no such file, .* expected recorded attendance: a CSV"),
    ],
)
def test_what_is_out_of_range(asked, words, seen):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        found(seen, **asked)
