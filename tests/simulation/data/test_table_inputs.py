"""Tables as they are: every problem told at once with its remedy, and what the remedies do."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from understudy import Local, fedavg
from understudy.simulation import Federation, simulate

SETTLED: dict[str, Any] = {
    "drop": ["patient_id", "visit", "admitted", "country", "note"],
    "encode": ["ward"],
    "impute": "median",
    "standardise": True,
}


def raw(n: int = 60) -> pandas.DataFrame:
    """What a hospital exports: an id, a row number, dates, text, gaps, a constant."""
    rng = np.random.default_rng(1)
    table = pandas.DataFrame(
        {
            "patient_id": [f"P{i:03d}" for i in range(n)],
            "visit": range(1000, 1000 + n),
            "hospital": np.repeat(["H01", "H02", "H03"], n // 3),
            "admitted": [f"2024-{1 + i % 12:02}-11" for i in range(n)],
            "ward": rng.choice(["icu", "medicine", "surgery"], n),
            "age": rng.integers(20, 90, n).astype(float),
            "income": rng.normal(50_000, 9_000, n),
            "smoker": rng.integers(0, 2, n),
            "country": "CH",
            "note": np.nan,
            "ill": rng.integers(0, 2, n),
        }
    )
    table.loc[[4, 7], "age"] = np.nan
    table.loc[5, "ward"] = None
    return table


def read(table: Any, **options: Any) -> Federation:
    return Federation.from_table(table, client="hospital", label="ill", **options)


def test_all_problems_are_one_error_that_ends_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    raw().to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"patients\.csv: 8 problems") as said:
        read(path)
    head, *lines = str(said.value).splitlines()
    assert head.endswith(
        "8 problems; all settled by drop=['patient_id', 'visit', 'admitted', 'country', 'note'], "
        "encode=['ward'], impute=\"median\""
    )
    ward = raw()["ward"][0]
    assert (
        [line.strip() for line in lines]
        == """
line 2: column 'patient_id' holds 60 different values in 60 rows: an id, or free text (such as \
'P000'); drop=['patient_id']
line 2: column 'visit' holds 60 different values in 60 rows: an id (such as 1000); drop=['visit']
line 2: column 'admitted' holds dates (such as '2024-01-11'); drop=['admitted'], or turn it into \
a number first, such as an age or a count of days
line 2: column 'ward' does not hold numbers but 3 categories (such as 'WARD'); encode=['ward'], \
or drop=['ward']
line 7: column 'ward' has 1 missing value; impute="most_frequent"
line 6: column 'age' has 2 missing values; impute="median"
line 2: column 'country' holds the same value in every row (such as 'CH'); drop=['country']
column 'note' is empty in every row; drop=['note']
""".replace("WARD", ward)
        .strip()
        .splitlines()
    )
    # what it says, done: the same from the file and from the table
    one, other = read(path, **SETTLED), read(raw(), **SETTLED)
    assert torch.equal(one.x, other.x)
    assert one.names == ("H01", "H02", "H03")


def test_statistics_are_those_of_training_rows_alone() -> None:
    """By hand, column by column: wards by the alphabet, then age, income, smoker."""
    data, table = read(raw(), **SETTLED), raw()
    trained = np.sort(np.concatenate(data.clients))
    frequent = table["ward"][trained].mode()[0]
    for place, ward in enumerate(["icu", "medicine", "surgery"]):
        assert data.x[:, place].tolist() == (table["ward"].fillna(frequent) == ward).tolist()
    age = table["age"].fillna(table["age"][trained].median())
    for place, values in enumerate([age, table["income"], table["smoker"]], start=3):
        own = values[trained]
        expected = (values - own.mean()) / own.std(ddof=0)
        np.testing.assert_allclose(data.x[:, place], expected, rtol=1e-5, atol=1e-6)
    assert data.x.dtype == torch.float32


def test_rows_to_test_with_change_no_statistic() -> None:
    """Another patient's income in a test row moves that input, and nothing else."""
    table, data = raw(), read(raw(), **SETTLED)
    row = int(data.test[0])
    table.loc[row, "income"] = 1e9
    moved = read(table, **SETTLED)
    others = np.setdiff1d(np.arange(60), row)
    assert torch.equal(moved.x[others], data.x[others])
    assert moved.x[row, 4] > 1e3


