"""Tables, to the character."""

import csv
import io
import re
from html import unescape

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from understudy.studies.statistics import tables
from understudy.studies.statistics.comparison import Comparison, compare
from understudy.studies.statistics.comparison_table import table_of_comparison
from understudy.studies.statistics.text_table import (
    TextTable,
    decimals_for,
    label_word,
    number,
    p_word,
    plain,
    table_of_frame,
)

NAN = float("nan")


def comparison(
    seeds: int = 5, metric: str = "accuracy_last10", **changes: list[float]
) -> Comparison:
    """`base` at 50 % and 60 % by mode; `a` above it by 1, 2, 3, … points; `full` at 90 %.

    But for a millionth: differences that are all the same have no t-test.
    """
    rows = []
    for strategy, modes in (("full", [None]), ("base", [0.3, 0.7]), ("a", [0.3, 0.7])):
        for mode in modes:
            for seed in range(seeds):
                value = 0.9 + 1e-6 * seed if mode is None else 0.5 if mode == 0.3 else 0.6
                value += 0.01 * (seed + 1) if strategy == "a" else 0
                value = changes[strategy][seed] if strategy in changes else value
                came = 20.0 if mode is None else 6.25
                row = {"strategy": strategy, "availability": "fixed", "alpha": mode, "seed": seed}
                rows.append({**row, "participants": came, metric: value})
    return compare(pd.DataFrame(rows), metric, "base")


MARKDOWN = """\
| alpha | strategy | participants per round | accuracy, mean of last 10, % | minus base, points | p (t-test) | seeds |
| ----- | -------- | ---------------------: | ---------------------------: | -----------------: | ---------: | ----: |
| 0.3   | full     |                   20.0 |                 90.00 ± 0.00 |      +40.00 ± 0.00 |     <0.001 |     5 |
| 0.3   | base     |                    6.2 |                 50.00 ± 0.00 |                  – |          – |     5 |
| 0.3   | a        |                    6.2 |                 53.00 ± 1.96 |       +3.00 ± 1.96 |      0.026 |     5 |
| 0.7   | full     |                   20.0 |                 90.00 ± 0.00 |      +30.00 ± 0.00 |     <0.001 |     5 |
| 0.7   | base     |                    6.2 |                 60.00 ± 0.00 |                  – |          – |     5 |
| 0.7   | a        |                    6.2 |                 63.00 ± 1.96 |       +3.00 ± 1.96 |      0.026 |     5 |

Accuracy: mean of the last 10 evaluated rounds. ±: half a 95 % interval over seeds. Differences are taken seed by seed. p: two-sided, by Holm for 4 comparisons. Wilcoxon: too few seeds, it takes 8.
"""  # noqa: E501

LATEX = r"""% needs \usepackage{booktabs}
\begin{table}[htbp]
\centering
\caption{Accuracy (mean of last 10) in \%, mean over 5 seeds.}
\label{tab:accuracy_last10}
\begin{tabular}{@{}lrrrrr@{}}
\toprule
 & participants & accuracy, mean & minus base, &  &  \\
strategy & per round & of last 10, \% & points & p (t-test) & seeds \\
\midrule
\multicolumn{6}{@{}l@{}}{alpha 0.3} \\
full & 20.0 & \textbf{\boldmath 90.00 $\pm$ 0.00} & +40.00 $\pm$ 0.00 & $<$0.001 & 5 \\
base & 6.2 & 50.00 $\pm$ 0.00 & -- & -- & 5 \\
a & 6.2 & 53.00 $\pm$ 1.96 & +3.00 $\pm$ 1.96 & 0.026 & 5 \\
\addlinespace
\multicolumn{6}{@{}l@{}}{alpha 0.7} \\
full & 20.0 & \textbf{\boldmath 90.00 $\pm$ 0.00} & +30.00 $\pm$ 0.00 & $<$0.001 & 5 \\
base & 6.2 & 60.00 $\pm$ 0.00 & -- & -- & 5 \\
a & 6.2 & 63.00 $\pm$ 1.96 & +3.00 $\pm$ 1.96 & 0.026 & 5 \\
\bottomrule
\end{tabular}

\smallskip
\begin{minipage}{\linewidth}\footnotesize
Accuracy: mean of the last 10 evaluated rounds.
$\pm$: half a 95 \% interval over seeds.
Differences are taken seed by seed.
p: two-sided, by Holm for 4 comparisons.
Wilcoxon: too few seeds, it takes 8.
Bold: the best mean, and those not shown to differ from it (t-test, Holm, p at least 0.05).
\end{minipage}
\end{table}
"""

