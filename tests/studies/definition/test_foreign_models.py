"""A runs folder may be somebody else's: what it names as its model is not run unless trusted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.crafted import flipped
from understudy import Local, fedavg
from understudy.memory.tensor_stream import CheckpointError
from understudy.simulation import clustered_digits
from understudy.simulation.data.models import build
from understudy.studies import Study, cell_module
from understudy.studies.execution.runner import run_study
from understudy.studies.store.model_files import description, is_verified


def one_cell(folder: Path, model: Any) -> Study:
    study = Study(
        name="one",
        data=clustered_digits(n_clients=4, n_clusters=2, per_client=8),
        model=model,
        strategies={"fedavg": fedavg(local=Local(lr=0.1))},
        rounds=1,
    )
    assert run_study(study, folder, on="here").done
    return study


def crafted(folder: Path, key: str, **entries: Any) -> None:
    """Change what the folder says of its model, with the checksum that fits."""
    path = folder / "cells" / key / "model.json"
    about = {**json.loads(path.read_text()), **entries}
    path.write_bytes(description({name: about[name] for name in about if name != "crc32"}))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("foreign")
    study = one_cell(folder, {"name": "mlp", "hidden": 4})
    key = study.cells()[0].key
    return folder, key, (folder / "cells" / key / "model.json").read_text()


@pytest.fixture
def cell(played: tuple[Path, str, str]) -> tuple[Path, str]:
    folder, key, text = played
    (folder / "cells" / key / "model.json").write_text(text)
    return folder, key


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("name", ["subprocess:getoutput", "os:system", "builtins:exec"])
def test_a_command_is_never_run_as_a_model(
    cell: tuple[Path, str], name: str, trust: bool, tmp_path: Path
) -> None:
    folder, key = cell
    command = f"touch {tmp_path}/ran"
    crafted(folder, key, model={"name": name, "cmd": command, "command": command})
    with pytest.raises((TypeError, ValueError), match=name):
        cell_module(folder, key, trust=trust)
    assert not (tmp_path / "ran").exists()


def test_a_model_of_a_module_needs_trust_or_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_net.py").write_text(
        "from torch import nn\n\n"
        "def small():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    study = one_cell(tmp_path, "my_net:small")
    (mine,) = study.cells()
    monkeypatch.delitem(sys.modules, "my_net", raising=False)
    with pytest.raises(ValueError, match=r"trust=True"):
        cell_module(tmp_path, mine.key)
    assert "my_net" not in sys.modules  # not even imported
    trusted = cell_module(tmp_path, mine.key, trust=True)
    own = cell_module(tmp_path, mine)
    for name, entry in own.state_dict().items():
        assert torch.equal(trusted.state_dict()[name], entry)


@pytest.mark.parametrize(
    "entries",
    [
        {"model": "nothing"},
        {"model": ["mlp"]},
        {"model": {"name": 3}},
        {"model": {"name": "mlp", "hidden": 10**15}},  # 64 petabytes, were it built
        {"model": {"name": "mlp", "hidden": "x"}},
        {"model": {"name": "mlp", "hidden": -1}},
        {"model": {"name": "mlp", "no_such": 1}},
        {"model": "lenet5"},  # takes images
        {"input_shape": [2**40]},
        {"input_shape": "8"},
        {"input_shape": [10**400]},
        {"n_outputs": 11},
        {"n_outputs": None},
        {"seed": "zero"},
    ],
)
def test_a_crafted_description_is_one_error_that_names_the_file(
    cell: tuple[Path, str], entries: dict[str, Any]
) -> None:
    folder, key = cell
    crafted(folder, key, **entries)
    with pytest.raises(CheckpointError, match=f"{key}/model"):
        cell_module(folder, key, trust=True)


def test_every_bit_of_a_description_is_guarded(cell: tuple[Path, str]) -> None:
    folder, key = cell
    path = folder / "cells" / key / "model.json"
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        path.write_bytes(flipped(content, bit))
        with pytest.raises(CheckpointError, match=rf"{key}/model\.json: (damaged|cannot be read)"):
            is_verified(path.parent)


@pytest.mark.parametrize("fits", [True, False])
def test_a_description_whose_checksum_was_of_the_weights_is_read(
    cell: tuple[Path, str], fits: bool
) -> None:
    """As it was written before the description had a checksum of its own."""
    folder, key = cell
    path = folder / "cells" / key / "model.json"
    about = json.loads(path.read_text())
    about["crc32"] = about.pop("weights_crc32") ^ (not fits)
    path.write_text(json.dumps(about, indent=1) + "\n")
    if fits:
        assert is_verified(path.parent)
        assert isinstance(cell_module(folder, key), torch.nn.Module)
    else:
        with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged"):
            cell_module(folder, key)


@pytest.mark.parametrize("text", ["", "[]", "3", '"x"', "{", "[" * 100_000, "\x00"])
def test_a_description_that_is_none_is_one_error(cell: tuple[Path, str], text: str) -> None:
    folder, key = cell
    (folder / "cells" / key / "model.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"model\.json"):
        cell_module(folder, key)


@pytest.mark.parametrize("key", ["../other", "..", "", "0" * 15, "0" * 15 + "G", 3])
def test_a_key_is_a_key_and_no_way_out_of_the_folder(tmp_path: Path, key: Any) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        cell_module(tmp_path, key)


def test_damaged_weights_are_one_error(cell: tuple[Path, str]) -> None:
    folder, key = cell
    path = folder / "cells" / key / "model.safetensors"
    whole = path.read_bytes()
    try:
        for damaged in (b"", whole[:20], b"\xff" * 64, whole[:-4]):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=r"model\.safetensors"):
                cell_module(folder, key)
    finally:
        path.write_bytes(whole)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)


A_MODULE, A_STRING = Net(), "text"


def test_what_a_place_stands_for_is_looked_at_before_it_is_called() -> None:
    for name in ("Net", "A_MODULE"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "my_models", _module(name))
            assert isinstance(build(f"my_models:{name}", (3,), 2, 0), Net)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "my_models", _module("A_STRING"))
        with pytest.raises(TypeError, match="'my_models:A_STRING'"):
            build("my_models:A_STRING", (3,), 2, 0)
    with pytest.raises(TypeError, match="collections:OrderedDict"):
        build("collections:OrderedDict", (3,), 2, 0)


def _module(name: str) -> Any:
    import types

    made = types.ModuleType("my_models")
    setattr(made, name, globals()[name])
    return made
