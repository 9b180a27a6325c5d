"""The trained model of a finished cell: written once, read by whoever wants it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch

from understudy.core.describe import describe
from understudy.core.files import write_file
from understudy.memory.tensor_stream import CheckpointError
from understudy.studies.definition.cell import Cell

if TYPE_CHECKING:
    from torch import nn

    from understudy.simulation.data.federation import Federation
    from understudy.simulation.data.models import Model
    from understudy.studies.definition.cell import Label, Task

WEIGHTS, ABOUT = "model.safetensors", "model.json"


def cells_folder(runs: str | Path) -> Path:
    """Where the cells of a runs folder keep their checkpoints and models."""
    return Path(runs) / "cells"


def model_files(
    module: nn.Module,
    federation: Federation,
    task: Task,
    key: str,
    labels: Mapping[str, Label],
) -> dict[str, bytes]:
    """What is kept of a trained module, by file name; the weights come last."""
    about = {
        "key": key,
        "labels": dict(labels),
        "class": f"{type(module).__module__}:{type(module).__qualname__}",
        "model": describe(task.model),
        "input_shape": list(federation.x.shape[1:]),
        "n_outputs": federation.n_outputs,
        "seed": task.seed,
        "rounds": task.rounds,
    }
    # copies, because tensors that share memory are refused
    weights = {name: entry.cpu().contiguous().clone() for name, entry in _entries(module).items()}
    return {
        ABOUT: (json.dumps(about, indent=1) + "\n").encode(),
        WEIGHTS: safetensors.torch.save(weights),
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write one file after the other: where the last one is, all are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_file(folder / name, content)


def cell_module(runs: str | Path, cell: str | Cell) -> nn.Module:
    """The trained module of a finished cell.

    Parameters
    ----------
    runs : path
        The runs folder.
    cell : str or Cell
        The cell, or its key. By the key alone a model can be built anew that the study gave by its
        name (``"mlp"``, ``"module:Name"``); one that it gave as an object needs the cell.
    """
    key = cell.key if isinstance(cell, Cell) else cell
    folder = cells_folder(runs) / key
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder}: no trained model here ({WEIGHTS} is not there)")
    about = json.loads((folder / ABOUT).read_text())
    module = _built(cell.task.model if isinstance(cell, Cell) else about["model"], about, folder)
    module.load_state_dict(safetensors.torch.load_file(folder / WEIGHTS))
    return module


def _built(model: Model | dict[str, Any], about: Mapping[str, Any], folder: Path) -> nn.Module:
    from understudy.simulation.data.models import build

    if isinstance(model, dict) and "name" not in model:
        raise ValueError(
            f"{folder}: its model was given as an object, {about['class']}; pass the cell, which "
            "has it, not only the key"
        )
    return build(model, tuple(about["input_shape"]), about["n_outputs"], about["seed"])


def _entries(module: nn.Module) -> dict[str, Any]:
    entries: dict[str, Any] = module.state_dict()
    return entries