TEXT = """\
alpha 0.3
                accuracy, mean    minus base,       p
strategy  came   of last 10, %         points  t-test  seeds
────────────────────────────────────────────────────────────
full      20.0    90.00 ± 0.00  +40.00 ± 0.00  <0.001      5
base       6.2    50.00 ± 0.00              –       –      5
a          6.2    53.00 ± 1.96   +3.00 ± 1.96   0.026      5

alpha 0.7
                accuracy, mean    minus base,       p
strategy  came   of last 10, %         points  t-test  seeds
────────────────────────────────────────────────────────────
full      20.0    90.00 ± 0.00  +30.00 ± 0.00  <0.001      5
base       6.2    60.00 ± 0.00              –       –      5
a          6.2    63.00 ± 1.96   +3.00 ± 1.96   0.026      5

came: participants per round. Accuracy: mean of the last 10 evaluated rounds. ±:
half a 95 % interval over seeds. Differences are taken seed by seed. p:
two-sided, by Holm for 4 comparisons. Wilcoxon: too few seeds, it takes 8.
"""


def test_markdown() -> None:
    """p of `a` is 1 − √(9/11) · 12/11 = 0.01324 in both groups, the larger two of four: × 2."""
    assert comparison().to_markdown() == MARKDOWN


def test_latex() -> None:
    assert comparison().to_latex() == LATEX


def bold(found: Comparison) -> list[str]:
    rows = [line for line in found.to_latex().splitlines() if r"\textbf" in line]
    return [line.partition(" &")[0] for line in rows]