@pytest.mark.parametrize(
    ("impute", "expected"),
    [("median", 3.0), ("mean", 4.0), ("most_frequent", 2.0), (-1, -1.0), ({"a": 7.5}, 7.5)],
)
def test_what_gaps_are_filled_with(impute: Any, expected: float) -> None:
    values = [2.0, 2.0, 4.0, 8.0, np.nan] * 2
    table = pandas.DataFrame({"hospital": "H", "a": values, "ill": [0, 1] * 5})
    rows = table.assign(a=table["a"].fillna(0)).drop(columns="hospital")
    data = read(table, impute=impute, test=rows)
    assert data.x[[4, 9], 0].tolist() == [expected] * 2
    assert data.x[10:, 0].tolist() == rows["a"].tolist()


def test_a_table_to_test_with_is_encoded_and_filled_alike() -> None:
    own = raw().drop(columns=SETTLED["drop"])
    other = own.iloc[:6].drop(columns="hospital")
    other.loc[0, "ward"] = "maternity"  # nobody trains on it
    other.loc[1, "income"] = np.nan
    options = {name: value for name, value in SETTLED.items() if name != "drop"}
    data = read(own, test=other, **options)
    assert data.x[60, :3].tolist() == [0, 0, 0]
    income = own["income"]
    filled = (income.median() - income.mean()) / income.std(ddof=0)
    assert data.x[61, 4].item() == pytest.approx(filled, rel=1e-4)
    assert torch.equal(data.x[62:], data.x[2:6])
    with pytest.raises(ValueError, match=r"^3 problems; all settled by impute="):
        read(own.dropna(), test=other, encode="auto")


def test_kinds_that_pandas_knows() -> None:
    days = pandas.date_range("2024-01-01", periods=30)
    table = pandas.DataFrame(
        {
            "hospital": ["a", "b"] * 15,
            "born": [datetime.date(1980, 1, 1 + i % 9) for i in range(30)],
            "seen": days,
            "kind": pandas.Categorical(["x", "y", "z"] * 10),
            "count": pandas.array([1, None, 3] * 10, dtype="Int64"),
            "truth": [True, None, False] * 10,
            "grade": pandas.Series(["1", "2", "3"] * 10, dtype="string"),
            "ill": [0, 1] * 15,
        }
    )
    with pytest.raises(ValueError, match=r"^6 problems; 5 of them settled by") as said:
        read(table)
    told = str(said.value)
    assert "drop=['born', 'seen'], encode=['kind'], impute=\"median\"" in told
    assert "column 'grade' does not hold numbers but text that looks like them" in told
    data = read(
        table, drop=["born", "seen"], encode=["kind", "grade"], impute="most_frequent",
    )  # fmt: skip
    assert data.x.shape == (30, 3 + 1 + 1 + 3)
    assert data.x[:, 4].tolist()[:3] == [1, data.x[1, 4].item(), 0]


def test_encoding_by_itself_leaves_ids_and_numbers_alone() -> None:
    table = raw()[["hospital", "patient_id", "ward", "age", "ill"]].dropna()
    with pytest.raises(ValueError, match=r"^features: column 'patient_id' holds 57 different"):
        read(table, encode="auto")
    data = read(table, encode="auto", drop="patient_id", standardise=True)
    assert data.x.shape == (57, 4)
    many = table.sample(150, replace=True, random_state=0)
    many["patient_id"] = [f"P{i % 120}" for i in range(150)]
    with pytest.raises(ValueError, match=r"120 different values .* more than the 100 that encode"):
        read(many, encode=["patient_id", "ward"])


def test_numbers_named_as_inputs_are_taken_at_their_word() -> None:
    """An id of numbers or a constant, asked for by name, is what is wanted."""
    table = raw()[["hospital", "visit", "smoker", "ill"]].assign(one=1)
    with pytest.raises(ValueError, match=r"^2 problems; all settled by drop=\['visit', 'one'\]"):
        read(table)
    data = read(table, features=["visit", "one"], standardise=True)
    assert data.x[:, 1].tolist() == [0] * 60


