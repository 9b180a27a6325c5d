"""Image sets from files: small ones of the same formats, and the real ones where they are."""

import gzip
import os
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.io import savemat

from understudy.simulation import cifar10, fashion_mnist, federate, mnist, svhn
from understudy.simulation.data.formats import read_cifar_batch, read_idx, read_svhn
from understudy.simulation.data.sources import DATASETS, MissingData

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)


@pytest.fixture(autouse=True)
def an_empty_place(tmp_path, monkeypatch):
    """No data of this machine are found by chance."""
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    set_in_debian = DATASETS["fashion_mnist"]
    files = replace(set_in_debian.files, elsewhere=(str(tmp_path / "debian"),))
    monkeypatch.setitem(DATASETS, "fashion_mnist", replace(set_in_debian, files=files))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx_set(folder, compressed):
    """Five training and two test images, labelled 0 .. 4 and 5, 6."""
    folder.mkdir(parents=True)
    labels = np.arange(7, dtype=np.uint8)
    for split, part in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        for what, array in (("images-idx3", GREY[part]), ("labels-idx1", labels[part])):
            content = idx(array)
            ending = ".gz" if compressed else ""
            content = gzip.compress(content) if compressed else content
            (folder / f"{split}-{what}-ubyte{ending}").write_bytes(content)


def old_batch(pixels, labels):
    """A pickle as Python 2 wrote it: protocol 2, text as bytes, NumPy under its old name."""
    content = pixels.tobytes()
    return (
        b"\x80\x02}(U\x06labels]("
        + b"".join(b"K" + bytes([label]) for label in labels)
        + b"eU\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        + b"(K\x01K" + bytes([len(pixels)]) + b"M\x00\x0c\x86"  # (n, 3072)
        + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        + b"K\x00tb\x89T" + struct.pack("<I", len(content)) + content + b"tbu."
    )  # fmt: skip


def write_cifar(folder):
    """One image in each of the first four batches, the fifth like the first; two to test."""
    folder.mkdir(parents=True)
    flat = COLOUR.reshape(4, 3072)
    for i in range(5):
        (folder / f"data_batch_{i + 1}").write_bytes(old_batch(flat[[i % 4]], [i]))
    (folder / "test_batch").write_bytes(old_batch(flat[:2], [8, 9]))


def write_svhn(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, images, labels in (("train", COLOUR[:3], [1, 10, 9]), ("test", COLOUR[3:], [10])):
        content = {
            "X": images.transpose(2, 3, 1, 0),  # height, width, channel, number
            "y": np.array(labels, dtype=np.uint8)[:, None],
        }
        savemat(folder / f"{name}_32x32.mat", content, do_compression=True)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    ("load", "folder"),
    [
        (mnist, "MNIST/raw"),
        (fashion_mnist, "FashionMNIST/raw"),
        (fashion_mnist, "fashion-mnist"),
        (fashion_mnist, "dataset-fashion-mnist"),
        (mnist, "."),
    ],
)
def test_idx_sets(tmp_path, load, folder, compressed):
    write_idx_set(tmp_path / "root" / folder, compressed)
    data = load(tmp_path / "root", normalise=False)
    x, y = data
    assert x.shape == (7, 1, 28, 28)
    assert x.dtype == torch.float32
    np.testing.assert_array_equal((x * 255).round().to(torch.uint8)[:, 0], GREY)
    assert float(x.max()) <= 1
    assert y.tolist() == list(range(7))
    assert data.test.tolist() == [5, 6]


@pytest.mark.parametrize("load", [cifar10, svhn])
def test_colour_sets(tmp_path, load):
    if load is cifar10:
        write_cifar(tmp_path / "cifar-10-batches-py")
        order, labels, test = [0, 1, 2, 3, 0, 0, 1], [0, 1, 2, 3, 4, 8, 9], [5, 6]
    else:
        write_svhn(tmp_path / "svhn-subset")
        order, labels, test = [0, 1, 2, 3], [1, 0, 9, 0], [3]
    data = load(str(tmp_path), normalise=False)
    x, y = data
    np.testing.assert_array_equal((x * 255).round().to(torch.uint8), COLOUR[order])
    assert y.tolist() == labels
    assert data.test.tolist() == test
    assert len(data) == len(labels)


def test_a_part_of_svhn_is_called_one(tmp_path, monkeypatch):
    write_svhn(tmp_path / "svhn")
    assert DATASETS["svhn"].subset(tmp_path) == "a subset: 3 + 1 of 73,257 + 26,032 images"
    monkeypatch.setitem(DATASETS, "svhn", replace(DATASETS["svhn"], n_train=3, n_test=1))
    assert DATASETS["svhn"].subset(tmp_path) == ""
    assert DATASETS["mnist"].subset(tmp_path) == ""  # no matter whether it is there
    with pytest.raises(MissingData):
        DATASETS["svhn"].subset(tmp_path / "elsewhere")
    (tmp_path / "svhn" / "train_32x32.mat").write_bytes(b"no such file")
    assert DATASETS["svhn"].subset(tmp_path) == "a subset: 0 + 1 of 3 + 1 images"


@pytest.mark.parametrize("folder", ["SVHN", "svhn", "svhn-subset", "."])
def test_svhn_is_found_under_its_names(tmp_path, folder):
    write_svhn(tmp_path / folder)
    assert len(svhn(tmp_path)) == 4


def test_normalisation(tmp_path):
    """By default the published mean and deviation; else one's own, for all channels or each."""
    write_cifar(tmp_path / "cifar-10-batches-py")
    plain = cifar10(tmp_path, normalise=False).x
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
    std = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)
    torch.testing.assert_close(cifar10(tmp_path).x, (plain - mean) / std)
    torch.testing.assert_close(cifar10(tmp_path, normalise=(0.5, 0.5)).x, plain * 2 - 1)
    own = cifar10(tmp_path, normalise=((0.0, 0.0, 1.0), (1.0, 2.0, 1.0))).x
    torch.testing.assert_close(own[:, 1], plain[:, 1] / 2)
    torch.testing.assert_close(own[:, 2], plain[:, 2] - 1)