def test_latex_shows_the_best_and_those_within_noise_in_bold() -> None:
    """`near` is above the best as often as below it, `far` is not; `all` is a reference."""
    noise = [0.02, -0.02, 0.01, -0.012, 0.0]
    levels = {"best": (0.8, 0.0), "near": (0.799, 1.0), "far": (0.6, 0.1), "all": (0.9, 0.0)}
    rows = [
        {"strategy": name, "availability": None if name == "all" else "half", "seed": seed,
         "accuracy_tail": level + share * noise[seed], "loss_last": 1 - level - share * noise[seed]}
        for name, (level, share) in levels.items()
        for seed in range(5)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame.attrs = {"labels": ["strategy", "availability"], "study": "a_study"}
    found = compare(frame)
    assert bold(found) == ["best", "near"]
    assert bold(compare(frame, "loss_last")) == ["best", "near"]  # lower is better
    text = found.to_latex()
    assert r"\caption{Accuracy in \% of the study a\_study, mean over 5 seeds.}" in text
    assert r"\label{tab:a_study}" in text
    assert "Bold: the best mean, of those with the same availability, and those not shown" in text
    assert text.index(r"\end{tabular}") < text.index("Bold:") < text.index(r"\end{table}")
    own = found.to_latex("50 % & more", "tab:}x%")
    assert r"\caption{50 \% \& more}" in own
    assert r"\label{tab:-x-}" in own
    few = compare(frame[frame["seed"] < 4])
    assert bold(few) == []
    assert "Nothing is bold: to tell the best from others takes 5 seeds." in few.to_latex()
    assert "old" not in compare(frame[frame["strategy"] == "far"]).to_latex().replace(r"\boldm", "")


def test_latex_reads_no_label_as_an_option_of_the_row_before() -> None:
    table = TextTable(("name",), (("[3cm] x",), ("*",)))
    assert "{}[3cm] x \\\\\n{}* \\\\\n" in tables.latex(table)


def test_latex_knows_the_signs_of_labels() -> None:
    table = TextTable(("Δ, Λ, ι, µ",), (("a|b → ∞",), ("x ≠ y ≈ z",)))
    body = tables.latex(table).split("\\toprule\n")[1].split("\n\\bottomrule")[0]
    assert body.splitlines() == [
        r"$\Delta$, $\Lambda$, $\iota$, $\mu$ \\",
        r"\midrule",
        r"a\textbar{}b $\to$ $\infty$ \\",
        r"x $\ne$ y $\approx$ z \\",
    ]


def test_a_row_that_is_the_same_with_every_seed_has_no_interval_of_zeros() -> None:
    values = [0.5, 0.6, 0.7, 0.6, 0.5]
    found = comparison(metric="accuracy_last", full=[0.9] * 5, base=values, a=values)
    table = table_of_comparison(found)
    assert [row[4] for row in table.cells[:3]] == ["+32.00 ± 10.39", "–", "0"]


def test_the_terminal() -> None:
    assert comparison().to_text() == TEXT


def test_a_comparison_is_shown_as_its_table() -> None:
    assert repr(comparison()) == TEXT.rstrip("\n")


HTML = """\
<div class="tex2jax_ignore mathjax_ignore">
<table>
<thead>
<tr><th style="text-align: left">alpha</th><th style="text-align: left">strategy</th>\
<th style="text-align: right">participants per round</th>\
<th style="text-align: right">accuracy, mean of last 10, %</th>\
<th style="text-align: right">minus base, points</th><th style="text-align: right">p (t-test)</th>\
<th style="text-align: right">seeds</th></tr>
</thead>
<tbody>
<tr><td style="text-align: left">0.3</td><td style="text-align: left">full</td>\
<td style="text-align: right">20.0</td><td style="text-align: right">90.00 ± 0.00</td>\
<td style="text-align: right">+40.00 ± 0.00</td><td style="text-align: right">&lt;0.001</td>\
<td style="text-align: right">5</td></tr>
"""


def test_a_notebook_shows_the_same_rows_and_notes() -> None:
    found = comparison()._repr_html_()
    assert found.startswith(HTML)
    words = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", found))).strip()
    cells = re.sub(r"\W+", " ", words).split()
    for line in TEXT.splitlines()[4:7]:
        assert " ".join(re.sub(r"\W+", " ", line).split()) in " ".join(cells)
    assert words.endswith(
        "±: half a 95 % interval over seeds. Differences are taken seed by seed. p: two-sided, by "
        "Holm for 4 comparisons. Wilcoxon: too few seeds, it takes 8."
    )
    assert "too few seeds</td>" not in found


def test_what_a_label_says_is_text_in_html() -> None:
    sheet = TextTable(("<a>", "b"), (("x & y", "</table>"),), frozenset({1}), ('"$1$"',))
    found = tables.html(sheet)
    assert "&lt;a&gt;</th>" in found
    assert "x &amp; y</td>" in found
    assert '<td style="text-align: right">&lt;/table&gt;</td>' in found
    assert "<p>&quot;$1$&quot;</p>" in found


def test_nothing_to_compare_is_shown_too() -> None:
    frame = pd.DataFrame({"strategy": ["a"], "seed": [0], "status": ["failed"], "loss_last": [1.0]})
    shown = compare(frame, "loss_last")
    assert repr(shown) == "<Comparison of loss_last: no cell is done (of 1)>"
    assert "<tbody>\n\n</tbody>" in shown._repr_html_()
    unmeasured = frame.drop(columns="loss_last")  # all cells failed before the first evaluation
    assert repr(compare(unmeasured)) == "<Comparison of accuracy_tail: no cell is done (of 1)>"
    with pytest.raises(ValueError, match="metric: expected one of"):
        compare(unmeasured, "loss_last")


def test_csv_keeps_every_bit() -> None:
    found = comparison()
    text = found.to_csv()
    lines = text.splitlines()
    assert lines[0] == (
        "availability,alpha,strategy,participants,seeds,mean,half,difference,difference_half,pairs,"
        "p_t,p_t_holm,p_wilcoxon,p_wilcoxon_holm,better"
    )
    assert lines[2].startswith("fixed,0.3,base,6.25,5,0.5,0.0,,,0,")
    read = list(csv.DictReader(io.StringIO(text)))
    for name in ("mean", "difference_half", "p_t_holm"):
        numbers = [float(row[name] or NAN) for row in read]
        assert numbers == pytest.approx(found.rows[name].tolist(), rel=0, abs=0, nan_ok=True)


def test_two_seeds_have_no_interval_and_no_test() -> None:
    assert (
        comparison(seeds=2).to_text()
        == """\
alpha 0.3
                accuracy, mean  minus base,
strategy  came   of last 10, %       points  seeds
──────────────────────────────────────────────────
full      20.0           90.00       +40.00      2
base       6.2           50.00            –      2
a          6.2           51.50        +1.50      2

alpha 0.7
                accuracy, mean  minus base,
strategy  came   of last 10, %       points  seeds
──────────────────────────────────────────────────
full      20.0           90.00       +30.00      2
base       6.2           60.00            –      2
a          6.2           61.50        +1.50      2

came: participants per round. Accuracy: mean of the last 10 evaluated rounds. No
intervals: they take 3 seeds. Differences are taken seed by seed. t-test: too
few seeds, it takes 5. Wilcoxon: too few seeds, it takes 8.
"""
    )


def test_eight_seeds_have_both_tests() -> None:
    """`a` is above `base` in all of eight seeds: Wilcoxon's p is 2/256, × 4 as all four are equal.

    Its t is 4.5/√(6/8), p = 0.00127, the larger two of four: × 2.
    """
    lines = comparison(seeds=8).to_text().splitlines()
    assert lines[1:6] == [
        "                accuracy, mean    minus base,       p         p",
        "strategy  came   of last 10, %         points  t-test  Wilcoxon  seeds",
        "──────────────────────────────────────────────────────────────────────",
        "full      20.0    90.00 ± 0.00  +40.00 ± 0.00  <0.001     0.031      8",
        "base       6.2    50.00 ± 0.00              –       –         –      8",
    ]
    assert lines[6] == "a          6.2    54.50 ± 2.05   +4.50 ± 2.05   0.003     0.031      8"


def test_a_target_that_not_all_reach() -> None:
    """`full` − `base`: −20, −29, −38, −34, −25, with mean −29.2 and s² = 202.8/4, so that the half
    width is 2.776445 √(50.7/5) = 8.84. `a` − `base` where both reached it: −10, −18.5, −9.
    """
    found = comparison(
        metric="rounds_to_target",
        full=[10.0, 11.0, 12.0, 11.0, 10.0],
        base=[30.0, 40.0, 50.0, 45.0, 35.0],
        a=[20.0, NAN, 31.5, NAN, 26.0],
    )
    table = table_of_comparison(found)
    assert table.heads[3:] == ("rounds to target, where reached", "reached", "minus base",
                               "p (t-test)", "p (Wilcoxon)", "both reached")  # fmt: skip
    full, base, a = (row[3:] for row in table.cells[:3])
    assert full == ("10.80 ± 1.04", "5 of 5", "−29.20 ± 8.84", "0.002", "too few seeds", "5 of 5")
    assert base == ("40.00 ± 9.82", "5 of 5", "–", "–", "–", "–")
    assert a == ("25.83", "3 of 5", "−12.50", "not all reached it", "too few seeds", "3 of 5")
    lines = found.to_text().splitlines()
    assert lines[7] == "a          6.2          25.83   3 of 5         −12.50  not all   3 of 5"
    notes = " ".join(found.to_text().split())
    assert "Lower is better." in notes
    assert "Differences are taken seed by seed, where both reached the target." in notes
    assert "where not all did, over different seeds, so not compared" in notes
    for page in (found.to_markdown(), found.to_latex(), found._repr_html_()):
        assert ("where reached" in page) is not page.startswith("%")  # broken in LaTeX, below
        assert "3 of 5" in page
    heads = r"""
 &  & rounds to &  &  &  &  \\
 & participants & target, where &  &  &  &  \\
strategy & per round & reached & reached & minus base & p (t-test) & both reached \\
"""
    assert heads in found.to_latex()
    assert max(len(line) for line in lines) <= 80


def test_a_target_that_all_reach() -> None:
    """All means are over the same seeds: the column says so, and they are compared."""
    found = comparison(
        metric="megabytes_to_target", full=[1.0] * 5, base=[3.0] * 5, a=[2.0, 2.5, 2.0, 2.5, 2.0]
    )
    table = table_of_comparison(found)
    assert table.heads[3:] == ("megabytes to target", "reached", "minus base", "p (t-test)",
                               "p (Wilcoxon)")  # fmt: skip
    assert [row[4] for row in table.cells[:3]] == ["5 of 5"] * 3
    assert "different seeds" not in found.to_text()


def test_a_target_that_nobody_reaches() -> None:
    found = comparison(metric="clock_to_target", a=[NAN] * 5)
    never = table_of_comparison(found).cells[2]
    assert never[3:] == ("never", "0 of 5", "–", "not all reached it", "too few seeds", "0 of 5")


def test_a_rival_with_fewer_shared_seeds_says_how_many() -> None:
    found = comparison(base=[0.5, 0.5, 0.5, 0.5, NAN])
    cells = {row[1]: row[-1] for row in table_of_comparison(found).cells}
    assert cells == {"full": "5, 4 paired", "base": "4", "a": "5, 4 paired"}
    assert "Not included, without a value: 2 cells." in found.to_markdown()


def test_other_units() -> None:
    """Variances are printed in points², fluctuations in points, losses with four digits."""
    variance = comparison(metric="client_accuracy_variance", base=[0.0325] * 5)
    assert "variance over clients, points²" in variance.to_markdown()
    assert variance.rows["mean"].tolist()[1] == 0.0325
    assert table_of_comparison(variance).cells[1][3] == "325.00 ± 0.00"
    loss = comparison(metric="loss_best", base=[0.0325] * 5, full=[0.25] * 5, a=[0.01] * 5)
    assert [row[3] for row in table_of_comparison(loss).cells[:3]] == [
        "0.2500 ± 0.0000", "0.0325 ± 0.0000", "0.0100 ± 0.0000",
    ]  # fmt: skip
    assert table_of_comparison(loss).cells[2][4] == "−0.0225 ± 0.0000"


def test_without_a_baseline_nothing_is_subtracted() -> None:
    frame = pd.DataFrame({"strategy": ["a", "b"], "seed": 0, "accuracy_last10": [0.5, 0.625]})
    assert (
        compare(frame).to_text()
        == """\
                accuracy, mean
strategy  came   of last 10, %  seeds
─────────────────────────────────────
a            –           50.00      1
b            –           62.50      1

came: participants per round. Accuracy: mean of the last 10 evaluated rounds. No
intervals: they take 3 seeds.
"""
    )


LONG = "a strategy whose label goes on and on, with _underscores_ | pipes, 50 % & $ [red]"


def test_long_labels_stay_within_80_columns_and_are_escaped() -> None:
    rows = [
        {"strategy": name, "seed": seed, "accuracy_last10": 0.01 * seed + 0.5 * place}
        for place, name in enumerate((LONG, "the baseline, which has a long name as well"))
        for seed in range(9)
    ]
    found = compare(pd.DataFrame(rows), baseline="the baseline, which has a long name as well")
    text = found.to_text()
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "[red]" in text
    assert "−50.00 ± 0.00" in text  # numbers stay whole
    assert r"with \_underscores\_ \| pipes, 50 % & \$ \[red\]" in found.to_markdown()
    assert r"with \_underscores\_ \textbar{} pipes, 50 \% \& \$ [red]" in found.to_latex()


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_label_keeps_its_row(labels: list[str]) -> None:
    table = table_of_frame(pd.DataFrame({"name": labels, "value": range(len(labels))}))
    lines = [line for line in tables.markdown(table).split("\n") if line]
    assert len(lines) == len(labels) + 2
    bars = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in lines]
    assert bars == [3] * len(lines)
    body = tables.latex(table).split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    assert len(body.split("\n")) == len(labels)


