"""Image sets from files, laid out as torchvision does; nothing is downloaded."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.simulation.data.dataset import Dataset
from understudy.simulation.data.digits import digits
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.fedgs_synthetic import fedgs_synthetic
from understudy.simulation.data.formats import (
    Bytes,
    n_svhn_images,
    read_cifar_batch,
    read_idx,
    read_svhn,
)
from understudy.simulation.data.synthetic import synthetic

Normalise = bool | tuple[float | tuple[float, ...], float | tuple[float, ...]]

# mean and standard deviation of each channel over the published training set, in [0, 1]
MNIST_STATISTICS = ((0.1307,), (0.3081,))
FASHION_MNIST_STATISTICS = ((0.2860,), (0.3530,))
CIFAR10_STATISTICS = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
SVHN_STATISTICS = ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))

DEBIAN_FASHION_MNIST = "/usr/share/datasets/fashion-mnist"


def mnist(root: str | Path | None = None, *, normalise: Normalise = True) -> Dataset:
    """MNIST: 60,000 + 10,000 handwritten digits of 28×28.

    Parameters
    ----------
    root : path, optional
        Where ``MNIST/raw/train-images-idx3-ubyte.gz`` and its three companions are (compressed or
        not), or the folder with the files themselves; by default the folder in the environment
        variable ``UNDERSTUDY_DATA``, then ``./data``.
    normalise : bool, or (mean, std)
        True: each channel with mean 0 and standard deviation 1 over the published training set, as
        most published code has it. False: in [0, 1]. Or one's own numbers, for values in [0, 1].

    References
    ----------
    LeCun, Cortes & Burges, The MNIST database of handwritten digits.
    """
    return _idx("mnist", root, normalise, MNIST_STATISTICS)


def fashion_mnist(root: str | Path | None = None, *, normalise: Normalise = True) -> Dataset:
    """Fashion-MNIST: 60,000 + 10,000 articles of clothing of 28×28.

    Parameters
    ----------
    root : path, optional
        As in `mnist`, with ``FashionMNIST/raw``; the folder of Debian's package
        dataset-fashion-mnist is found too.
    normalise : bool, or (mean, std)
        As in `mnist`.

    References
    ----------
    Xiao, Rasul & Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
    Algorithms, 2017.
    """
    return _idx("fashion_mnist", root, normalise, FASHION_MNIST_STATISTICS)


def cifar10(root: str | Path | None = None, *, normalise: Normalise = True) -> Dataset:
    """CIFAR-10: 50,000 + 10,000 photographs of ten things, 3×32×32.

    Parameters
    ----------
    root : path, optional
        As in `mnist`, with ``cifar-10-batches-py/data_batch_1`` and its companions.
    normalise : bool, or (mean, std)
        As in `mnist`.

    Notes
    -----
    The files are pickles; they are read without running anything that is in them.

    References
    ----------
    Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """
    batches = [read_cifar_batch(path) for path in located("cifar10", root)]
    return _dataset("cifar10", batches, 5, normalise, CIFAR10_STATISTICS)


def svhn(root: str | Path | None = None, *, normalise: Normalise = True) -> Dataset:
    """SVHN: 73,257 + 26,032 house numbers, cropped to one digit each, 3×32×32.

    Parameters
    ----------
    root : path, optional
        As in `mnist`, with ``train_32x32.mat`` and ``test_32x32.mat``, which may be in a folder
        ``SVHN``, ``svhn`` or ``svhn-subset``. Files with fewer images than published are read too.
    normalise : bool, or (mean, std)
        As in `mnist`.

    References
    ----------
    Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011. For
    use that is not commercial.
    """
    batches = [read_svhn(path) for path in located("svhn", root)]
    return _dataset("svhn", batches, 1, normalise, SVHN_STATISTICS)


DATASETS: dict[str, Callable[..., Dataset | Federation]] = {
    "digits": digits,
    "synthetic": synthetic,
    "fedgs_synthetic": fedgs_synthetic,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "svhn": svhn,
}


def checked_normalise(name: str, source: Callable[..., Any], given: Any) -> Normalise:
    """How the images of a data set are to be normalised; ValueError where it cannot be so."""
    if "normalise" not in inspect.signature(source).parameters:
        raise ValueError(f"normalise: {name!r} cannot be normalised otherwise")
    if isinstance(given, bool):
        return given
    expected = "expected true, false or (mean, std), each a number or one for each channel"
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ValueError(f"normalise: {expected}, got {given!r}")
    mean, std = (tuple(each) if isinstance(each, Sequence) else each for each in given)
    for values, least in ((mean, -math.inf), (std, 0)):
        every = values if isinstance(values, tuple) else (values,)
        if not all(isinstance(one, int | float) and least < one < math.inf for one in every):
            raise ValueError(f"normalise: {expected}, std above 0, got {given!r}")
    return mean, std


PUBLISHED = {"svhn": (73_257, 26_032)}  # images, of sets of which a part may be installed


class MissingData(FileNotFoundError):
    """A file of a data set is not where it was looked for."""


@dataclass(frozen=True)
class Files:
    """The files of a data set, and where they may lie."""

    names: tuple[str, ...]
    folders: tuple[str, ...]  # below a root
    how: str  # to get them
    endings: tuple[str, ...] = ("",)  # of a file's name: the first that is there


_IDX_NAMES = tuple(
    f"{split}-{what}-ubyte"
    for split in ("train", "t10k")
    for what in ("images-idx3", "labels-idx1")
)
FILES = {
    "mnist": Files(
        _IDX_NAMES,
        ("MNIST/raw",),
        "torchvision.datasets.MNIST(root, download=True) fetches it",
        ("", ".gz"),
    ),
    "fashion_mnist": Files(
        _IDX_NAMES,
        ("FashionMNIST/raw", "fashion-mnist", "dataset-fashion-mnist"),
        "torchvision.datasets.FashionMNIST(root, download=True) fetches it, and so does Debian's "
        "package dataset-fashion-mnist",
        ("", ".gz"),
    ),
    "cifar10": Files(
        (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
        ("cifar-10-batches-py",),
        "torchvision.datasets.CIFAR10(root, download=True) fetches it",
    ),
    "svhn": Files(
        ("train_32x32.mat", "test_32x32.mat"),
        ("SVHN", "svhn", "svhn-subset", "."),
        "torchvision.datasets.SVHN(root, split, download=True) fetches it, for each split",
    ),
}


def _idx(
    name: str,
    root: str | Path | None,
    normalise: Normalise,
    statistics: tuple[tuple[float, ...], tuple[float, ...]],
) -> Dataset:
    paths = located(name, root)
    arrays = [read_idx(path) for path in paths]
    for images, labels, path in zip(arrays[::2], arrays[1::2], paths[::2], strict=True):
        if images.ndim != 3 or labels.shape != (len(images),):
            raise ValueError(
                f"{path}: expected images and as many labels, found shapes {images.shape} and "
                f"{labels.shape}"
            )
    batches = [(arrays[0][:, None], arrays[1]), (arrays[2][:, None], arrays[3])]
    return _dataset(name, batches, 1, normalise, statistics)


def _dataset(
    name: str,
    batches: list[tuple[Bytes, Bytes]],
    n_train_batches: int,
    normalise: Normalise,
    statistics: tuple[tuple[float, ...], tuple[float, ...]],
) -> Dataset:
    n_train = sum(len(labels) for _, labels in batches[:n_train_batches])
    stored = np.concatenate([images for images, _ in batches])
    y = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    mean: Any = None
    std: Any = None
    if normalise is True:
        mean, std = statistics
    elif normalise is not False:
        n_channels = stored.shape[1]
        mean, std = (
            (given,) * n_channels if isinstance(given, (int, float)) else tuple(given)
            for given in normalise
        )
    return Dataset(
        name,
        torch.from_numpy(stored),
        torch.from_numpy(y),
        np.arange(n_train, len(y)),
        mean=mean,
        std=std,
    )


def located(name: str, root: str | Path | None = None) -> list[Path]:
    """All files of a data set, from the first folder that has any of them; none is opened."""
    files = FILES[name]
    elsewhere = [DEBIAN_FASHION_MNIST] if name == "fashion_mnist" else []
    looked: list[Path] = []
    for folder in _folders(files.folders, root, elsewhere):
        found = [_existing(folder / file, files.endings) for file in files.names]
        missing = [file for file, path in zip(files.names, found, strict=True) if path is None]
        if not missing:
            return [path for path in found if path is not None]
        if len(missing) < len(found):
            words = " or ".join(missing[0] + ending for ending in files.endings)
            raise MissingData(f"{name}: {folder} lacks {words}; {files.how}")
        looked.append(folder)
    words = " or ".join(files.names[0] + ending for ending in files.endings)
    places = ", ".join(str(folder) for folder in looked)
    where = "" if root is not None else " (root=… or UNDERSTUDY_DATA names another place)"
    raise MissingData(f"{name}: no {words} in {places}{where}; {files.how}")


def subset(name: str, root: str | Path | None = None) -> str:
    """What to tell where the files of a data set hold only a part of what was published.

    Empty where they hold all, or where sets of that name come whole only.
    """
    if name not in PUBLISHED:
        return ""
    found = [n_svhn_images(path) for path in located(name, root)]
    if found == list(PUBLISHED[name]):
        return ""
    counts, published = (" + ".join(f"{n:,}" for n in of) for of in (found, PUBLISHED[name]))
    return f"a subset: {counts} of {published} images"


def _folders(
    folders: tuple[str, ...], root: str | Path | None, elsewhere: list[str]
) -> Iterator[Path]:
    if root is not None:
        # named for this set, so it may also be the very folder
        yield from (Path(root) / folder for folder in [*folders, "."])
        return
    roots = [os.environ.get("UNDERSTUDY_DATA"), "data"]
    yield from (Path(place) / folder for place in roots if place for folder in folders)
    yield from map(Path, elsewhere)


def _existing(path: Path, endings: tuple[str, ...]) -> Path | None:
    candidates = (path.with_name(path.name + ending) for ending in endings)
    return next((candidate for candidate in candidates if candidate.is_file()), None)
