"""All data sets by name: one value each, with all that is known of it before it is loaded."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.registry import imported, named
from understudy.simulation.data.formats import n_svhn_images

Normalise = bool | tuple[float | tuple[float, ...], float | tuple[float, ...]]


class MissingData(FileNotFoundError):
    """A file of a data set is not where it was looked for."""


@dataclass(frozen=True)
class Files:
    """The files of a data set, and where they may lie."""

    names: tuple[str, ...]
    folders: tuple[str, ...]  # below a root
    how: str  # to get them
    endings: tuple[str, ...] = ("",)  # of a file's name: the first that is there
    elsewhere: tuple[str, ...] = ()  # folders that are looked into last
    count: Callable[[Path], int] | None = None  # examples in a file, where it may be a part of all
    are_folders: bool = False


@dataclass(frozen=True)
class DataSource:
    """A data set: what loads it, and what is known without loading it.

    Parameters
    ----------
    name : str
        What studies call it.
    load : str or function
        A function that returns a `Dataset`, or a `Federation` where the data come divided; or its
        place, ``module:name``, which is imported when asked for.
    shape : tuple of int, optional
        Of an input. Without it the size of the data is found out by loading them.
    n_classes : int
        C.
    n_train, n_test : int
        Published examples; where `n_test` is 0, a share of the others is held out.
    per_client : tuple of int, optional
        Of data that come divided: the mean number of a client's examples for training,
        validation and testing.
    statistics : tuple, optional
        Mean and standard deviation of each channel over the published training set, in [0, 1].
    files : Files, optional
        What it is read from.
    origin : str
        Where it comes from, if not from files.
    credit : str, optional
        Told in reports.
    contents : str, optional
        The setting that names a user's own file: cells are known by what is in it.
    """

    name: str
    load: Any
    shape: tuple[int, ...] | None = None
    n_classes: int = 0
    n_train: int = 0
    n_test: int = 0
    per_client: tuple[int, int, int] | None = None
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    files: Files | None = None
    origin: str = "part of the package"
    credit: str | None = None
    contents: str | None = None

    @property
    def loader(self) -> Any:
        """What `load` stands for; of other people's it may be a federation itself."""
        return imported(self.load) if isinstance(self.load, str) else self.load

    def located(self, root: str | Path | None = None) -> list[Path]:
        """All its files, from the first folder that has any of them; none is opened."""
        if self.files is None:
            return []
        files, looked = self.files, []
        for folder in _folders(files, root):
            found = [_existing(folder / file, files) for file in files.names]
            missing = [file for file, path in zip(files.names, found, strict=True) if path is None]
            if not missing:
                return [path for path in found if path is not None]
            if len(missing) < len(found):
                words = " or ".join(missing[0] + ending for ending in files.endings)
                raise MissingData(f"{self.name}: {folder} lacks {words}; {files.how}")
            looked.append(folder)
        words = " or ".join(files.names[0] + ending for ending in files.endings)
        places = ", ".join(str(folder) for folder in looked)
        where = "" if root is not None else " (root=… or UNDERSTUDY_DATA names another place)"
        raise MissingData(f"{self.name}: no {words} in {places}{where}; {files.how}")

    def subset(self, root: str | Path | None = None) -> str:
        """What to tell where its files hold only a part of what was published; else empty."""
        if self.files is None or self.files.count is None:
            return ""
        found = [self.files.count(path) for path in self.located(root)]
        if found == [self.n_train, self.n_test]:
            return ""
        counts = " + ".join(f"{n:,}" for n in found)
        return f"a subset: {counts} of {self.n_train:,} + {self.n_test:,} images"

    def checked_normalise(self, given: Any) -> Normalise:
        """How its images are to be normalised; ValueError where it cannot be so."""
        if "normalise" not in inspect.signature(self.loader).parameters:
            raise ValueError(f"normalise: {self.name!r} cannot be normalised otherwise")
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


def _folders(files: Files, root: str | Path | None) -> Iterator[Path]:
    if root is not None:
        # named for this set, so it may also be the very folder
        yield from (Path(root) / folder for folder in [*files.folders, "."])
        return
    roots = [os.environ.get("UNDERSTUDY_DATA"), "data"]
    yield from (Path(place) / folder for place in roots if place for folder in files.folders)
    yield from map(Path, files.elsewhere)


def _existing(path: Path, files: Files) -> Path | None:
    candidates = (path.with_name(path.name + ending) for ending in files.endings)
    is_there = Path.is_dir if files.are_folders else Path.is_file
    return next((candidate for candidate in candidates if is_there(candidate)), None)


def located_file(file: str | Path) -> Path:
    """A file that a user names: here, or the one of that name among the data sets."""
    roots = [Path(), Path(os.environ.get("UNDERSTUDY_DATA", "data")), Path("data")]
    return next((root / file for root in roots if (root / file).is_file()), Path(file))


