"""`Strategy.local` as plain values in a ConfigRecord, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from understudy.flower.messages import names
from understudy.parts.local import Local, Plain, Proximal


def local_values(local: Local, t: int, seed: int, updates: int) -> dict[str, float | int | str]:
    """How clients train in round `t`, before which the model was changed `updates` times."""
    values: dict[str, float | int | str] = {
        names.LR: local.lr_at(updates),
        names.EPOCHS: local.epochs,
        names.BATCH_SIZE: local.batch_size_at(t),
        names.MOMENTUM: float(local.momentum),
        names.WEIGHT_DECAY: float(local.weight_decay),
        names.MU: float(local.rule.mu),
        names.SEED: seed,
    }
    if local.steps is not None:
        values[names.STEPS] = local.steps
    if not local.plain_sgd:
        values[names.OPTIMIZER] = local.optimizer
        values[names.OPTIMIZER_OPTIONS] = json.dumps(dict(local.optimizer_options))
    return values


def local_of(values: Mapping[str, Any]) -> Local:
    """The inverse of `local_values`. SCAFFOLD's correction is an array, so its rule is plain."""
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
        optimizer=str(values.get(names.OPTIMIZER, "sgd")),
        optimizer_options=json.loads(values.get(names.OPTIMIZER_OPTIONS, "{}")),
    )