@pytest.mark.parametrize(
    ("name", "values", "is_id"),
    [
        ("patient_id", list(range(7, 67)), True),
        ("patientId", [i * i for i in range(60)], True),
        ("patient_id", [1, 2] * 30, False),
        ("patient_id", [f"P{i // 3}" for i in range(60)], True),  # who came three times
        ("patient", [f"P{i // 3}" for i in range(60)], False),
        ("humid", list(range(0, 120, 2)), False),
        ("age", list(range(60)), True),  # row numbers, whatever they are called
        ("age", [20 + i % 50 for i in range(60)], False),
        ("weight", [float(i) for i in range(60)], False),
    ],
)
def test_which_values_are_ids(name: str, values: list[Any], is_id: bool) -> None:
    table = pandas.DataFrame({"hospital": ["a", "b"] * 30, name: values, "ill": [0, 1] * 30})
    if is_id:
        with pytest.raises(ValueError, match=rf"column '{name}' holds .*: an id"):
            read(table)
    else:
        assert len(read(table, standardise=False, encode="auto").x) == 60


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"drop": "wards"}, ValueError, "drop: the table has no column 'wards'; it has 'patient_"),
        ({"encode": ["ill"]}, ValueError, "encode: expected a column of inputs, got that of the l"),
        ({"drop": ["hospital"]}, ValueError, "drop: .* got that of the clients"),
        ({"impute": "mode"}, ValueError, "impute: expected one of 'median', 'mean', 'most_freq"),
        ({"impute": {"agee": 1}}, ValueError, "impute: the table has no column 'agee'"),
        ({"impute": float("nan")}, ValueError, "impute: expected a number"),
        ({"standardise": "yes"}, ValueError, "standardise: expected True or False, got 'yes'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        read(raw(), **options)


def test_inputs_of_unequal_size_are_warned_of_and_spoil_results() -> None:
    """Age decides; unscaled incomes drown it, and the model says the most frequent class."""
    rng = np.random.default_rng(2)
    age, income = rng.uniform(20, 90, 300), rng.normal(50_000, 20_000, 300)
    table = pandas.DataFrame(
        {"hospital": ["a", "b", "c"] * 100, "age": age, "income": income, "ill": (age > 60) * 1}
    )
    words = r"'income' is about 5\d,\d\d\d, 'age' about \d\d\): .* standardise=True brings"
    with pytest.warns(UserWarning, match=words) as told:
        plain = read(table)
    assert len(told) == 1
    assert told[0].filename == __file__
    ends = {}
    for data in (plain, read(table, standardise=True)):
        run = simulate(
            data, fedavg(local=Local(lr=0.1, epochs=2)), model="softmax", rounds=10, workers=1
        )
        *_, last = run
        ends[data is plain] = last.metrics["test_accuracy"]
    frequent = float(np.bincount(plain.y[plain.test]).max() / len(plain.test))
    assert ends[False] > 0.9
    assert ends[True] < frequent + 0.1


def test_labels_that_never_come_again_and_rare_classes() -> None:
    table = raw()[["hospital", "smoker", "ill"]]
    with pytest.raises(ValueError, match=r"^label: column 'ill' holds 60 different values, 60 of"):
        read(table.assign(ill=range(60)))
    rare = table.assign(ill=[2] + [0, 1] * 29 + [0])
    with pytest.warns(UserWarning, match=r"label: 1 of 3 classes have one row only, such as '2'"):
        read(rare)


def test_clients_and_columns_that_pandas_read_otherwise_are_one_error() -> None:
    table = pandas.DataFrame(
        {
            "hospital": np.repeat([1.0, 2.0], 30),
            "ill": [1, 0] * 30,
            "fever": ["37", "36,6", None] * 20,
            "ward": ["icu", "eye"] * 30,
        }
    )
    with pytest.raises(ValueError, match="problems") as error:
        Federation.from_table(table, client="hospital", label="ill", encode="auto", impute="mean")
    assert str(error.value) == (
        "2 problems\n"
        "  client: column 'hospital' holds numbers of a floating type, which are no ids (such as "
        "1.0); turn them into whole numbers, with astype(int), or into text, with astype(str)\n"
        "  column 'fever' holds numbers with a decimal comma (such as '36,6'); write a point, or "
        'give the table that pandas.read_csv(…, decimal=",") reads'
    )


def test_a_file_with_semicolons_says_how_to_read_it(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text("hospital;age;ill\nnorth;30;1\n")
    with pytest.raises(ValueError, match="separated by commas") as error:
        Federation.from_table(path, client="hospital", label="ill")
    assert str(error.value) == (
        f"{path}, line 1: expected columns separated by commas, got one column "
        "'hospital;age;ill'; give the table that pandas.read_csv(…, sep=';') reads"
    )


def test_whole_numbers_of_a_table_stay_whole() -> None:
    drawn = np.random.default_rng(0).integers(0, 9, (40, 3))
    words = pandas.DataFrame(drawn, columns=["a", "b", "c"])
    table = words.assign(hospital=["x", "y"] * 20, ill=[0, 1] * 20)
    assert torch.equal(read(table).x, torch.tensor(words.to_numpy()))
    assert read(table, standardise=True).x.dtype == torch.float32
    assert read(table.assign(d=0.5 * words["a"])).x.dtype == torch.float32


def test_a_table_of_many_bad_columns_is_told_in_few_lines() -> None:
    table = pandas.DataFrame({f"c{i}": ["u", "v"] * 3 for i in range(500)})
    with pytest.raises(ValueError, match=r"^500 problems") as said:
        read(table.assign(hospital="a", ill=0))
    assert len(str(said.value).splitlines()) == 22
    assert str(said.value).endswith("and 480 more")


def test_names_and_values_cannot_pose_as_lines() -> None:
    hostile = "a\n  line 9: all is well\x1b[31m"
    table = pandas.DataFrame(
        {"hospital": ["x", hostile, hostile] + ["x"] * 7, hostile: ["u", hostile] * 5}
    ).assign(b="v", big=1e6 * np.arange(10), ill=[0, 1] * 5)
    with pytest.raises(ValueError, match=r"^2 problems") as said:
        read(table)
    assert len(str(said.value).splitlines()) == 3
    with pytest.warns(UserWarning, match="from_table") as told:
        read(table, drop=[hostile, "b"])
    assert len(told) == 2
    assert all(line.isprintable() for line in [*str(said.value).splitlines(), *map(_text, told)])


def _text(warning: Any) -> str:
    return str(warning.message)


def test_a_column_that_varies_in_test_rows_only_is_not_blown_up() -> None:
    """The deviation of equal numbers is 1e-17 by rounding, and a test value would become 1e16."""
    table = raw().drop(columns=SETTLED["drop"]).assign(level=0.1)
    options = {"encode": ["ward"], "impute": "median", "standardise": True}
    held_out = int(read(table.drop(columns="level"), **options).test[0])
    table.loc[held_out, "level"] = 0.3
    made = read(table, **options)
    trained = np.concatenate(made.clients)
    torch.testing.assert_close(made.x[trained, -1], torch.zeros(len(trained)))
    assert float(made.x[held_out, -1]) == pytest.approx(0.2)


def test_a_category_of_test_rows_only_is_zero_everywhere() -> None:
    """Its weight is never trained; the input stays, so that models fit whatever is held out."""
    table = raw().drop(columns=SETTLED["drop"])
    options = {"encode": ["ward"], "impute": "median", "standardise": True}
    plain = read(table, **options)
    held_out = int(plain.test[0])
    table.loc[held_out, "ward"] = "ambulance"  # the first of the alphabet
    made = read(table, **options)
    assert made.x.shape[1] == plain.x.shape[1] + 1
    assert made.x[held_out, :4].tolist() == [0, 0, 0, 0]
    trained = np.concatenate(made.clients)
    assert torch.equal(made.x[trained, 1:], plain.x[trained])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 2], "'ill' holds 2 different whole numbers, .*: 1 of 3 classes have no row"),
        ([250, 401], "400 of 402 classes have no row. Number them from 0, or write them as text"),
        ([0.0, 1.0], r"'ill' holds only 0, 1, of a floating type: targets of a regression"),
    ],
)
def test_labels_that_are_hardly_meant_as_they_are_read(labels: list[Any], words: str) -> None:
    table = raw().assign(ill=np.resize(labels, 60))
    with pytest.warns(UserWarning, match=words) as told:
        read(table, **SETTLED)
    assert len(told) == 1


def test_labels_below_zero_are_told_with_the_remedy() -> None:
    table = raw().assign(ill=np.resize([-1, 1], 60))
    with pytest.raises(ValueError, match=r"label: column 'ill' holds whole numbers below 0.*"
                       r"\(such as -1\); number them from 0, write them as text"):  # fmt: skip
        read(table, **SETTLED)


def test_a_gap_among_numbers_changes_no_name_of_a_client() -> None:
    table = raw().assign(hospital=np.repeat([3, 5, 8], 20))
    other = table.iloc[::7].astype({"hospital": float})
    made = read(table, test=other, **SETTLED)
    assert made.test_clients is not None
    assert made.test_clients.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
