"""A data set is one value: whoever needs to know something of it asks there."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.commands import doctor
from understudy.commands.list_parts import listing
from understudy.commands.run_plan import missing_data
from understudy.simulation.data.dataset import Dataset
from understudy.simulation.data.sources import DATASETS, DataSource, Files, source_of
from understudy.studies.definition.estimates import size_of
from understudy.studies.definition.study import Study
from understudy.studies.report.report import write_report

STUDY = """
name = "toys"
rounds = 1
model = "softmax"
strategies = ["fedavg"]
[data]
name = "{name}"
partition = "iid"
n_clients = 4
"""


def toy(root: str = "") -> Dataset:
    """Twenty toys, 1×2×2."""
    stored = torch.arange(80, dtype=torch.uint8).view(20, 1, 2, 2)
    return Dataset("toy", stored, torch.arange(20) % 2, np.arange(16, 20))


TOY = DataSource(
    "toy", toy, shape=(1, 2, 2), n_classes=2, n_train=16, n_test=4, origin="carved",
    credit="The toymaker",
)  # fmt: skip


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS, "toy", TOY)


@pytest.mark.usefixtures("registered")
def test_a_registered_data_set_is_found_by_all(tmp_path: Path) -> None:
    assert "  Twenty toys, 1×2×2." in listing("toy")
    assert "carved" in [found.words for found in doctor.examine(tmp_path) if found.name == "toy"]
    study = Study.read(STUDY.format(name="toy"))
    (cell,) = study.cells()
    assert cell.resolved["data"]["name"] == "toy"
    size = size_of(cell.task)
    assert (size.shape, size.n_outputs, size.sizes, size.n_test) == ((1, 2, 2), 2, (4,) * 4, 4)
    study.run(tmp_path, on="here", progress=False)
    assert "The toymaker" in write_report(tmp_path, "toys").read_text("utf-8")


def test_the_size_is_told_by_the_value_and_not_by_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    unloaded = DataSource("toy", "no.such.module:toy", (1, 2, 2), 2, 16, 4)
    monkeypatch.setitem(DATASETS, "toy", TOY)
    (cell,) = Study.read(STUDY.format(name="toy")).cells()
    monkeypatch.setitem(DATASETS, "toy", unloaded)
    assert size_of(cell.task).sizes == (4,) * 4


@pytest.mark.usefixtures("registered")
def test_its_files_are_asked_for_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(("toys.bin",), ("toybox",), "ask the toymaker")
    monkeypatch.setitem(DATASETS, "toy", DataSource("toy", toy, files=files))
    cells = Study.read(STUDY.format(name="toy")).cells()
    assert missing_data(cells)["toy"].endswith("; ask the toymaker")


def test_others_may_give_a_value_or_what_it_would_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """``module:name`` of either; the value tells the size without loading."""
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "toybox", module)
    assert source_of("toybox:TOY") is TOY
    assert source_of("toybox:toy") == DataSource("toybox:toy", toy)
    for name in ("toybox:TOY", "toybox:toy"):
        (cell,) = Study.read(STUDY.format(name=name)).cells()
        assert cell.resolved["data"]["name"] == name
        assert size_of(cell.task).sizes == (4,) * 4
        assert cell.task.federation().n_clients == 4
