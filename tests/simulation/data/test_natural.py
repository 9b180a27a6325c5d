"""Data that come with their clients: files made by other libraries, and files that are wrong."""

from __future__ import annotations

import json
import pickle
import sqlite3
import zlib

import h5py
import msgpack
import numpy as np
import pytest
import torch

from understudy.simulation import federate, simulate
from understudy.simulation.data.federation import PADDING
from understudy.simulation.data.image_sets import cifar100
from understudy.simulation.data.natural.fedjax import fedjax
from understudy.simulation.data.natural.leaf import (
    leaf_femnist,
    leaf_sent140,
    leaf_shakespeare,
    leaf_synthetic,
)
from understudy.simulation.data.natural.tff import (
    tff_cifar100,
    tff_femnist,
    tff_shakespeare,
    tff_stackoverflow,
)
from understudy.simulation.data.sources import DATASETS, MissingData
from understudy.simulation.data.text.tokens import (
    CHARACTERS,
    N_CHARACTERS,
    characters,
    next_tokens,
    word_numbers,
    words,
)


def held(federation, client):
    """x and y of a client's training examples."""
    mine = torch.from_numpy(federation.clients[client])
    return federation.x[mine].numpy(), federation.y[mine].numpy()


# -- text ------------------------------------------------------------------------------------------


def test_characters_and_words_by_hand():
    assert characters("\n ~é").tolist() == [2, 3, 97, 1]
    assert N_CHARACTERS == 98
    assert [CHARACTERS[number - 2] for number in characters("Now!")] == list("Now!")
    numbers = word_numbers(["to be or", "not to be"], 3)
    assert numbers == {"be": 2, "to": 3, "not": 4}  # equally frequent ones by the alphabet
    assert words("to be or not", numbers).tolist() == [3, 2, 1, 4]


def test_sequences_by_hand():
    """Seven tokens in rows of three: every token but the first is told once."""
    x, y = next_tokens([np.arange(1, 8), np.array([9]), np.array([4, 5])], 3)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6], [4, 0, 0]]
    assert y.tolist() == [[2, 3, 4], [5, 6, 7], [5, PADDING, PADDING]]


# -- LEAF ------------------------------------------------------------------------------------------


def write_leaf(folder, split, *files):
    """LEAF's own form, one file for each dict of user → (x, y)."""
    place = folder / split
    place.mkdir(parents=True, exist_ok=True)
    for number, users in enumerate(files):
        content = {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        }
        (place / f"all_data_{number}_niid_0_keep_0_{split}_9.json").write_text(json.dumps(content))


def pixels(n, value):
    return [[value] * 784 for _ in range(n)]


def test_leaf_femnist(tmp_path):
    write_leaf(tmp_path, "train", {"f1": (pixels(3, 0.5), [0, 61, 7]), "f2": (pixels(1, 1.0), [3])},
               {"f0": (pixels(2, 0.25), [1, 1])})  # fmt: skip
    one = (pixels(1, 0.75), [5])
    write_leaf(tmp_path, "test", {"f0": one, "f1": one}, {"f2": one, "f9": one})
    federation = leaf_femnist(tmp_path)
    assert federation.names == ("f0", "f1", "f2")
    assert (federation.n_classes, tuple(federation.x.shape[1:])) == (62, (1, 28, 28))
    x, y = held(federation, 1)
    assert (x == 0.5).all()
    assert y.tolist() == [0, 61, 7]
    assert federation.test_clients.tolist() == [0, 1, 2, -1]  # f9 trains nothing
    assert leaf_femnist(tmp_path, min_examples=2).names == ("f0", "f1")
    drawn = leaf_femnist(tmp_path, n_clients=2, seed=1)
    assert drawn.n_clients == 2
    assert drawn.names == leaf_femnist(tmp_path, n_clients=2, seed=1).names
    with pytest.raises(ValueError, match=r"n_clients: expected at most 3.*got 4"):
        leaf_femnist(tmp_path, n_clients=4)
    with pytest.raises(ValueError, match=r"min_examples=9 leaves none of 3 clients.*has 3"):
        leaf_femnist(tmp_path, min_examples=9)


