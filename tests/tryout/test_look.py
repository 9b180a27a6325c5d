"""What a table is taken for, and what is said of one that does not do; nothing runs."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.tryout.tables import sales
from understudy.simulation.data.table_columns import Column, numbers_among_words
from understudy.simulation.data.table_file import table
from understudy.tryout.look import look
from understudy.tryout.trouble import CannotTry


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(frame, **options):
        frame.to_csv("t.csv", index=False, **options)
        return "t.csv"

    return write


def looked(frame, written, *columns, **options):
    return look(written(frame), *(columns or ("shop", "sold")), **options)


def refused(frame, written, *columns, **options):
    with pytest.raises(CannotTry) as error:
        looked(frame, written, *columns, **options)
    return error.value.lines


def test_a_plain_table(written):
    seen = looked(sales().drop(columns="units"), written)
    assert seen.told == (
        "90 rows, 3 clients, 3 columns to learn from",
        "target sold: 2 classes (few 58 % and many 42 %): a classification",
        "words: kind: each category becomes an input of 0 or 1",
    )
    assert seen.data == {
        "name": "table",
        "file": "t.csv",
        "client": "shop",
        "target": "sold",
        "task": "classes",
        "encode": ["kind"],
        "test": 0.2,
        "seed": "run",
    }
    assert seen.sizes == {"north": 40, "south": 30, "west": 20}
    federation = seen.federation()
    assert federation.names == ("north", "south", "west")
    assert federation.classes == ("few", "many")
    assert tuple(federation.x.shape) == (90, 4)
    assert federation.sizes.tolist() == [32, 24, 16]


def test_a_number_is_a_regression_learnt_in_a_unit_of_its_own(written):
    frame = sales().drop(columns="sold")
    seen = looked(frame, written, "shop", "units")
    assert seen.target.task == "regression"
    shift, scale = float(f"{frame['units'].mean():.3g}"), float(f"{frame['units'].std(ddof=0):.3g}")
    assert (seen.data["shift"], seen.data["scale"]) == (shift, scale)
    learnt = seen.federation().y.numpy() * scale + shift
    np.testing.assert_allclose(learnt, frame["units"], atol=1e-4)


@pytest.mark.parametrize(
    ("values", "asked", "task"),
    [
        ([0, 1], None, "classes"),
        ([1.5, 2.5], None, "classes"),  # two of anything
        (range(10), None, "classes"),
        (range(11), None, "regression"),
        (range(10), "regression", "regression"),
        ([0.5, 1.0, 1.5], None, "regression"),
        (range(30), "classes", "classes"),
    ],
)
def test_what_a_target_of_numbers_is(values, asked, task, written):
    frame = sales()[["shop", "size"]].assign(y=np.resize(list(values), 90))
    assert looked(frame, written, "shop", "y", task=asked).target.task == task


def test_a_rare_class_is_not_judged_by_accuracy(written):
    frame = sales()[["shop", "size"]].assign(y=np.resize(["ill", *["well"] * 7], 90))
    seen = looked(frame, written, "shop", "y")
    assert seen.target.metric == "auc"
    assert "judged by AUC: always saying well is right in 87 % of rows" in seen.told
    three = frame.assign(y=np.resize(["a", "b", *["c"] * 8], 90))
    assert looked(three, written, "shop", "y").target.metric == "balanced_accuracy"


def test_a_messy_table_is_read_and_every_decision_told(written):
    n = 90
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Spital": np.resize(["Köln", "Zürich", "Málaga"], n),
            "Größe, cm": [f"{170 + k % 20},{k % 10}" for k in range(n)],
            "CRP": [f"{k % 7},25" if k % 10 else "<0,5" for k in range(n)],
            "Notiz": [f"Patient {k}, o.B." for k in range(n)],
            "Geschlecht": np.resize(["weiblich", "Weiblich", "männlich", None], n),
            "Aufnahme": pd.date_range("2021-01-01", periods=n).strftime("%d.%m.%Y"),
            "leer": "",
            "tot": rng.choice(["ja", "nein"], n),
        }
    )
    frame.loc[3, "tot"] = None
    frame.loc[7, "Spital"] = None
    file = written(frame, sep=";", encoding="cp1252")
    seen = look(file, "Spital", "tot")
    assert seen.told[:1] == ("88 rows, 3 clients, 3 columns to learn from",)
    assert seen.told[1:3] == (
        (
            "the file has columns separated by semicolons, decimal commas and the encoding "
            "Windows-1252"
        ),
        (
            "2 of 90 rows are left out: 1 without Spital (empty, NA and the like) and 1 without a "
            "value in tot"
        ),
    )
    assert seen.told[4:] == (
        "CRP: 1,25 is read as 1.25",
        "CRP: no number in 9 of 88 rows (such as '<0,5'); taken for missing",
        "Notiz: 88 different texts in 88 rows; left out",
        "Geschlecht: 'Weiblich' and 'weiblich' are taken for different categories",
        "Aufnahme: dates (an age or a count of days would do); left out",
        "leer: empty; left out",
        "words: Geschlecht: each category becomes an input of 0 or 1",
        (
            "missing values: Geschlecht 23 % and CRP 10 %: filled with the median of the rows that "
            "are trained on, of words with the most frequent"
        ),
    )
    federation = seen.federation()
    assert federation.names == ("Köln", "Málaga", "Zürich")
    assert bool(federation.x.isfinite().all())


@pytest.mark.parametrize(
    ("words", "separator", "numbers", "told"),
    [
        (["1,000", "2,500", "999"], ",", [1000, 2500, 999], "1,000 is read as 1000"),
        (["1,234.5", "12", "1,000"], ",", [1234.5, 12, 1000], "1,234.5 is read as 1234.5"),
        (["4,5", "1,000", "<3"], ",", [4.5, 1, None], "4,5 is read as 4.5"),
        (["1.234,50", "2,5", "1.234"], ";", [1234.5, 2.5, 1234], "1.234,50 is read as 1234.5"),
        (["1,234", "5,678", "n"], ";", [1.234, 5.678, None], "1,234 is read as 1.234"),
        (["2,5", "1.5", "1.234"], ",", [2.5, 1.5, 1.234], "2,5 is read as 2.5"),
    ],
)
def test_what_a_comma_means_is_decided_for_the_column(words, separator, numbers, told, written):
    """Between thousands, or before decimals; 1,234 alone is what the file's decimal sign says."""
    frame = sales()[["shop", "size", "sold"]].assign(income=np.resize(words, 90))
    if separator == ";":
        frame["size"] = frame["size"].map("{:.2f}".format).str.replace(".", ",")
    seen = looked(frame, written) if separator == "," else look(
        written(frame, sep=separator), "shop", "sold"
    )  # fmt: skip
    assert f"income: {told}" in seen.told
    column = Column("income", np.array(words, dtype=object))
    decimal = seen.data.get("decimal", ".")
    assert decimal == ("." if separator == "," or "1.234" in words else ",")
    read = numbers_among_words(column, decimal)
    np.testing.assert_array_equal(read, [np.nan if one is None else one for one in numbers])
    inputs = seen.federation().x[:, 1].numpy()  # standardised: in the order of the numbers
    known = [k for k, one in enumerate(numbers) if one is not None]
    order = sorted(known, key=lambda k: numbers[k])
    assert sorted(known, key=lambda k: inputs[k]) == order


