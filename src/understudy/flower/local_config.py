"""`Strategy.local` on its way to the clients: what a round asks of them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.flower import names
from understudy.parts.local import Local, Plain, Proximal


def local_values(local: Local, t: int, seed: int) -> dict[str, float | int]:
    """How clients train in round `t`: the step and the batch size are those of the round."""
    values: dict[str, float | int] = {
        names.LR: local.lr_at(t),
        names.EPOCHS: local.epochs,
        names.BATCH_SIZE: local.batch_size_at(t),
        names.MOMENTUM: float(local.momentum),
        names.WEIGHT_DECAY: float(local.weight_decay),
        names.MU: float(local.rule.mu),
        names.SEED: seed,
    }
    if local.steps is not None:
        values[names.STEPS] = local.steps
    return values


def local_of(values: Mapping[str, Any]) -> Local:
    """What `local_values` said. SCAFFOLD's correction comes as an array, so its rule is plain."""
    for name in (names.LR, names.BATCH_SIZE):
        if name not in values:
            raise ValueError(
                f"config: expected {name!r}, got only {sorted(values)}; is the server's strategy "
                "an UnderstudyStrategy?"
            )
    mu = float(values.get(names.MU, 0.0))
    steps = values.get(names.STEPS)
    return Local(
        lr=float(values[names.LR]),
        epochs=int(values.get(names.EPOCHS, 1)),
        steps=None if steps is None else int(steps),
        batch_size=int(values[names.BATCH_SIZE]),
        momentum=float(values.get(names.MOMENTUM, 0.0)),
        weight_decay=float(values.get(names.WEIGHT_DECAY, 0.0)),
        rule=Proximal(mu) if mu else Plain(),
    )