def test_leaf_synthetic_without_test_files(tmp_path):
    rng = np.random.default_rng(0)
    users = {
        f"u{i}": (rng.normal(size=(10, 5)).tolist(), rng.integers(0, 3, 10).tolist())
        for i in range(4)
    }
    write_leaf(tmp_path, "train", users)
    federation = leaf_synthetic(tmp_path, test=0.3)
    assert len(federation.test) == 12
    assert federation.sizes.tolist() == [7] * 4
    logs = list(simulate(federation, "fedavg", model="softmax", rounds=2, per_client_every=1))
    assert np.isfinite(logs[-1].metrics["test_loss"])


def test_leaf_shakespeare(tmp_path):
    line = "To be, or not to be, that is the question: whether 'tis nobler in the mind, or "
    texts = [line[i:] + line[:i] for i in range(4)]
    write_leaf(tmp_path, "train", {"HAMLET": (texts, list("abcd")), "GHOST": (texts[:1], ["\n"])})
    write_leaf(tmp_path, "test", {"HAMLET": (texts[:2], list("xy"))})
    federation = leaf_shakespeare(tmp_path)
    x, y = held(federation, federation.names.index("HAMLET"))
    assert x.dtype == np.int64
    assert "".join(CHARACTERS[number - 2] for number in x[1]) == texts[1]
    assert "".join(CHARACTERS[number - 2] for number in y) == "abcd"
    assert federation.n_classes == 98


def test_leaf_sent140(tmp_path):
    row = ["1", "Mon", "NO_QUERY", "somebody", "what a day", "training"]
    write_leaf(tmp_path, "train", {"a": ([row, row], ["0", "4"]), "b": (["sad", "glad"], [0, 1])})
    federation = leaf_sent140(tmp_path, length=6, test=0.5)
    assert (federation.n_classes, tuple(federation.x.shape)) == (2, (4, 6))
    rows = {tuple(row) for row in federation.x.tolist()}
    assert tuple(characters("what a").tolist()) in rows
    assert (*characters("sad").tolist(), 0, 0, 0) in rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "expected LEAF's users, num_samples and user_data"),
        ('{"users": ["a"], "num_samples": [], "user_data": {}}', "expected 1 num_samples, got 0"),
        (
            '{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [1], "y": [1]}}}',
            r"user 'a': expected x and y of 2 examples each, got 1 and 1",
        ),
        (
            '{"users": ["a"], "num_samples": [1], "user_data": {}}',
            "user 'a': expected x and y of 1 examples each, got none and none",
        ),
        (
            '{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[1, 2]], "y": [1]}}}',
            "user 'a': expected x of 784 pixels each, got 2",
        ),
        (
            '{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": ["?"], "y": [1]}}}',
            "user 'a': could not convert",
        ),
    ],
)
def test_a_bad_leaf_file_is_named(tmp_path, text, words):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=words) as refused:
        leaf_femnist(tmp_path)
    assert "bad.json" in str(refused.value)
    assert len(str(refused.value)) < 500


def test_labels_out_of_range_and_users_twice(tmp_path):
    write_leaf(tmp_path / "a", "train", {"u": (pixels(3, 0.5), [0, 62, 0])})
    with pytest.raises(ValueError, match=r"train: expected labels in 0 .. 61, got 62"):
        leaf_femnist(tmp_path / "a")
    write_leaf(tmp_path / "b", "train", {"u": (pixels(1, 0), [-1])})
    with pytest.raises(ValueError, match="user 'u': expected y of whole numbers >= 0, got -1"):
        leaf_femnist(tmp_path / "b")
    write_leaf(tmp_path / "c", "train", {"u": (pixels(1, 0), [1])}, {"u": (pixels(1, 0), [1])})
    with pytest.raises(ValueError, match=r"user 'u' is in all_data_0\S* too"):
        leaf_femnist(tmp_path / "c")


def test_what_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, told in [
        ("leaf_femnist", "preprocess.sh"),
        ("tff_shakespeare", "shakespeare.tar.bz2"),
        ("cifar100", "torchvision"),
    ]:
        with pytest.raises(MissingData, match=told):
            DATASETS[name].located()
    with pytest.raises(MissingData, match=r"fedjax: no no.sqlite"):
        fedjax("no.sqlite", "femnist")