def test_a_plain_frame() -> None:
    frame = pd.DataFrame(
        {
            "σ²": ["P", "F"],
            "value": [0.123456, -1234567.0],
            "n": pd.array([3, None], dtype="Int64"),
            "holds": [True, False],
        }
    )
    table = table_of_frame(frame, ["A note."])
    assert (
        tables.markdown(table)
        == """\
| σ²  |      value |   n | holds |
| --- | ---------: | --: | ----- |
| P   |     0.1235 |   3 | yes   |
| F   | −1.235e+06 |   – | no    |

A note.
"""
    )
    assert tables.latex(table).splitlines()[3:7] == [
        r"$\sigma$$^2$ & value & n & holds \\",
        r"\midrule",
        r"P & 0.1235 & 3 & yes \\",
        r"F & $-$1.235e+06 & -- & no \\",
    ]
    assert (
        tables.text(tables.rich_table(table))
        == """\
σ²       value  n  holds
────────────────────────
P       0.1235  3  yes
F   −1.235e+06  –  no

A note.
"""
    )
    assert tables.csv(frame) == "σ²,value,n,holds\nP,0.123456,3,True\nF,-1234567.0,,False\n"


def test_a_wide_frame_stays_within_80_columns() -> None:
    frame = pd.DataFrame({f"a rather long head {place}": [place * 1e5] for place in range(12)})
    text = tables.text(tables.rich_table(table_of_frame(frame)))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert tables.markdown(TextTable((), ())) == "|  |\n|  |\n"


