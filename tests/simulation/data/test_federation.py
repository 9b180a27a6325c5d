"""Who holds what: the checks, and the ways from a user's own data to a federation."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import TensorDataset

from understudy.simulation import Dataset, Federation, clustered_digits, digits, federate
from understudy.simulation.data import federation as federations
from understudy.simulation.data.partitions import Partition, clustered
from understudy.simulation.data.shared_memory import Shared

X, Y = torch.zeros(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clients": ([0, 1], [2, 4]), "test": [4, 5]}, "1 that one does, such as 4"),
        ({"clients": ([0, 1], []), "test": [5]}, r"clients\[1\]: expected a list of at least one"),
        ({"clients": ([0, 6],), "test": [5]}, r"clients\[0\]: .* in 0 .. 5, got 0 .. 6"),
        ({"test": [-1]}, "test: expected indices in 0 .. 5"),
        ({"clients": (), "test": [0]}, "clients: expected at least one client"),
        ({"groups": [0, 1]}, r"groups: expected shape \(1,\)"),
        ({"y": Y.int()}, "y: expected 6 labels of int64, or targets of a floating type"),
        ({"y": Y[:5]}, r"y: expected 6 labels .* shape \(5,\)"),
        ({"y": Y - 1}, "y: expected labels of 0 or more, got -1 .. 1"),
        ({"n_classes": 2}, "y: expected labels of 0 .. 1, got 0 .. 2"),
        ({"y": Y.float(), "n_classes": 3}, "n_classes: expected none, since y is torch.float32"),
        ({"validation": ([0],)}, "validation: expected examples that no client trains on, got 1"),
        ({"validation": ([2, 5],)}, "validation: .* not in test, got 1 that are, such as 5"),
        ({"validation": ([2], [3])}, "validation: expected 1 index arrays, got 2"),
        ({"validation": ([],)}, "validation: expected at least one example, got none at all"),
        ({"names": ("a", "b")}, "names: expected 1 of them, got 2"),
        ({"classes": ("a", "b")}, "classes: expected 3 of them, got 2"),
        ({"features": [1.0]}, r"features: expected shape \(1, any\)"),
    ],
)
def test_a_federation_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Federation(**{"x": X, "y": Y, "clients": ([0, 1],), "test": [5], **arguments})


def test_splits_sizes_and_counts():
    federation = Federation(
        X, Y, ([0, 1, 4], [3]), [5], validation=([2], []), n_classes=4, features=np.eye(2)
    )
    assert federation.sizes.tolist() == [3, 1]
    assert federation.label_counts.tolist() == [[1, 2, 0, 0], [1, 0, 0, 0]]
    assert federation.indices("train").tolist() == [0, 1, 4, 3]
    assert federation.indices("validation").tolist() == [2]
    assert federation.indices("test").tolist() == [5]
    population = federation.population()
    np.testing.assert_array_equal(population.features, np.eye(2))
    np.testing.assert_array_equal(population.label_counts, federation.label_counts)
    assert federation.n_outputs == 4
    with pytest.raises(ValueError, match="split: expected one of 'train', 'validation', 'test'"):
        federation.indices("all")
    with pytest.raises(ValueError, match="split: this federation has no validation examples"):
        clustered_digits().indices("validation")


def test_what_is_counted_once_is_handed_out_again_and_cannot_be_spoilt():
    federation = clustered_digits()
    assert federation.label_counts is federation.label_counts
    assert federation.sizes is federation.sizes
    with pytest.raises(ValueError, match="read-only"):
        federation.sizes[0] = 0


def test_a_regression_has_targets_and_no_classes():
    federation = Federation(X, torch.zeros(6, 2), ([0, 1],), [5])
    assert federation.n_classes == 0
    assert federation.label_counts is None
    assert federation.population().label_counts is None
    assert federation.n_outputs == 2
    assert Federation(X, torch.zeros(6), ([0, 1],), [5]).n_outputs == 1
    with pytest.raises(ValueError, match="client_tests: a client's own test set needs classes"):
        federation.client_tests()


def test_a_federation_can_be_copied_and_sent_with_its_shared_memory_left_behind():
    federation = clustered_digits()
    x, y = federation.shared()
    assert torch.equal(x.tensor, federation.x.stored.flatten())
    assert torch.equal(y.tensor, federation.y)
    assert federation.shared()[0] is x
    for other in (pickle.loads(pickle.dumps(federation)), copy.deepcopy(federation)):
        assert torch.equal(other.x, federation.x)
        assert other.shared()[0] is not x


def test_a_clients_own_test_set_by_hand():
    """Test set: 4 of class 0, 6 of class 1, none of class 2.

    Client 0 trains on 2 + 1 examples: 4 of class 0 allow 4/(2/3) = 6 in all, 4 and 2.
    Client 1 trains on class 1 and on class 2, which the test set lacks: 6 of class 1.
    Client 2 trains on 1 + 2: 6 of class 1 allow 9 in all, 3 and 6.
    """
    y = torch.tensor([0, 0, 1, 1, 2, 0, 1, 1] + [0] * 4 + [1] * 6)
    test = np.arange(8, 18)
    federation = Federation(torch.zeros(18, 1), y, ([0, 1, 2], [3, 4], [5, 6, 7]), test)
    own = federation.client_tests(seed=1)
    counts = [np.bincount(y[held], minlength=2).tolist() for held in own]
    assert counts == [[4, 2], [0, 6], [3, 6]]
    assert all(set(held) <= set(test) and len(set(held)) == len(held) for held in own)
    again = federation.client_tests(seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(own, again, strict=True))
    drawn = {tuple(federation.client_tests(seed)[0]) for seed in range(10)}
    assert len(drawn) > 1
    alone = Federation(torch.zeros(18, 1), y, ([4],), test)
    with pytest.raises(ValueError, match="test: it has no example of the classes of client 0"):
        alone.client_tests()


@given(alpha=st.sampled_from([0.1, 1.0, 10.0]), seed=st.integers(0, 20))
def test_own_test_sets_have_the_proportions_of_training(alpha, seed):
    federation = federate("digits", "dirichlet", n_clients=8, alpha=alpha, seed=seed)
    labels = federation.y.numpy()
    supply = np.bincount(labels[federation.test], minlength=10)
    for held, counts in zip(federation.client_tests(), federation.label_counts, strict=True):
        found = np.bincount(labels[held], minlength=10)
        assert np.abs(found - len(held) * counts / counts.sum()).max() < 1
        # one more example altogether, and the scarcest class would not do
        assert ((len(held) + 1) * counts / counts.sum() > supply).any()


# From arrays


def arrays(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), np.arange(n) % 4


def test_each_client_gives_a_share_of_its_own():
    """20 and 10 and 10 examples: 20 % are 4, 2, 2 for the test set; 10 % are 2, 1, 1."""
    x, y = arrays()
    owner = np.repeat([7, 3, 5], [20, 10, 10])
    federation = Federation.from_arrays(x, y, clients=owner, test=0.2, validation=0.1, name="mine")
    assert federation.names == ("3", "5", "7")
    assert federation.name == "mine"
    assert federation.sizes.tolist() == [7, 7, 14]
    assert [len(held) for held in federation.validation] == [1, 1, 2]
    assert np.bincount(owner[federation.test]).tolist() == [0, 0, 0, 2, 0, 2, 0, 4]
    for number, client in enumerate((3, 5, 7)):
        assert (owner[federation.clients[number]] == client).all()
        assert (owner[federation.validation[number]] == client).all()
    parts = [*federation.clients, *federation.validation, federation.test]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(40))
    assert federation.x.dtype == torch.float32
    torch.testing.assert_close(federation.x, torch.tensor(x, dtype=torch.float32))
    assert federation.y.dtype == torch.int64


def test_the_seed_decides_what_is_held_out():
    x, y = arrays()
    one, same, other = (
        Federation.from_arrays(x, y, clients=[range(20), range(20, 40)], seed=seed)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one.test, same.test)
    assert not np.array_equal(one.test, other.test)
    assert one.names is None


def test_a_test_set_of_its_own_comes_behind():
    x, y = arrays()
    part = Partition((np.arange(5), np.arange(30, 40)), np.array([4, 9]))
    federation = Federation.from_arrays(x, y, clients=part, test=(x[:6] + 1, y[:6]))
    assert federation.sizes.tolist() == [5, 10]
    assert federation.groups.tolist() == [4, 9]
    assert federation.test.tolist() == list(range(40, 46))
    torch.testing.assert_close(federation.x[40:], torch.tensor(x[:6] + 1, dtype=torch.float32))


def test_the_users_arrays_are_copied():
    x, y = torch.zeros(10, 2), torch.zeros(10, dtype=torch.int64)
    federation = Federation.from_arrays(x, y, clients=np.zeros(10, dtype=int))
    x += 1
    assert not federation.x.any()


def test_kinds_of_inputs_and_labels():
    pixels = np.full((10, 1, 2, 2), 51, dtype=np.uint8)
    words = np.array(["cat", "dog"] * 5)
    federation = Federation.from_arrays(pixels, words, clients=np.arange(10) % 2, test=0.4)
    assert federation.x.unique().tolist() == [pytest.approx(0.2)]
    assert federation.classes == ("cat", "dog")
    assert federation.y.tolist() == [0, 1] * 5
    tokens = np.arange(20).reshape(10, 2)
    federation = Federation.from_arrays(
        tokens, np.zeros((10, 1), dtype=int), clients=[0] * 10, dtype=torch.int64
    )
    assert federation.x.dtype == torch.int64
    assert federation.y.shape == (10,)
    regression = Federation.from_arrays(tokens, np.linspace(0, 1, 10)[:, None], clients=[0] * 10)
    assert regression.y.shape == (10, 1)
    assert regression.y.dtype == torch.float32
    assert regression.n_classes == 0


def test_ids_that_are_numbers_in_words_are_in_the_order_of_numbers():
    x, y = arrays(24)
    federation = Federation.from_arrays(x, y, clients=[str(i // 2) for i in range(24)], test=0.5)
    assert federation.names is None
    assert federation.clients[2][0] // 2 == 2
    federation = Federation.from_arrays(x, y, clients=[f"{i // 2:02}" for i in range(24)], test=0.5)
    assert federation.names[2] == "02"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": np.zeros(9)}, "y: expected 40 labels, as many as there are inputs, got 9"),
        ({"x": np.full((40, 1), np.nan)}, r"x\[0\]: expected finite numbers, got array\(\[nan\]\)"),
        ({"x": ["a"] * 40}, "x: expected numbers, one entry for each example, got <U1"),
        ({"x": [[1], [1, 2]]}, "x: expected entries of one shape"),
        ({"y": np.full(40, np.inf)}, "y: expected finite numbers"),
        ({"y": ["a", None] * 20}, "y: expected numbers, or text, got a mixture"),
        ({"clients": [0, 1]}, "clients: expected a client's id for each of the 40 examples"),
        ({"clients": np.zeros(40)}, "clients: expected a client's id .* got float64"),
        ({"clients": [[0, 1], []]}, r"clients\[1\]: expected at least one example"),
        ({"clients": [[0, 1], [2, 40]], "test": 0.5}, r"clients\[1\]|test: expected indices"),
        ({"test": 0}, r"test: expected a number in \(0, 1\), got 0"),
        ({"test": "x"}, "test: expected a share in .* or a pair"),
        ({"test": 0.5, "validation": 0.5}, "validation: expected a sum with test below 1"),
        ({"validation": -0.1}, "validation: expected a number"),
        ({"clients": np.arange(40)}, "test: a share of 0.2 of so few examples holds out none"),
        ({"clients": np.arange(40) // 2, "test": 0.6, "validation": 0.1}, "validation: .* keeps"),
        (
            {"test": (np.zeros((2, 4)), [0, 1])},
            r"inputs of shape \(3,\), got \(4,\)",
        ),
        ({"test": (np.zeros((2, 3)), [0.0, 1.0])}, "test: expected labels of torch.int64"),
        ({"test": (np.zeros((2, 3)), [0])}, "test: expected as many labels as inputs, 2, not 1"),
        ({"y": ["a", "b"] * 20, "test": (np.zeros((1, 3)), ["c"])}, "no client has the class 'c'"),
        ({"y": ["a", "b"] * 20, "test": (np.zeros((1, 3)), [1])}, "expected names of classes"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(arguments, words):
    x, y = arrays()
    with pytest.raises(ValueError, match=words):
        Federation.from_arrays(**{"x": x, "y": y, "clients": np.arange(40) // 10, **arguments})


# From data sets


def test_torch_data_sets():
    x, y = (torch.tensor(array) for array in arrays())
    sets = [TensorDataset(x[:10], y[:10]), TensorDataset(x[10:], y[10:])]
    federation = Federation.from_datasets(sets, test=TensorDataset(x[:4], y[:4]))
    assert federation.sizes.tolist() == [10, 30]
    assert federation.test.tolist() == [40, 41, 42, 43]
    torch.testing.assert_close(federation.x[:40], x.float())
    assert torch.equal(federation.y[:40], y)


def test_data_sets_by_name_are_clients_of_that_name():
    """As the files of LEAF: users with examples to train on, and with others to test on."""
    x, y = arrays()
    pairs = list(zip(x, y, strict=True))
    train = {"f02": pairs[:10], "f01": pairs[10:]}
    test = {"f01": [(x[0], 1)], "f03": [(x[1], 0)], "f02": [(x[2], 2), (x[3], 3)]}
    federation = Federation.from_datasets(train, test=test)
    assert federation.names == ("f01", "f02")
    assert federation.sizes.tolist() == [30, 10]
    assert federation.test_clients.tolist() == [0, -1, 1, 1]
    torch.testing.assert_close(federation.x[40:], torch.tensor(x[:4]).float())
    shared = Federation.from_datasets(train, test=0.2)
    assert np.bincount(shared.test_clients).tolist() == [6, 2]
    assert federation.names == shared.names
    with pytest.raises(ValueError, match=r"datasets\['f02'\]: expected at least one example"):
        Federation.from_datasets({"f01": [(x[0], 1)], "f02": []})


class Rows(list):
    """Rows as dictionaries, as `datasets` and `flwr-datasets` give them."""


def test_rows_with_pictures():
    """Grey, coloured and two-coloured pictures become channels first, in [0, 1]."""
    colours = np.zeros((4, 5, 3), dtype=np.uint8)
    colours[..., 2] = 255
    rows = Rows({"img": Image.fromarray(colours), "label": i % 2} for i in range(4))
    federation = Federation.from_datasets([rows], test=0.5)
    assert federation.x.shape == (4, 3, 4, 5)
    assert federation.x.mean(dim=(0, 2, 3)).tolist() == [0, 0, 1]
    assert federation.y.tolist() == [0, 1, 0, 1]
    grey = Rows({"image": Image.new("L", (5, 4), 51), "label": 1} for _ in range(4))
    federation = Federation.from_datasets([grey, grey])
    assert federation.x.shape == (8, 1, 4, 5)
    assert federation.x.unique().tolist() == [pytest.approx(0.2)]
    white = Rows({"x": Image.new("1", (5, 4), 1), "y": 0.5} for _ in range(4))
    federation = Federation.from_datasets([white])
    assert federation.x.unique().tolist() == [1]
    assert federation.y.dtype == torch.float32
    named = Rows({"pic": np.ones(2), "kind": "cat"} for _ in range(4))
    federation = Federation.from_datasets([named], x_key="pic", y_key="kind")
    assert federation.classes == ("cat",)


@pytest.mark.parametrize(
    ("datasets", "error", "words"),
    [
        ([], ValueError, "datasets: expected at least one data set"),
        ([iter([])], TypeError, r"datasets\[0\]: expected a data set with a length"),
        ([[]], ValueError, r"datasets\[0\]: expected at least one example"),
        ([[1, 2]], TypeError, r"datasets\[0\]\[0\]: expected a pair"),
        ([[{"pic": 1, "label": 1}]], KeyError, "keys 'pic', 'label', none of 'image'.*x_key="),
        ([[(np.zeros(2), 0)], [(np.zeros(3), 0)]], ValueError, r"datasets\[1\]\[0\]: .* like the"),
    ],
)
def test_data_sets_that_make_no_sense_are_refused(datasets, error, words):
    with pytest.raises(error, match=words):
        Federation.from_datasets(datasets)


# From tables


def frame():
    return pd.DataFrame(
        {
            "site": ["north"] * 10 + ["south"] * 20,
            "age": np.arange(30),
            "weight": np.linspace(50, 90, 30),
            "ill": ["no", "yes", "yes"] * 10,
        }
    )


def test_a_table_and_the_same_table_from_a_file(tmp_path):
    frame().to_csv(tmp_path / "patients.csv", index=False)
    options = {"client": "site", "label": "ill", "validation": 0.1, "standardise": False}
    one = Federation.from_table(frame(), name="p", **options)
    other = Federation.from_table(tmp_path / "patients.csv", **options)
    for federation in (one, other):
        assert federation.names == ("north", "south")
        assert federation.classes == ("no", "yes")
        assert federation.sizes.tolist() == [7, 14]
        assert len(federation.test) == 6
        torch.testing.assert_close(federation.x[:, 0], torch.arange(30.0))
        assert federation.y.tolist() == [0, 1, 1] * 10
    torch.testing.assert_close(one.x, other.x)


def test_columns_can_be_chosen_and_targets_predicted():
    federation = Federation.from_table(
        frame(), client="site", label="weight", features=["age"], test=frame().drop(columns="site"),
        standardise=False,
    )  # fmt: skip
    assert federation.x.shape == (60, 1)
    assert federation.n_classes == 0
    assert federation.test.tolist() == list(range(30, 60))


def test_names_of_clients_stay_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("id,a,y\n" + "007,1.5,0\n08,2.5,1\n" * 5)
    federation = Federation.from_table(str(tmp_path / "t.csv"), client="id", label="y")
    assert federation.names == ("007", "08")


def with_missing(column):
    table = frame().astype({"age": float, "site": object, "ill": object})
    table.loc[3, column] = None
    return table


@pytest.mark.parametrize(
    ("table", "arguments", "words"),
    [
        (frame(), {"client": "hospital"}, "client: the table has no column 'hospital'; it has 'si"),
        (frame(), {"label": "sick"}, "label: the table has no column 'sick'"),
        (frame(), {"features": ["age", "ill"]}, "features: column 'ill' does not hold numbers"),
        (frame(), {"features": []}, "features: expected at least one column"),
        (with_missing("age"), {}, "features: column 'age' has 1 missing value; "),
        (with_missing("site"), {}, "client: column 'site' has 1 missing value; "),
        (with_missing("ill"), {}, "label: column 'ill' has 1 missing value; "),
    ],
)
def test_tables_that_make_no_sense_are_refused(table, arguments, words):
    with pytest.raises(ValueError, match=words):
        Federation.from_table(table, **{"client": "site", "label": "ill", **arguments})


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="table: expected a table or the path of a CSV file"):
        Federation.from_table([1], client="a", label="b")
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        Federation.from_table("nothing.csv", client="a", label="b")


# From a data set that nobody holds yet


def test_only_what_is_held_is_kept():
    """The same examples, wherever they lie: those of the whole that clients and test set hold."""
    data = digits()
    x, y = data
    seen = []

    def first_ten(labels, rng):
        seen.append(labels)
        return Partition((np.arange(6), np.arange(6, 10)), None)

    federation = federate(data, first_ten, test=0.01, validation=0.5)
    assert len(federation.x) == 10 + 18  # 1 % of 1797 for the test set
    assert federation.sizes.tolist() == [3, 2]
    assert [len(held) for held in federation.validation] == [3, 2]
    assert federation.n_classes == 10
    assert federation.name == "digits"
    held = federation.indices("train").tolist() + federation.indices("validation").tolist()
    held = np.sort(held)
    np.testing.assert_array_equal(federation.y[held].sort()[0], np.sort(seen[0][:10]))
    known = {
        (tuple(image.flatten().tolist()), int(label)) for image, label in zip(x, y, strict=True)
    }
    for image, label in zip(federation.x, federation.y, strict=True):
        assert (tuple(image.flatten().tolist()), int(label)) in known


def test_a_published_test_set_is_used():
    stored = torch.arange(20, dtype=torch.uint8).view(10, 2, 1, 1)
    data = Dataset("ten", stored, torch.arange(10), np.array([8, 9]), 1.0, (0.0, 1.0), (1.0, 2.0))
    federation = federate(data, "iid", n_clients=2)
    assert federation.x[:, :, 0, 0].tolist() == [[2 * i, i] for i in range(10)]
    assert federation.test.tolist() == [8, 9]
    assert np.sort(federation.indices("train")).tolist() == list(range(8))


def test_names_and_functions_give_the_same():
    named = federate("digits", "clustered", per_client=64, seed=2)
    called = federate(digits(), clustered, per_client=64, seed=2)
    assert torch.equal(named.x, called.x)
    assert torch.equal(named.x, clustered_digits(seed=2).x)
    assert named.groups.tolist() == called.groups.tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("digit", "iid"), KeyError, "no data set named 'digit'; did you mean 'digits'"),
        (("digits", "shard"), KeyError, "no partition named 'shard'; did you mean 'shards'"),
        (("synthetic", "iid"), ValueError, "partition: 'synthetic' comes divided; expected None"),
        ((digits(), None), TypeError, "partition: expected a name or a function of labels"),
    ],
)
def test_unknown_names_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        federate(*arguments)


def test_impossible_normalisations_are_refused():
    stored, y = torch.zeros((2, 3, 1, 1), dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="std: expected finite numbers"):
        Dataset("none", stored, y, std=(1.0, 1.0, 0.0))
    with pytest.raises(ValueError, match=r"mean: expected shape \(3,\), got \(1,\)"):
        Dataset("none", stored, y, mean=(1.0,))


# -- shared memory ---------------------------------------------------------------------------------


def test_runs_in_two_threads_share_one_copy_of_the_data(monkeypatch):
    """Whoever copies first waits for a second that copies too: with a lock there is none."""
    second_came, n_copies = threading.Event(), []

    class Watched(Shared):
        @classmethod
        def of(cls, tensor):
            n_copies.append(1)
            if len(n_copies) == 1:
                second_came.wait(timeout=0.5)
            else:
                second_came.set()
            return Shared.of(tensor)

    monkeypatch.setattr(federations, "Shared", Watched)
    federation = clustered_digits()
    x = federation.x.clone()
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: federation.shared(), range(2))
    assert first is second
    assert len(n_copies) == 2  # x and y, each once
    assert federation.x.stored.data_ptr() == first[0].tensor.data_ptr()
    assert torch.equal(federation.x, x)


def test_data_in_shared_memory_are_copied_whole():
    federation = clustered_digits()
    federation.shared()
    again = pickle.loads(pickle.dumps(federation))
    assert "_shared" not in vars(again)
    assert torch.equal(again.x, federation.x)
    assert torch.equal(again.y, federation.y)
