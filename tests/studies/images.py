"""Small generated image sets in the files and shapes of the published ones."""

import gzip
import pickle
import struct

import numpy as np
from scipy.io import savemat

N_CLASSES = 10
PER_CLASS, TEST_PER_CLASS = 60, 5  # enough for what `tiny_tasks` deals out


def write_images(root):
    """MNIST, Fashion-MNIST, CIFAR-10 and SVHN below a folder, as torchvision lays them out."""
    rng = np.random.default_rng(0)
    for folder in ("MNIST/raw", "FashionMNIST/raw"):
        _write_idx(root / folder, rng)
    _write_cifar(root / "cifar-10-batches-py", rng)
    _write_svhn(root / "svhn-subset", rng)
    return root


def _labels(per_class):
    return np.tile(np.arange(N_CLASSES, dtype=np.uint8), per_class)


def _pixels(rng, labels, shape):
    """Noise with a bright row for each class, so that there is something to learn."""
    images = rng.integers(0, 128, (len(labels), *shape), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[..., 2 * int(label) + 2, :] = 255
    return images


def _write_idx(folder, rng):
    folder.mkdir(parents=True)
    for split, per_class in (("train", PER_CLASS), ("t10k", TEST_PER_CLASS)):
        labels = _labels(per_class)
        images = _pixels(rng, labels, (28, 28))
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            path = folder / f"{split}-{what}-ubyte.gz"
            path.write_bytes(gzip.compress(head + array.tobytes(), mtime=0))


def _write_cifar(folder, rng):
    folder.mkdir(parents=True)
    names = [f"data_batch_{i}" for i in range(1, 6)]
    for name, per_class in (*((n, PER_CLASS // 5) for n in names), ("test_batch", TEST_PER_CLASS)):
        labels = _labels(per_class)
        pixels = _pixels(rng, labels, (3, 32, 32)).reshape(len(labels), -1)
        batch = {"data": pixels, "labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=4))


def _write_svhn(folder, rng):
    folder.mkdir(parents=True)
    for name, per_class in (("train", PER_CLASS), ("test", TEST_PER_CLASS)):
        labels = _labels(per_class)
        images = _pixels(rng, labels, (3, 32, 32)).transpose(2, 3, 1, 0)
        written = np.where(labels == 0, 10, labels).astype(np.uint8)  # 10 means the digit 0
        savemat(folder / f"{name}_32x32.mat", {"X": images, "y": written[:, None]})