@pytest.mark.parametrize(
    ("value", "decimals", "signed", "expected"),
    [
        (-0.004, 2, True, "0.00"),
        (-0.006, 2, True, "−0.01"),
        (0.0, 2, True, "0.00"),
        (12.345, 1, True, "+12.3"),
        (-1234.5, 0, False, "−1234"),
        (0.0000123, None, False, "1.23e−05"),
    ],
)
def test_numbers(value: float, decimals: int | None, signed: bool, expected: str) -> None:
    assert number(value, decimals, signed=signed) == expected


def test_digits_by_size() -> None:
    assert decimals_for([0.5, 1.25]) == 3
    assert decimals_for([123.0, NAN]) == 1
    assert decimals_for([12345.0]) == 0
    assert decimals_for([0.002]) == 6
    assert decimals_for([1e-6]) is None
    assert decimals_for([0.0]) == 1
    assert decimals_for([]) == 1


def test_words() -> None:
    assert [p_word(p) for p in (0.0, 0.00099, 0.001, 0.0496, 1.0)] == [
        "<0.001", "<0.001", "0.001", "0.050", "1.000",
    ]  # fmt: skip
    assert [plain(value) for value in (None, NAN, pd.NA, True, -3, "x")] == [
        "–", "–", "–", "yes", "−3", "x",
    ]  # fmt: skip
    assert [label_word(value) for value in (0.30000000000000004, 10.0, -0.5, None)] == [
        "0.30000000000000004", "10", "−0.5", "–",
    ]  # fmt: skip


def test_cells_of_several_engines_have_a_footnote() -> None:
    frame = pd.DataFrame(
        {
            "strategy": ["fdms"] * 3,
            "seed": [0, 1, 2],
            "status": ["done"] * 3,
            "engine": ["kernels 1", "loop", "kernels 1"],
            "accuracy_best": [0.5, 0.6, 0.7],
        }
    )
    told = "Cells were trained by several engines (2 by kernels 1, 1 by loop)"
    assert told in " ".join(compare(frame, "accuracy_best").to_markdown().split())
    assert "engines" not in compare(frame.assign(engine="loop"), "accuracy_best").to_markdown()
