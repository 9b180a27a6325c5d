"""The workloads' models as torch modules, the same for every engine that runs torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


class MnistCnn(nn.Module):
    """FL-FDMS's network for MNIST; 21,840 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


class LeNet(nn.Module):
    """LeNet-5 for 3 × 32 × 32 pictures; 62,006 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def softmax_784() -> nn.Module:
    return nn.Linear(784, 10)


def softmax_60() -> nn.Module:
    return nn.Linear(60, 10)


def mlp_200() -> nn.Module:
    """McMahan et al.'s perceptron; 199,210 parameters."""
    return nn.Sequential(
        nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )


def mcmahan_cnn() -> nn.Module:
    """McMahan et al.'s network for MNIST; 1,663,370 parameters."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mnist_cnn": MnistCnn,
    "lenet": LeNet,
    "softmax_784": softmax_784,
    "softmax_60": softmax_60,
    "mlp_200": mlp_200,
    "mcmahan_cnn": mcmahan_cnn,
}


def build(name: str) -> nn.Module:
    """The model of that name, with the same start in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS[name]()