def test_normalisation_of_a_named_set(tmp_path):
    write_cifar(tmp_path / "cifar-10-batches-py")
    settings = {"root": tmp_path, "n_clients": 2, "seed": 1}
    for normalise in (False, (0.5, 0.5)):
        own = cifar10(tmp_path, normalise=normalise)
        named = federate("cifar10", "iid", normalise=normalise, **settings)
        torch.testing.assert_close(named.x, federate(own, "iid", n_clients=2, seed=1).x)
    with pytest.raises(ValueError, match="normalise: expected with the name of a data set only"):
        federate(cifar10(tmp_path), "iid", n_clients=2, normalise=False)
    with pytest.raises(ValueError, match="normalise: 'synthetic' cannot be normalised otherwise"):
        federate("synthetic", None, n_clients=2, normalise=False)
    for bad in ("no", (0.5,), (0.5, "x"), (None, 0.5), (0.5, (0.5, -1.0, 0.5))):
        with pytest.raises(ValueError, match=r"normalise: expected true, false or .*, got "):
            federate("cifar10", "iid", normalise=bad, **settings)


def test_places_are_tried_in_order(tmp_path, monkeypatch):
    """root, if given, alone; else UNDERSTUDY_DATA, then ./data, then (Fashion-MNIST) Debian's."""
    write_idx_set(tmp_path / "debian", True)
    assert len(fashion_mnist()) == 7
    with pytest.raises(MissingData):
        mnist()
    write_idx_set(tmp_path / "here" / "data" / "MNIST" / "raw", True)
    assert len(mnist()) == 7
    other = tmp_path / "other"
    write_idx_set(other / "MNIST" / "raw", False)
    (other / "MNIST" / "raw" / "t10k-labels-idx1-ubyte").write_bytes(
        idx(np.array([3, 3], dtype=np.uint8))
    )
    monkeypatch.setenv("UNDERSTUDY_DATA", str(other))
    assert mnist().y.tolist()[-2:] == [3, 3]
    with pytest.raises(MissingData):
        mnist(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "file", "how"),
    [
        ("mnist", "train-images-idx3-ubyte", "torchvision.datasets.MNIST"),
        ("fashion_mnist", "train-images-idx3-ubyte", "dataset-fashion-mnist"),
        ("cifar10", "data_batch_1", "torchvision.datasets.CIFAR10"),
        ("svhn", "train_32x32.mat", "torchvision.datasets.SVHN"),
    ],
)
def test_a_missing_set_says_what_where_and_how(tmp_path, monkeypatch, name, file, how):
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError) as caught:
        DATASETS[name].loader()
    words = str(caught.value)
    for expected in (name, file, how, str(tmp_path / "elsewhere"), "data", "UNDERSTUDY_DATA"):
        assert expected in words
    with pytest.raises(FileNotFoundError) as caught:
        DATASETS[name].loader(tmp_path / "root")
    assert str(tmp_path / "root") in str(caught.value)
    assert "UNDERSTUDY_DATA" not in str(caught.value)


