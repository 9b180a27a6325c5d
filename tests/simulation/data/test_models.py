"""Models by name: parameters counted by hand, shapes, first weights."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.simulation.data.models import MODELS, build

GREY, COLOUR, TEXT = (1, 28, 28), (3, 32, 32), (80,)
OF_IMAGES = [name for name in MODELS if not name.startswith("char_")]


def resnet_count():
    """Stem 3·64·9 and a norm 2·64; stages of two blocks; 512·10 + 10 at the end.

    A block from i to o channels has i·o·9 and o·o·9 weights and two norms of 2·o; where the stride
    is 2 the way around adds i·o weights and a norm of 2·o.
    """

    def block(i, o, around):
        return i * o * 9 + o * o * 9 + 4 * o + (i * o + 2 * o) * around

    stages = [block(64, 64, 0) * 2]
    stages += [block(i, 2 * i, 1) + block(2 * i, 2 * i, 0) for i in (64, 128, 256)]
    return 3 * 64 * 9 + 2 * 64 + sum(stages) + 512 * 10 + 10


# inputs × outputs (× 5 × 5) + biases, layer by layer
COUNTS = {
    "softmax": (GREY, 784 * 10 + 10),
    "mlp": (GREY, 784 * 32 + 32 + 32 * 10 + 10),
    # 28 → 24 → 12 → 8 → 4: 20 · 4 · 4 = 320
    "fdms_cnn": (GREY, (25 + 1) * 10 + (250 + 1) * 20 + (320 + 1) * 50 + 51 * 10),
    # 32 → 28 → 14 → 10 → 5: 16 · 5 · 5 = 400
    "lenet5": (COLOUR, (75 + 1) * 6 + (150 + 1) * 16 + 401 * 120 + 121 * 84 + 85 * 10),
    # 64 · 5 · 5 = 1600
    "fedgs_cifar": (COLOUR, 76 * 64 + 1601 * 64 + 1601 * 384 + 385 * 192 + 193 * 10),
    # padded: 28 → 14 → 7: 64 · 7 · 7 = 3136
    "fedgs_fmnist": (GREY, 26 * 32 + 801 * 64 + 3137 * 512 + 513 * 10),
    "resnet18": (COLOUR, resnet_count()),
    # an LSTM's layer has four gates, each with two biases
    "char_lstm": (TEXT, 80 + 4 * 256 * (8 + 256 + 2) + 4 * 256 * (512 + 2) + 257 * 10),
    # a layer: two norms, 64 → 192, 64 → 64, 64 → 256 → 64
    "char_transformer": (
        TEXT,
        640 + 80 * 64 + 2 * (256 + 65 * 192 + 65 * 64 + 65 * 256 + 257 * 64) + 128 + 65 * 10,
    ),
}
TOLD = {  # in the docstrings
    "fdms_cnn": 21_840,
    "lenet5": 62_006,
    "fedgs_cifar": 797_962,
    "fedgs_fmnist": 1_663_370,
    "resnet18": 11_173_962,
}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_by_hand(name):
    shape, expected = COUNTS[name]
    module = build(name, shape, 10, seed=0)
    assert sum(parameter.numel() for parameter in module.parameters()) == expected
    assert not list(module.buffers())
    assert TOLD.get(name, expected) == expected
    if name in TOLD:
        assert f"{expected:,}" in MODELS[name].__doc__


@pytest.mark.parametrize("name", OF_IMAGES)
@pytest.mark.parametrize("shape", [GREY, COLOUR, (2, 20, 33)])
def test_any_image_and_any_number_of_classes(name, shape):
    module = build(name, shape, 7, seed=0)
    outputs = module(torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)))
    assert outputs.shape == (2, 7)
    outputs.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_pooling_before_rectifying_is_the_same():
    """Values and gradients of FL-FDMS's network, written out the other way round."""
    module = build("fdms_cnn", GREY, 10, seed=0).double()
    first, pool, relu, second, _, _, flatten, wide, _, last = module
    swapped = nn.Sequential(
        first, relu, pool, second, relu, pool, flatten, wide, relu, last
    )  # the same layers, hence the same weights
    x = torch.randn(6, *GREY, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.arange(6)
    one, other = (
        torch.autograd.grad(cross_entropy(order(x), y), list(module.parameters()))
        for order in (module, swapped)
    )
    torch.testing.assert_close(module(x), swapped(x), rtol=0, atol=0)
    for gradient, expected in zip(one, other, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-15)
        assert gradient.abs().max() > 0


def test_the_seed_decides_the_first_weights_and_nothing_else_is_touched():
    before = torch.random.get_rng_state()
    one, same, other = (build("lenet5", COLOUR, 10, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one[0].weight, same[0].weight)
    assert not torch.equal(one[0].weight, other[0].weight)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cnn", GREY, 10), "model: expected one of 'softmax', .* got 'cnn'"),
        (("lenet5", (1, 8, 8), 10), "model: 'lenet5' needs larger images than 8×8"),
        (("fdms_cnn", (60,), 10), r"model: 'fdms_cnn' takes images .* shape \(60,\)"),
        (("resnet18", (60,), 10), "model: 'resnet18' takes images"),
        (("mlp", GREY, 0), "n_classes: 'mlp' needs at least one output, got 0"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        build(*arguments, seed=0)


def test_a_function_that_gives_no_module_is_refused():
    with pytest.raises(TypeError, match="model: expected a function that returns a module, got 3"):
        build(lambda: 3, GREY, 10, seed=0)
