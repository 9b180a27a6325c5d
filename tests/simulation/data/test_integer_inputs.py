"""Whole numbers as inputs: they stay whole, and are converted only for models that take none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from understudy import Local, fedavg
from understudy.simulation import Federation, simulate
from understudy.simulation.data.fingerprint import federation_digest

LOCAL = Local(lr=0.5, epochs=2, batch_size=10)
RNG = np.random.default_rng(3)
WORDS = RNG.integers(0, 1000, (120, 6))
WORDS[:, 0] = 2**24 + 1  # which float32 cannot tell from its neighbour
LABELS = WORDS[:, 1] % 2
OWNERS = np.arange(120) % 4


class BagOfWords(nn.Module):
    """Looks words up: an embedding takes whole numbers only."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(1000, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.embedding(x % 1000).mean(dim=1))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16, np.uint16])
def test_arrays_of_whole_numbers_stay_whole(kind):
    words = WORDS[:, 1:].astype(kind)
    data = Federation.from_arrays(words, LABELS, clients=OWNERS)
    assert data.x.dtype == torch.int64
    assert torch.equal(data.x, torch.tensor(WORDS[:, 1:]))


def test_so_do_data_sets_and_large_numbers():
    sets = [TensorDataset(torch.tensor(WORDS), torch.tensor(LABELS))] * 2
    data = Federation.from_datasets(sets)
    assert data.x.dtype == torch.int64
    assert (data.x[:, 0] == 2**24 + 1).all()


def test_pixels_truth_values_and_a_type_that_is_asked_for():
    pixels = np.full((120, 2), 51, dtype=np.uint8)
    assert Federation.from_arrays(pixels, LABELS, clients=OWNERS).x.unique().tolist() == [
        pytest.approx(0.2)
    ]
    for given, options in ((WORDS > 500, {}), (WORDS, {"dtype": torch.float32})):
        data = Federation.from_arrays(given, LABELS, clients=OWNERS, **options)
        assert data.x.dtype == torch.float32
    mixed = Federation.from_arrays(
        WORDS, LABELS, clients=OWNERS, test=(np.full((3, 6), 0.5), LABELS[:3])
    )
    assert mixed.x[-1].tolist() == [0.5] * 6  # never cut to 0


def test_an_embedding_learns_from_them():
    data = Federation.from_arrays(WORDS, LABELS, clients=OWNERS)
    run = simulate(data, fedavg(local=LOCAL), model=BagOfWords, rounds=2, workers=1)
    *_, last = run
    assert run.federation.x.dtype == torch.int64
    assert run.engine == "loop"
    assert np.isfinite(last.metrics["test_loss"])


@pytest.mark.parametrize("model", ["softmax", "mlp", lambda: nn.Linear(6, 2).double()])
def test_other_models_get_the_same_numbers_as_floats(model):
    """Bit for bit as with inputs that were floats from the beginning."""
    x = WORDS % 7
    wanted = torch.float32 if isinstance(model, str) else torch.float64
    whole = Federation.from_arrays(x, LABELS, clients=OWNERS)
    floats = Federation.from_arrays(x, LABELS, clients=OWNERS, dtype=wanted)
    ends = []
    for data in (whole, floats):
        run = simulate(data, fedavg(local=LOCAL), model=model, rounds=2, per_client_every=1)
        list(run)
        assert run.federation.x.dtype == wanted
        ends.append((run.state.params, federation_digest(run.federation)))
    assert torch.equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
    assert whole.x.dtype == torch.int64  # the user's own stays as it is


def test_what_is_wrong_beside_their_type_is_said_as_it_is():
    data = Federation.from_arrays(WORDS, LABELS, clients=OWNERS)
    with pytest.raises(RuntimeError, match=r"mat1|shape|dtype"):
        list(simulate(data, fedavg(), model=lambda: nn.Linear(5, 2), rounds=1, workers=1))
