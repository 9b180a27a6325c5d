"""The trained model of a finished cell: written once, read by anyone."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch

from understudy.core.describe import describe
from understudy.core.files import write_file
from understudy.core.json_lines import is_damaged, is_sealed, sealed
from understudy.core.shown import shown
from understudy.memory.tensor_stream import PIECE, CheckpointError
from understudy.studies.definition.cell import Cell
from understudy.studies.definition.names import KEY_DIGITS, is_key

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
    # copies, because tensors that share memory are refused
    weights = {name: entry.cpu().contiguous().clone() for name, entry in _entries(module).items()}
    content = safetensors.torch.save(weights)
    about = {
        "key": key,
        "labels": dict(labels),
        "class": f"{type(module).__module__}:{type(module).__qualname__}",
        "model": describe(task.model),
        "input_shape": list(federation.x.shape[1:]),
        "n_outputs": federation.n_outputs,
        "seed": task.seed,
        "rounds": task.rounds,
        "weights_crc32": zlib.crc32(content),  # of the other file
    }
    return {ABOUT: description(about), WEIGHTS: content}


def description(about: Mapping[str, Any]) -> bytes:
    """The file beside the weights; its own checksum covers it, and with it that of the weights."""
    text = json.dumps(about, indent=1).removesuffix("\n}") + "}"
    return sealed(text.encode()) + b"\n"


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write one file after the other: where the last one is, all are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_file(folder / name, content)


def has_model(runs: str | Path, key: str) -> bool:
    """Whether the trained model of a finished cell is where it was written."""
    folder = cells_folder(runs) / key
    return all((folder / name).is_file() for name in (WEIGHTS, ABOUT))


def is_verified(folder: Path) -> bool:
    """Whether the weights in a cell's folder have a checksum; one that is wrong is an error.

    Models that were written before there were checksums are read, and are "not verified". For a
    while the description's ``crc32`` was that of the weights, and nothing covered the description.
    """
    about, path = _read_about(folder / ABOUT), folder / WEIGHTS
    expected = about.get("weights_crc32", about.get("crc32"))
    if expected is None:
        return False
    found = 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found = zlib.crc32(piece, found)
    if expected != found:
        raise CheckpointError(
            f"{path}: damaged: its contents do not fit the checksum in {ABOUT} "
            f"(expected {shown(expected)}, got {found})"
        )
    return True


def cell_module(runs: str | Path, cell: str | Cell, *, trust: bool = False) -> nn.Module:
    """The trained module of a finished cell.

    Parameters
    ----------
    runs : path
        The runs folder.
    cell : str or Cell
        The cell, or its key. By the key alone only built-in models are built (``"mlp"``): what to
        build is then read from the folder, which may be somebody else's. A model that the study
        gave as an object needs the cell.
    trust : bool
        Also import ``module:Name``, where a file of the folder names one. This runs that module's
        code: only for folders, and modules, that you trust. With the cell it is not needed, since
        the model is then the study's own.
    """
    key = cell.key if isinstance(cell, Cell) else cell
    if not is_key(key):
        raise ValueError(f"cell: expected a key of {KEY_DIGITS} hexadecimal digits, got {key!r}")
    folder = cells_folder(runs) / key
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder}: no trained model here (no file {WEIGHTS})")
    about = _read_about(folder / ABOUT)
    model = cell.task.model if isinstance(cell, Cell) else _named_model(about, folder, trust)
    is_verified(folder)
    try:
        weights = safetensors.torch.load_file(folder / WEIGHTS)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{folder / WEIGHTS}: cannot be read ({error})") from error
    module = _built(model, about, weights, folder)
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder / WEIGHTS}: does not fit its model ({error})") from error
    return module


def _read_about(path: Path) -> dict[str, Any]:
    """What a file says of its model, each entry of the type that it was written with."""
    try:
        content = path.read_bytes()
        about = json.loads(content.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    is_new = isinstance(about, dict) and "weights_crc32" in about
    if is_damaged(content.removesuffix(b"\n")) or (is_new and not is_sealed(content)):
        raise CheckpointError(f"{path}: damaged: it does not fit its checksum")
    if not isinstance(about, dict) or "model" not in about or not all(map(_is_size, _sized(about))):
        raise CheckpointError(
            f"{path}: expected an object with a model, and input_shape, n_outputs and seed in "
            "whole numbers"
        )
    return about


def _sized(about: Mapping[str, Any]) -> list[Any]:
    shape = about.get("input_shape")
    return [
        *(shape if isinstance(shape, list) else [None]),
        about.get("n_outputs"),
        about.get("seed"),
    ]


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _named_model(about: Mapping[str, Any], folder: Path, trust: bool) -> Model:
    """The model that a file names; what would run code from elsewhere is refused."""
    from understudy.simulation.data.models import MODELS

    model = about["model"]
    name = model.get("name") if isinstance(model, dict) else model
    if name is None:
        raise ValueError(
            f"{folder}: its model was given as an object, {about.get('class')}; pass the cell, "
            "which has it, not only the key"
        )
    if not isinstance(name, str) or (":" not in name and name not in MODELS):
        raise CheckpointError(
            f"{folder / ABOUT}: model: expected a name of a built-in model, got {name!r}"
        )
    if ":" in name and not trust:
        raise ValueError(
            f"{folder / ABOUT}: names the model {name!r}, which runs the code of that module; pass "
            "the study's cell instead of the key, or trust=True if you trust both"
        )
    return model  # type: ignore[no-any-return]


def _built(
    model: Model, about: Mapping[str, Any], weights: Mapping[str, Any], folder: Path
) -> nn.Module:
    """The model as it is before its weights are loaded.

    A built-in one is made without storage first: its size is the file's word, and may be anything.
    """
    import torch

    from understudy.simulation.data.models import build

    where = tuple(about["input_shape"]), about["n_outputs"], about["seed"]
    name = model.get("name") if isinstance(model, Mapping) else model
    if not isinstance(name, str) or ":" in name:
        return build(model, *where)
    try:
        with torch.device("meta"):
            expected = _entries(build(model, *where))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{folder / ABOUT}: no such model ({error})") from error
    if _sizes(expected) != _sizes(weights):
        raise CheckpointError(f"{folder / WEIGHTS}: does not hold the weights of {name!r}")
    return build(model, *where)


def _sizes(entries: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: (entry.dtype, *entry.shape) for name, entry in entries.items()}


def _entries(module: nn.Module) -> dict[str, Any]:
    entries: dict[str, Any] = module.state_dict()
    return entries