def source_of(name: str, importer: Callable[[str], Any] | None = None) -> DataSource:
    """The data set of a name; ``module:name`` is a `DataSource`, or what one would load."""
    return as_source(name, named("data set", name, DATASETS, importer))


def as_source(name: str, found: Any) -> DataSource:
    """What a name stands for, as a data set: other people's may be its loader alone."""
    return found if isinstance(found, DataSource) else DataSource(name, found)


_IDX_NAMES = tuple(
    f"{split}-{what}-ubyte"
    for split in ("train", "t10k")
    for what in ("images-idx3", "labels-idx1")
)


def _leaf(name: str) -> DataSource:
    return DataSource(
        f"leaf_{name}",
        f"understudy.simulation.data.natural.leaf:leaf_{name}",
        files=Files(
            ("train",),
            (f"leaf/{name}/data",),
            f"preprocess.sh below data/{name} of LEAF's repository makes it, and test",
            are_folders=True,
        ),
    )


def _tff(name: str, file: str) -> DataSource:
    return DataSource(
        f"tff_{name}",
        f"understudy.simulation.data.natural.tff:tff_{name}",
        files=Files(
            (f"{file}_train.h5", f"{file}_test.h5"),
            ("tff",),
            f"tff.simulation.datasets downloads {file}.tar.bz2: unpack that",
        ),
    )


_SOURCES = (
    DataSource(
        "digits",
        "understudy.simulation.data.digits:digits",
        shape=(1, 8, 8),
        n_classes=10,
        n_train=1797,
        credit="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine "
        "Learning Repository, doi.org/10.24432/C50P49, CC BY 4.0",
    ),
    DataSource(
        "synthetic",
        "understudy.simulation.data.synthetic:synthetic",
        shape=(60,),
        n_classes=10,
        per_client=(340, 68, 45),  # 75 / 15 / 10 % of 50 + the mean of LogNormal(4, 2)
        origin="drawn",
    ),
    DataSource(
        "fedgs_synthetic",
        "understudy.papers.fedgs_synthetic:fedgs_synthetic",
        origin="drawn",
    ),
    DataSource(
        "mnist",
        "understudy.simulation.data.image_sets:mnist",
        shape=(1, 28, 28),
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        statistics=((0.1307,), (0.3081,)),
        files=Files(
            _IDX_NAMES,
            ("MNIST/raw",),
            "torchvision.datasets.MNIST(root, download=True) fetches it",
            ("", ".gz"),
        ),
    ),
    DataSource(
        "fashion_mnist",
        "understudy.simulation.data.image_sets:fashion_mnist",
        shape=(1, 28, 28),
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        statistics=((0.2860,), (0.3530,)),
        files=Files(
            _IDX_NAMES,
            ("FashionMNIST/raw", "fashion-mnist", "dataset-fashion-mnist"),
            "torchvision.datasets.FashionMNIST(root, download=True) fetches it, and so does "
            "Debian's package dataset-fashion-mnist",
            ("", ".gz"),
            elsewhere=("/usr/share/datasets/fashion-mnist",),  # of that package
        ),
    ),
    DataSource(
        "cifar10",
        "understudy.simulation.data.image_sets:cifar10",
        shape=(3, 32, 32),
        n_classes=10,
        n_train=50_000,
        n_test=10_000,
        statistics=((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        files=Files(
            (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
            ("cifar-10-batches-py",),
            "torchvision.datasets.CIFAR10(root, download=True) fetches it",
        ),
    ),
    DataSource(
        "cifar100",
        "understudy.simulation.data.image_sets:cifar100",
        shape=(3, 32, 32),
        n_classes=100,
        n_train=50_000,
        n_test=10_000,
        statistics=((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
        files=Files(
            ("train", "test"),
            ("cifar-100-python",),
            "torchvision.datasets.CIFAR100(root, download=True) fetches it",
        ),
    ),
    DataSource(
        "svhn",
        "understudy.simulation.data.image_sets:svhn",
        shape=(3, 32, 32),
        n_classes=10,
        n_train=73_257,
        n_test=26_032,
        statistics=((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
        files=Files(
            ("train_32x32.mat", "test_32x32.mat"),
            ("SVHN", "svhn", "svhn-subset", "."),
            "torchvision.datasets.SVHN(root, split, download=True) fetches it, for each split",
            count=n_svhn_images,
        ),
    ),
    *map(_leaf, ("femnist", "shakespeare", "sent140", "synthetic")),
    _tff("femnist", "fed_emnist"),
    _tff("cifar100", "fed_cifar100"),
    _tff("shakespeare", "shakespeare"),
    _tff("stackoverflow", "stackoverflow"),
    DataSource(
        "fedjax", "understudy.simulation.data.natural.fedjax:fedjax", origin="the user's own file"
    ),
    DataSource(
        "table",
        "understudy.simulation.data.table_file:table",
        origin="your own CSV or Parquet file",
        contents="file",
    ),
)
DATASETS = {source.name: source for source in _SOURCES}