# -- TFF -------------------------------------------------------------------------------------------


def write_tff(path, clients):
    """TFF's form, by h5py: examples/<client>/<feature>."""
    with h5py.File(path, "w") as file:
        group = file.create_group("examples")
        for user, features in clients.items():
            client = group.create_group(user)
            for name, values in features.items():
                client.create_dataset(name, data=values)


def written(*labels):
    n = len(labels)
    images = np.linspace(0, 1, n * 784, dtype=np.float32).reshape(n, 28, 28)
    return {"pixels": images, "label": np.array(labels, dtype=np.int32)}


def test_tff_femnist(tmp_path):
    write_tff(tmp_path / "fed_emnist_train.h5", {"f1": written(1, 2, 3), "f0": written(61)})
    write_tff(tmp_path / "fed_emnist_test.h5", {"f1": written(4), "f0": written(5, 6)})
    federation = tff_femnist(tmp_path)
    assert federation.names == ("f0", "f1")
    assert federation.test_clients.tolist() == [0, 0, 1]
    x, y = held(federation, 1)
    np.testing.assert_array_equal(x[:, 0], written(1, 2, 3)["pixels"])
    assert y.tolist() == [1, 2, 3]
    again = federate("tff_femnist", None, root=tmp_path, min_examples=2)
    assert again.sizes.tolist() == [3]


def test_tff_cifar100_has_other_clients_for_testing(tmp_path):
    image = np.arange(2 * 32 * 32 * 3, dtype=np.int64).reshape(2, 32, 32, 3).astype(np.uint8)
    client = {"image": image, "label": np.array([99, 0]), "coarse_label": np.array([1, 2])}
    write_tff(tmp_path / "fed_cifar100_train.h5", {"0": client, "1": client})
    write_tff(tmp_path / "fed_cifar100_test.h5", {"0": client})
    federation = tff_cifar100(tmp_path)
    assert federation.test_clients is None
    assert federation.n_classes == 100
    expected = image.transpose(0, 3, 1, 2).astype(np.float32) / 255
    np.testing.assert_allclose(held(federation, 0)[0], expected, rtol=1e-6)


def snippets(*texts):
    return {"snippets": np.array([text.encode() for text in texts], dtype=object)}


def write_text(path, clients, key="snippets"):
    with h5py.File(path, "w") as file:
        for user, texts in clients.items():
            kind = h5py.string_dtype()
            file.create_dataset(f"examples/{user}/{key}", data=list(texts), dtype=kind)


def test_tff_shakespeare(tmp_path):
    write_text(
        tmp_path / "shakespeare_train.h5", {"A": ["To be, or not", "x"], "B": ["Who's there?"]}
    )
    write_text(tmp_path / "shakespeare_test.h5", {"A": ["Words, words"]})
    federation = tff_shakespeare(tmp_path, length=8)
    x, y = held(federation, 0)
    whole = characters("To be, or not")
    assert x[0].tolist() == whole[:8].tolist()
    assert y[0].tolist() == whole[1:9].tolist()
    assert x[1].tolist() == [*whole[8:12].tolist(), 0, 0, 0, 0]
    assert y[1].tolist() == [*whole[9:13].tolist(), *[PADDING] * 4]
    assert len(x) == 2  # "x" has no next character


