"""One vector for a whole model, and back."""

import numpy as np
import pytest
import torch
from torch import nn

from understudy.core.flat import Layout, other_buffers


class Small(nn.Module):
    """A parameter of every kind: tied, scalar, with floating, integer and passing buffers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3, bias=False)
        self.norm = nn.BatchNorm1d(3)
        self.last = nn.Linear(2, 3, bias=False)
        self.last.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("passing", torch.ones(5), persistent=False)


NAMES = (
    "scale",
    "first.weight",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
)


def test_parameters_come_first_then_floating_buffers_and_tied_ones_once():
    layout = Layout.of(Small())
    assert layout.names == NAMES
    assert layout.shapes == ((), (3, 2), (3,), (3,), (3,), (3,))
    assert layout.n_parameters == 1 + 6 + 3 + 3
    assert layout.size == 13 + 3 + 3
    assert layout.dtype == torch.float32


def test_vector_is_the_values_in_that_order():
    module = Small()
    with torch.no_grad():
        module.first.weight.copy_(torch.arange(6.0).view(3, 2))
        module.norm.running_mean.copy_(torch.tensor([7.0, 8.0, 9.0]))
    vector = Layout.of(module).vector(module)
    expected = [2, 0, 1, 2, 3, 4, 5, 1, 1, 1, 0, 0, 0, 7, 8, 9, 1, 1, 1]
    assert vector.tolist() == expected
    assert not vector.requires_grad
    vector[0] = 5  # a copy, not a view
    assert module.scale.item() == 2


def test_load_writes_all_but_integer_buffers_and_keeps_ties():
    module = Small()
    layout = Layout.of(module)
    module.norm.num_batches_tracked += 4
    vector = torch.arange(19.0)
    layout.load(module, vector)
    torch.testing.assert_close(layout.vector(module), vector, rtol=0, atol=0)
    assert module.norm.num_batches_tracked == 4
    assert module.last.weight is module.first.weight
    assert module.last.weight[0, 0] == 1.0
    assert module.passing.tolist() == [1.0] * 5
    assert module.first.weight.requires_grad


def test_other_buffers_are_those_that_are_not_in_the_vector():
    module = Small()
    assert [tuple(buffer.shape) for buffer in other_buffers(module)] == [(5,), ()]


def test_named_gives_views_and_join_undoes_it():
    layout = Layout.of(Small())
    vector = torch.arange(19.0)
    named = layout.named(vector)
    assert tuple(named) == NAMES
    assert named["first.weight"].tolist() == [[1, 2], [3, 4], [5, 6]]
    named["scale"].fill_(-1)
    assert vector[0] == -1
    assert torch.equal(layout.join(named), vector)
    arrays = {name: value.numpy().astype(np.float64) for name, value in reversed(named.items())}
    joined = layout.join(arrays)
    assert joined.dtype == torch.float32
    assert torch.equal(joined, vector)
    assert [tuple(piece.shape) for piece in layout.parameters(vector)] == [(), (3, 2), (3,), (3,)]


def test_join_names_what_is_missing_unexpected_or_misshapen():
    layout = Layout.of(Small())
    named = layout.named(torch.zeros(19))
    without = {name: value for name, value in named.items() if name != "norm.bias"}
    with pytest.raises(ValueError, match=r"missing \['norm.bias'\], unexpected \['extra'\]"):
        layout.join({**without, "extra": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"layout; unexpected \['extra'\]"):
        layout.join({**named, "extra": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"'first.weight'.: expected shape \(3, 2\), got \(2, 3\)"):
        layout.join({**named, "first.weight": torch.zeros(2, 3)})


def test_a_vector_of_another_length_is_refused():
    layout = Layout.of(Small())
    for wrong in (torch.zeros(18), torch.zeros(19, 1)):
        with pytest.raises(ValueError, match=r"vector: expected shape \(19,\), got"):
            layout.named(wrong)
        with pytest.raises(ValueError, match=r"vector: expected shape \(19,\), got"):
            layout.load(Small(), wrong)


def test_another_module_is_refused():
    layout = Layout.of(nn.Linear(2, 3))
    for other in (nn.Linear(2, 4), nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3)):
        with pytest.raises(ValueError, match="not those of this layout"):
            layout.load(other, torch.zeros(9))


def test_one_floating_type_for_all():
    mixed = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1).double())
    with pytest.raises(ValueError, match=r"torch.float32 for '0.weight' and torch.float64 for '1"):
        Layout.of(mixed)
    whole = nn.Linear(2, 3).double()
    assert Layout.of(whole).vector(whole).dtype == torch.float64


def test_modules_without_parameters_or_shapes_are_refused():
    with pytest.raises(ValueError, match="at least one parameter"):
        Layout.of(nn.ReLU())
    with pytest.raises(ValueError, match="'weight' has no shape yet"):
        Layout.of(nn.LazyLinear(3))


def test_layouts_of_equal_modules_are_equal():
    assert Layout.of(Small()) == Layout.of(Small())
    assert Layout.of(nn.Linear(2, 3)) != Layout.of(nn.Linear(3, 2))