def test_rows_of_another_length_are_an_error_and_move_no_column(tmp_path, monkeypatch):
    """With one field more in each row pandas would take the first for a name of the row."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{'ab'[k % 2]},{k % 7},{k % 3}," for k in range(30)]
    with open("t.csv", "w") as file:
        file.write("\n".join(["site,x,y", *rows, ""]))
    words = re.escape("t.csv, line 2: expected 3 fields, as in the header, got 4")
    with pytest.raises(ValueError, match=words):
        look("t.csv", "site", "y")
    with open("t.csv", "w") as file:
        file.write("")
    with pytest.raises(
        ValueError, match=r"t\.csv: expected a CSV file with a header, got an empty"
    ):
        look("t.csv", "site", "y")


def test_a_target_with_commas_is_told_how_to_be_written(written):
    frame = sales().assign(units=[f"{1000 + 37 * k:,}.5" for k in range(90)])
    for task in (None, "regression"):
        assert refused(frame, written, "shop", "units", task=task) == (
            (
                "target: column 'units' holds numbers with a comma (such as '1,000.5'); write a "
                "point for decimals, and nothing between thousands"
            ),
        )


def test_a_column_that_tells_the_target_is_named(written):
    frame = sales().drop(columns="units")
    told = looked(frame.assign(code=frame["sold"].map({"few": 0, "many": 1})), written).told
    assert told[-1] == ("code tells sold exactly. Is it known beforehand? If not: --drop code")
    assert looked(frame, written, drop=("kind",)).data["drop"] == ["kind"]


def test_ten_thousand_categories_are_left_out(written):
    n = 10_000
    frame = pd.DataFrame({"shop": np.resize(["a", "b"], n), "x": np.resize([1.5, 2, 4], n)})
    frame = frame.assign(street=[f"street {k}" for k in range(n)], y=np.resize(["u", "v", "v"], n))
    assert (
        "street: 10,000 different texts in 10,000 rows; left out"
        in looked(frame, written, "shop", "y").told
    )


def test_small_clients_and_names_that_look_alike_are_told(written):
    frame = sales().drop(columns="units")
    frame.loc[:4, "shop"] = "North"
    told = looked(frame, written).told
    assert "shop: 'North' and 'north' are taken for different clients" in told
    assert (
        "fewer than 10 rows: North: their own numbers rest on one or two test rows, or on none"
        in told
    )


def test_all_columns_that_are_not_there_are_told_at_once(written):
    assert refused(sales(), written, "shpo", "solt", drop=("x",)) == (
        (
            "client: no column 'shpo'; did you mean 'shop'? the table has shop, size, price, kind, "
            "sold, units"
        ),
        (
            "target: no column 'solt'; did you mean 'sold'? the table has shop, size, price, kind, "
            "sold, units"
        ),
        "drop: no column 'x'; the table has shop, size, price, kind, sold, units",
    )


@pytest.mark.parametrize(
    ("change", "columns", "line"),
    [
        (
            {"shop": "north"},
            (),
            "client: column 'shop' has one value, 'north': a federation takes at least two clients",
        ),
        (
            {"shop": [f"s{k}" for k in range(90)]},
            (),
            (
                "client: column 'shop' has 90 different values in 90 rows: that is an id of rows, "
                "not of clients"
            ),
        ),
        (
            {"sold": "many"},
            (),
            "target: column 'sold' has one class: 'many' in every row; there is nothing to learn",
        ),
        (
            {"sold": [f"text {k}" for k in range(90)]},
            (),
            (
                "target: column 'sold' holds 90 different texts in 90 rows: an id or free text, no "
                "classes"
            ),
        ),
        (
            {"sold": pd.date_range("2024-01-01", periods=90).astype(str)},
            (),
            (
                "target: column 'sold' holds dates; turn it into a number first, such as a count "
                "of days"
            ),
        ),
        ({"sold": None}, (), "target: column 'sold' is empty in every row"),
        ({}, ("shop", "shop"), "target: 'shop' is the column of the clients"),
        (
            {},
            ("shop", "sold", "regression"),
            "target: column 'sold' holds no numbers, so it is no regression; --task classes",
        ),
        (
            {"units": range(90)},
            ("shop", "units", "classes"),
            "target: column 'units' holds 90 different numbers: no classes; --task regression",
        ),
    ],
)
def test_what_cannot_be_tried_is_said_in_a_line(change, columns, line, written):
    assert refused(sales().assign(**change), written, *columns) == (line,)


def test_a_table_without_inputs(written):
    frame = sales()[["shop", "sold"]].assign(note=[f"n{k}" for k in range(90)])
    assert refused(frame, written) == (
        "no column is left to learn from: note: 90 different texts in 90 rows; left out",
    )
    assert refused(frame[["shop", "sold"]], written) == (
        "no column is left to learn from: there are no others",
    )


def test_what_is_told_is_what_a_study_reads(written):
    """The table of a study is all that it takes to make the same federation again."""
    seen = looked(sales(), written)
    settings = {key: value for key, value in seen.data.items() if key not in ("name", "seed")}
    again = table(**settings, seed=0)
    assert again.x.equal(seen.federation().x)
    assert again.y.equal(seen.federation().y)
