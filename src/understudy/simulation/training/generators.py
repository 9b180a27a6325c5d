"""Torch's own generators, from which dropout layers draw: on the CPU, and on the run's device."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch


def forked(device: str) -> AbstractContextManager[None]:
    """The generators that training on a device draws from are afterwards as before."""
    where = torch.device(device)
    if where.type in ("cpu", "mps"):  # torch cannot put back that of "mps"
        return torch.random.fork_rng(devices=[])
    index = where.index if ":" in device else getattr(torch, where.type).current_device()
    return torch.random.fork_rng(devices=[index], device_type=where.type)


def seed(value: int, device: str) -> None:
    """Seed the generators that training on a device draws from."""
    if torch.device(device).type == "cpu":
        torch.default_generator.manual_seed(value)
    else:
        torch.manual_seed(value)  # those of all devices