def test_tff_stackoverflow(tmp_path):
    write_text(tmp_path / "stackoverflow_train.h5",
               {"7": ["how to sort a list", "how to"], "8": ["a list"]}, "tokens")  # fmt: skip
    write_text(tmp_path / "stackoverflow_test.h5", {"9": ["how odd"]}, "tokens")
    federation = tff_stackoverflow(tmp_path, length=3, vocabulary=4, n_clients=2)
    assert federation.n_classes == 6  # a, how, list, to; padding; all others
    assert federation.x[federation.test].tolist() == [[3, 0, 0]]
    assert federation.y[federation.test].tolist() == [[1, PADDING, PADDING]]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: path.write_bytes(b"no"), "expected an HDF5 file"),
        (lambda path: write_tff(path, {}), "expected a group 'examples' with clients"),
        (lambda path: write_tff(path, {"a": {"label": [1]}}), "client 'a': expected an array 'pix"),
        (
            lambda path: write_tff(path, {"a": {**written(1, 2), "label": [1]}}),
            "client 'a': expected as many of pixels as of label",
        ),
        (
            lambda path: write_tff(path, {"a": {**written(1), "pixels": np.zeros((1, 5, 5))}}),
            r"client 'a': expected pixels \(n, 28, 28\)",
        ),
        (
            lambda path: write_tff(path, {"a": {**written(1), "label": [0.5]}}),
            r"client 'a': expected labels \(n,\) of whole numbers",
        ),
        (lambda path: write_tff(path, {"a": written(99)}), "expected labels in 0 .. 61, got 99"),
    ],
)
def test_a_bad_tff_file_is_named(tmp_path, write, words):
    write(tmp_path / "fed_emnist_train.h5")
    write_tff(tmp_path / "fed_emnist_test.h5", {"a": written(1)})
    with pytest.raises(ValueError, match=words) as refused:
        tff_femnist(tmp_path)
    assert "fed_emnist_train.h5" in str(refused.value)


@pytest.mark.parametrize("name", ["tff_shakespeare", "tff_stackoverflow"])
def test_damage_inside_an_hdf5_file_is_an_error_with_its_name(name, tmp_path):
    """Bytes of it changed by chance: it is read, or it is a ValueError that names it."""
    key = "snippets" if name == "tff_shakespeare" else "tokens"
    files = [tmp_path / f"{name.removeprefix('tff_')}_{part}.h5" for part in ("train", "test")]
    for file in files:
        with h5py.File(file, "w") as written:
            for user in ("A", "B", "C"):
                text = ["to be or not to be", "that is the question"]
                written.create_dataset(
                    f"examples/{user}/{key}", data=text, dtype=h5py.string_dtype()
                )
    whole, rng = files[0].read_bytes(), np.random.default_rng(0)
    errors = []
    for _ in range(60):
        damaged = np.frombuffer(whole, dtype=np.uint8).copy()
        damaged[rng.integers(len(whole), size=20)] = rng.integers(256, size=20)
        files[0].write_bytes(damaged.tobytes())
        try:
            federate(name, None, root=tmp_path, n_clients=None)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 20
    assert all(files[0].name in error for error in errors)


def test_an_announced_size_is_not_believed(tmp_path):
    path = tmp_path / "fed_emnist_train.h5"
    with h5py.File(path, "w") as file:  # nothing is stored, 3 TB are announced
        file.create_dataset("examples/a/pixels", shape=(10**9, 28, 28), dtype="f4", chunks=True)
        file.create_dataset("examples/a/label", shape=(10**9,), dtype="i4", chunks=True)
    write_tff(tmp_path / "fed_emnist_test.h5", {"a": written(1)})
    with pytest.raises(ValueError, match="does not fit into the file"):
        tff_femnist(tmp_path)


# -- FedJAX ----------------------------------------------------------------------------------------


def packed(features):
    """FedJAX's package of arrays, by msgpack: numbers as type 1, bytes as type 4."""

    def extension(value):
        if value.dtype == object:
            return msgpack.ExtType(4, msgpack.packb((value.shape, value.ravel().tolist())))
        content = (value.shape, value.dtype.name, value.tobytes())
        return msgpack.ExtType(1, msgpack.packb(content))

    return msgpack.packb(features, default=extension)


def write_sqlite(path, clients, pack=lambda features: zlib.compress(packed(features))):
    base = sqlite3.connect(path)
    base.execute(
        "CREATE TABLE federated_data (client_id BLOB NOT NULL PRIMARY KEY, data BLOB NOT NULL, "
        "num_examples INTEGER NOT NULL)"
    )
    for user, features in clients.items():
        size = len(next(iter(features.values())))
        base.execute("INSERT INTO federated_data VALUES (?, ?, ?)", (user, pack(features), size))
    base.commit()
    base.close()


