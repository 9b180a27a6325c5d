"""Image sets from files, laid out as torchvision does; nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.simulation.data.dataset import Dataset
from understudy.simulation.data.formats import Bytes, read_cifar_batch, read_idx, read_svhn
from understudy.simulation.data.sources import DATASETS, Normalise


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
    return _idx("mnist", root, normalise)


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
    return _idx("fashion_mnist", root, normalise)


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
    batches = [read_cifar_batch(path) for path in DATASETS["cifar10"].located(root)]
    return _dataset("cifar10", batches, 5, normalise)


def cifar100(
    root: str | Path | None = None, *, normalise: Normalise = True, coarse: bool = False
) -> Dataset:
    """CIFAR-100: 50,000 + 10,000 photographs of a hundred things, 3×32×32.

    Parameters
    ----------
    root : path, optional
        As in `mnist`, with ``cifar-100-python/train`` and ``test``.
    normalise : bool, or (mean, std)
        As in `mnist`.
    coarse : bool
        The 20 superclasses in place of the 100 classes.

    Notes
    -----
    The files are pickles; they are read without running anything that is in them.

    References
    ----------
    Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """
    key, n_classes = ("coarse_labels", 20) if coarse else ("fine_labels", 100)
    paths = DATASETS["cifar100"].located(root)
    batches = [read_cifar_batch(path, key, n_classes) for path in paths]
    return _dataset("cifar100", batches, 1, normalise)


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
    batches = [read_svhn(path) for path in DATASETS["svhn"].located(root)]
    return _dataset("svhn", batches, 1, normalise)


def _idx(name: str, root: str | Path | None, normalise: Normalise) -> Dataset:
    paths = DATASETS[name].located(root)
    arrays = [read_idx(path) for path in paths]
    for images, labels, path in zip(arrays[::2], arrays[1::2], paths[::2], strict=True):
        if images.ndim != 3 or labels.shape != (len(images),):
            raise ValueError(
                f"{path}: expected images and as many labels, found shapes {images.shape} and "
                f"{labels.shape}"
            )
    batches = [(arrays[0][:, None], arrays[1]), (arrays[2][:, None], arrays[3])]
    return _dataset(name, batches, 1, normalise)


def _dataset(
    name: str,
    batches: list[tuple[Bytes, Bytes]],
    n_train_batches: int,
    normalise: Normalise,
) -> Dataset:
    n_train = sum(len(labels) for _, labels in batches[:n_train_batches])
    stored = np.concatenate([images for images, _ in batches])
    y = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    mean: Any = None
    std: Any = None
    if normalise is True:
        mean, std = DATASETS[name].statistics or (None, None)
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
