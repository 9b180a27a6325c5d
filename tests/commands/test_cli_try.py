"""`understudy try`: its own words, exactly, at 80 columns."""

import pytest

from tests.cli import Command
from tests.tryout.tables import sales

COLUMNS = ("--client", "shop", "--target", "sold")


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    sales().drop(columns="units").to_csv("t.csv", index=False)
    return Command(capsys, monkeypatch)


PLAN = """\
  90 rows, 3 clients, 3 columns to learn from
  target sold: 2 classes (CLASSES): a classification
  words: kind: each category becomes an input of 0 or 1
  2 of 3 clients miss each round, drawn for each round
  north (40 rows) never takes part: no method can stand in for it
  all train alike: model mlp, a pass over a client's rows in a round, local step
    0.05, batches of 16; and the server's step is 1
"""


def test_a_look_at_a_table(command, tmp_path):
    said = command("try", "t.csv", *COLUMNS, "--dry-run")
    shares = sales()["sold"].value_counts(normalize=True)
    classes = " and ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    assert (said.code, said.err) == (0, "")
    plan, effort = said.out.split("  90 runs of 40 rounds, about ")
    assert plan == PLAN.replace("CLASSES", classes)
    assert " ".join(effort.split()).endswith(
        "cores: everyone, pooled, left out, stale, fedvarp, fedar, fdms, kriging"
    )
    assert max(map(len, said.out.splitlines())) <= 80
    assert not (tmp_path / "runs" / "understudy.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (
            ("t.csv", "--client", "shp", "--target", "sol"),
            (
                "understudy: client: no column 'shp'; did you mean 'shop'? the table has shop, "
                "size, price, kind, sold\n"
                "understudy: target: no column 'sol'; did you mean 'sold'? the table has shop, "
                "size, price, kind, sold\n"
            ),
        ),
        (
            ("t.csv", *COLUMNS, "--missing", "0.1"),
            (
                "understudy: missing: 0.1 of 3 clients is nobody; from 0.33 to 0.67 some are "
                "missing, and some are there\n"
            ),
        ),
        (
            ("nix.csv", *COLUMNS),
            (
                "understudy: nix.csv: no such file, neither here nor under UNDERSTUDY_DATA nor in "
                "./data; expected a table in a CSV or Parquet file\n"
            ),
        ),
        (
            ("t.csv", "--client", "shop"),
            "understudy: Missing option '--target' (see understudy try --help)\n",
        ),
    ],
)
def test_what_is_wrong_is_a_line_each_and_nothing_runs(arguments, err, command, tmp_path):
    said = command("try", *arguments)
    assert (said.code, said.out, said.err) == (2, "", err)
    assert not (tmp_path / "runs" / "understudy.sqlite").exists()


@pytest.mark.process
def test_a_small_table_is_tried(command, tmp_path):
    small = ("--rounds", "2", "--seeds", "2", "--missing", "0.4", "--method", "stale")
    said = command("try", "t.csv", *COLUMNS, *small)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    for question in (
        "What do I lose when clients are missing?",
        "Which clients lose most?",
        "Which method recovers it?",
        "What would it cost on the server?",
        "What to bear in mind",
    ):
        assert question in lines
    assert lines[-4:] == [
        "  answer   runs/try-t/answer.html",
        "  report   runs/try-t/report.html",
        "  study    runs/try-t/study.toml",
        "  program  runs/try-t/repeat.py",
    ]
    for line in lines[-4:]:
        assert (tmp_path / line.split()[1]).is_file()
    again = command("try", "t.csv", *COLUMNS, *small)
    assert (again.code, again.out) == (0, said.out)
    assert "[" not in again.err  # nothing was run