def test_fedjax_images_and_text(tmp_path):
    write_sqlite(tmp_path / "train.sqlite", {b"f1": written(1, 2, 3), b"f0": written(61)})
    write_sqlite(tmp_path / "test.sqlite", {b"f1": written(4)})
    federation = fedjax(tmp_path / "train.sqlite", "femnist", tmp_path / "test.sqlite")
    assert federation.names == ("f0", "f1")
    np.testing.assert_array_equal(held(federation, 1)[0][:, 0], written(1, 2, 3)["pixels"])
    assert federation.test_clients.tolist() == [1]
    write_sqlite(tmp_path / "text.sqlite", {b"A": snippets("To be, or not", "to be"),
                                            b"B": snippets("Who's there?", "Nay")})  # fmt: skip
    text = fedjax(tmp_path / "text.sqlite", "shakespeare", length=8, test_share=0.5)
    assert text.n_clients == 2
    assert len(text.test) == 4  # of 3 sequences each, rounded


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (lambda features: b"no", "expected data compressed by zlib"),
        (lambda features: zlib.compress(packed(features))[:-9], "cut short or endless"),
        (lambda features: zlib.compress(b"\xc1"), "expected a package of arrays"),
        (lambda features: zlib.compress(msgpack.packb([1])), "expected arrays by name"),
        (lambda features: zlib.compress(msgpack.packb({"pixels": 1})), "expected pixels and label"),
        (
            lambda features: zlib.compress(msgpack.packb({"pixels": msgpack.ExtType(9, b"x")})),
            "extension 9",
        ),
        (
            lambda features: zlib.compress(
                msgpack.packb({"x": msgpack.ExtType(1, msgpack.packb(([10**12], "int8", b"x")))})
            ),
            r"an array of shape \(1000000000000,\) with 1 entries",
        ),
        (
            lambda features: zlib.compress(
                msgpack.packb({"x": msgpack.ExtType(1, msgpack.packb(([1], "O", b"12345678")))})
            ),
            "an array of 'O'",
        ),
    ],
)
def test_a_bad_fedjax_file_names_the_client(tmp_path, pack, words):
    write_sqlite(tmp_path / "bad.sqlite", {b"f0": written(1)}, pack)
    with pytest.raises(ValueError, match=words) as refused:
        fedjax(tmp_path / "bad.sqlite", "femnist")
    assert "bad.sqlite, client 'f0'" in str(refused.value)


def test_what_is_no_fedjax_file(tmp_path):
    (tmp_path / "no.sqlite").write_bytes(b"no database")
    with pytest.raises(ValueError, match=r"no.sqlite: expected FedJAX's SQLite file"):
        fedjax(tmp_path / "no.sqlite", "femnist")
    write_sqlite(tmp_path / "a.sqlite", {b"a": written(1)})
    with pytest.raises(ValueError, match="kind: expected one of 'femnist'"):
        fedjax(tmp_path / "a.sqlite", "mnist")


# -- CIFAR-100 -------------------------------------------------------------------------------------


def write_cifar100(folder, n=5):
    """As the published folder: pickles of two, with keys as bytes."""
    place = folder / "cifar-100-python"
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    batches = {}
    for split in ("train", "test"):
        batches[split] = {
            b"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8),
            b"fine_labels": [99, *rng.integers(0, 100, n - 1).tolist()],
            b"coarse_labels": [19, *rng.integers(0, 20, n - 1).tolist()],
            b"filenames": [b"a.png"] * n,
        }
        (place / split).write_bytes(pickle.dumps(batches[split], protocol=4))
    return batches


def test_cifar100(tmp_path):
    batches = write_cifar100(tmp_path)
    data = cifar100(tmp_path, normalise=False)
    assert (len(data), tuple(data.x.shape[1:])) == (10, (3, 32, 32))
    assert data.y[:5].tolist() == batches["train"][b"fine_labels"]
    expected = batches["test"][b"data"].reshape(-1, 3, 32, 32) / 255
    np.testing.assert_allclose(data.x[5:].numpy(), expected, rtol=1e-6)
    assert cifar100(tmp_path, coarse=True).y[:5].tolist() == batches["train"][b"coarse_labels"]
    (tmp_path / "cifar-100-python" / "test").write_bytes(pickle.dumps({"data": 1, "labels": [1]}))
    with pytest.raises(ValueError, match="a CIFAR batch with data and fine_labels"):
        cifar100(tmp_path)
