"""Studies and traces as anybody may write them: read, or refused by the error that names the place.

Small in `make test`, with the same examples each time; large in `make test-full`, where Hypothesis
draws anew and prints its seed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy import Population, Trace
from understudy.parts.recordings.two_state import read_two_state
from understudy.studies import Study
from understudy.studies.definition.document import KEYS
from understudy.studies.definition.errors import StudyError

STUDY = """
name = "small"
title = "A study"
rounds = 2
seeds = 2
model = "softmax"
baseline = "full"
[data]
name = "digits"
partition = "clustered"
n_clients = 4
[local]
lr = 0.1
[strategies]
full = { method = "fedavg", availability = "always" }
fdms = "fdms"
[availability]
half = { name = "fixed_dropout", alpha = 0.5 }
[axes]
"local.lr" = [0.1, 0.2]
[scale.quick]
rounds = 1
"""
TRACE = (
    "device,t_s,state\na,0,AVL_TRAIN\nb,1,UN_AVL\na,60,UN_AVL\nb,90.5,AVL_TRAIN\na,900,AVL_TRAIN\n"
)

PIECES = ["[", "]", "{", "}", "=", '"', "'", ",", ".", "\n", "#", "\x00", "\x1b", "é", "\ud7ff",
          "-", "1e999", "nan", "inf", "9" * 40, "true", '"""', "[[x]]", "a.b.c = 1\n",
          "seeds = [1, 1]\n", "x:y", "..", " ", "0x", "1979-05-27"]  # fmt: skip
plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 40), st.sampled_from([2**31, 2**63, 10**30]),
        st.floats(), st.text(max_size=6),
        st.sampled_from(["fdms", "fedavg", "always", "digits", "mlp", "paper", "run", "a:b"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "method", "seed", "lr", "alpha", "label", "value", "a.b"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """The text with a few pieces taken out, doubled, or put in."""
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, len(text)))
        last = min(len(text), first + draw(st.integers(0, 12)))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.just(text[first:last] * 2), st.just("")))
        text = text[:first] + piece + text[last:]
    return text


def read_or_refused(study: Any) -> None:
    """A study, or the one error; both can be shown."""
    refused = ""
    try:
        made = study()
    except StudyError as error:
        refused = str(error) or "nothing said"
    if not refused:
        assert made.cells()
        assert repr(made)
    assert refused != "nothing said"
    assert len(refused) < 5_000


def check_damaged_study(text: str) -> None:
    read_or_refused(lambda: Study.read("\n" + text))


def check_document(changes: dict[str, Any]) -> None:
    base: dict[str, Any] = {
        "name": "small",
        "rounds": 2,
        "model": "softmax",
        "data": {"name": "digits", "partition": "iid", "n_clients": 3},
        "strategies": {"fdms": "fdms"},
    }
    known = {key: value for key, value in {**base, **changes}.items() if value is not None}
    required = {"name", "data", "model", "strategies", "rounds"}
    if required <= set(known):
        read_or_refused(lambda: Study(**known))


def check_damaged_trace(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        refused = ""
        try:
            recording = read_two_state(path)
            state = Trace(path, drop_first_seconds=0).init(Population(5))
        except ValueError as error:
            refused = str(error) or "nothing said"
        if refused:
            assert "trace.csv" in refused
            assert len(refused) < 2_000
            return
        for sessions in recording.sessions:
            times = [time for session in sessions for time in session]
            assert times == sorted(times)
            assert times == [] or 0 <= times[0] <= times[-1] <= recording.end
        drawn = Trace(path, drop_first_seconds=0).draw(state, 3, np.random.default_rng(0))
        assert drawn.shape == (5,)
        assert drawn.dtype == bool


CHECKS = [
    (check_damaged_study, damaged(STUDY), 40, 2_000),
    (check_document, st.dictionaries(st.sampled_from(KEYS), plain, max_size=3), 40, 2_000),
    (check_damaged_trace, damaged(TRACE), 100, 5_000),
]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize(("check", "texts", "few", "many"), CHECKS)
def test_a_few(check: Any, texts: Any, few: int, many: int) -> None:
    settings(max_examples=few, suppress_health_check=SLOW)(given(texts)(check))()


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("check", "texts", "few", "many"), CHECKS)
def test_many(check: Any, texts: Any, few: int, many: int) -> None:
    settings(max_examples=many, suppress_health_check=SLOW)(given(texts)(check))()