def test_a_set_with_a_file_missing_names_the_file(tmp_path):
    write_cifar(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(MissingData, match="cifar-10-batches-py lacks data_batch_3; torchvision"):
        cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected an IDX file of bytes, found b''"),
        (b"<html>", "expected an IDX file of bytes, found b'<htm'"),
        (idx(GREY)[:-1], r"expected 5488 values of shape \(7, 28, 28\), found 5487"),
        (idx(GREY) + b"1", "found more"),
        (b"\0\0\x0d\x01\0\0\0\1abcd", "expected an IDX file of bytes"),
        (gzip.compress(idx(GREY))[:-20], "expected a whole gzip file"),
    ],
)
def test_a_damaged_idx_file_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_images_without_as_many_labels_are_refused(tmp_path):
    write_idx_set(tmp_path / "MNIST" / "raw", False)
    (tmp_path / "MNIST/raw/train-labels-idx1-ubyte").write_bytes(idx(np.zeros(4, dtype=np.uint8)))
    with pytest.raises(ValueError, match=r"train-images.*found shapes \(5, 28, 28\) and \(4,\)"):
        mnist(tmp_path)


class Harmful:
    """Would run a command when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("function", ["system", "eval", "load", "getattr"])
def test_a_batch_that_would_run_something_is_refused(tmp_path, protocol, function):
    trace = tmp_path / "trace"
    harmful = {
        "system": Harmful(os.system, f"touch {trace}"),
        "eval": Harmful(eval, f"open({str(trace)!r}, 'w')"),
        "load": Harmful(np.load, str(trace)),
        "getattr": Harmful(getattr, "text", "upper"),
    }[function]
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": harmful, b"labels": [1]}, protocol=protocol))
    with pytest.raises(ValueError, match=r"refused; the file asks for .* no image set needs"):
        read_cifar_batch(path)
    assert not trace.exists()


def test_stand_ins_for_arrays_are_all_a_batch_gets(tmp_path):
    """Even the names that are admitted do not lead to NumPy."""
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}(U\x06labels]U\x04datacnumpy\nndarray\n(M\xe8\x03M\xe8\x03tRu.")
    with pytest.raises(ValueError, match="expected an array of bytes"):
        read_cifar_batch(path)


@pytest.mark.parametrize("protocol", [3, 4])
def test_a_batch_written_today_is_read_too(tmp_path, protocol):
    path = tmp_path / "batch"
    batch = {"data": COLOUR.reshape(4, 3072), "labels": [0, 1, 2, 3], "filenames": ["a"] * 4}
    path.write_bytes(pickle.dumps(batch, protocol=protocol))
    pixels, labels = read_cifar_batch(path)
    np.testing.assert_array_equal(pixels, COLOUR)
    assert labels.tolist() == [0, 1, 2, 3]
    batch["data"] = np.asfortranarray(batch["data"])
    path.write_bytes(pickle.dumps(batch, protocol=protocol))
    np.testing.assert_array_equal(read_cifar_batch(path)[0], COLOUR)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a CIFAR batch"),
        (b"<html>", "expected a CIFAR batch|refused"),
        (pickle.dumps([1]), "found neither"),
        (old_batch(COLOUR.reshape(4, 3072), [1, 2, 3]), r"expected data of shape \(3, 3072\)"),
        (old_batch(COLOUR.reshape(4, 3072), [1, 2, 3, 10]), "expected labels in 0 .. 9"),
        (old_batch(COLOUR.reshape(4, 3072), [1, 2, 3, 4])[:5000], "expected a CIFAR-10|refused"),
        (
            pickle.dumps({"data": np.zeros((1, 3072)), "labels": [1]}, protocol=4),
            "expected an array of bytes; TypeError.*f8",
        ),
    ],
)
def test_a_damaged_batch_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_cifar_batch(path)
    assert str(path) in str(caught.value)


def test_a_damaged_matlab_file_is_refused_by_name(tmp_path):
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(b"not a MATLAB file" * 20)
    with pytest.raises(ValueError, match=r"train_32x32.mat: expected a MATLAB file with X and y"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8)})
    with pytest.raises(ValueError, match="expected a MATLAB file with X and y"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))})
    with pytest.raises(ValueError, match=r"expected X of bytes .* found float64"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": np.zeros((2, 1))})
    with pytest.raises(ValueError, match=r"expected labels in 1 .. 10"):
        read_svhn(path)


# The real files


def test_real_mnist(data_root):
    """Class counts and the mean and deviation that are published with the set."""
    check_real(mnist, data_root, 60_000, 10_000, (1, 28, 28))
    counts = np.bincount(mnist(data_root).y[:60_000])
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def test_real_fashion_mnist(data_root):
    check_real(fashion_mnist, data_root, 60_000, 10_000, (1, 28, 28))
    assert np.bincount(fashion_mnist(data_root).y).tolist() == [7000] * 10


def test_real_cifar10(data_root):
    check_real(cifar10, data_root, 50_000, 10_000, (3, 32, 32))
    data = cifar10(data_root)
    assert np.bincount(data.y).tolist() == [6000] * 10
    assert data.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert data.stored[0, :, 0, 0].tolist() == [59, 62, 63]


def test_real_svhn(data_root):
    """A subset or the whole: class shares are those of the whole, whose commonest digit is 1."""
    data = svhn(data_root)
    n_train = int(data.test[0])
    check_real(svhn, data_root, n_train, len(data.test), (3, 32, 32), tolerance=0.01)
    shares = np.bincount(data.y[:n_train]) / n_train
    assert shares[1] == pytest.approx(13861 / 73257, abs=1e-3)
    assert shares[0] == pytest.approx(4948 / 73257, abs=1e-3)


def check_real(load, root, n_train, n_test, shape, tolerance=1e-3):
    data = load(root)
    assert len(data.test) == n_test
    train = data.take(np.arange(n_train))
    assert train.shape == (n_train, *shape)
    torch.testing.assert_close(
        train.mean(dim=(0, 2, 3)), torch.zeros(shape[0]), atol=tolerance, rtol=0
    )
    torch.testing.assert_close(
        train.std(dim=(0, 2, 3)), torch.ones(shape[0]), atol=tolerance, rtol=0
    )


def test_the_papers_settings_on_the_real_files(data_root, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_DATA", str(data_root))
    fdms = federate("mnist", "clustered", n_clients=20, n_clusters=5, per_client=200)
    assert fdms.sizes.tolist() == [200] * 20
    assert len(fdms.x) == 4000 + 10_000
    fedgs = federate("fashion_mnist", "classes_per_client", n_clients=100, k=2, validation=0.2)
    assert fedgs.sizes.tolist() == [480] * 100
    assert len(fedgs.indices("validation")) == 12_000
    assert ((fedgs.label_counts > 0).sum(axis=1) == 2).all()
