"""What a run is measured against: a constant prediction, and all data in one place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from understudy.parts.local import Plain
from understudy.server.strategy import Strategy
from understudy.simulation.data.federation import Federation
from understudy.simulation.settings import Simulation
from understudy.simulation.training.evaluation import labels_of, score
from understudy.simulation.training.metrics import METRICS, recall
from understudy.strategies import strategy_of


@torch.no_grad()
def constant_scores(federation: Federation, settings: Simulation) -> dict[str, float]:
    """Test scores of predicting the same for every example, whatever its inputs are.

    Of classes: their shares among all training examples, so that the most frequent one is the
    answer. Of a regression: the mean of the training targets. Loss, accuracy and those of the
    run's metrics that have a name of ours; what is not finite is left out.
    """
    y, test = federation.y, federation.test
    if y.is_floating_point():
        mean = labels_of(y, np.concatenate(federation.clients)).double().mean(dim=0).to(y.dtype)
        outputs = mean.expand(len(test), *mean.shape)
    elif federation.label_counts is not None:
        shares = torch.from_numpy(federation.label_counts.sum(axis=0)).log()  # log 0: never
        outputs = shares.float().to(y.device).expand(len(test), -1)
    else:
        return {}

    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        try:
            return settings.loss(outputs, labels)
        except Exception:  # the user's own may want what only the user's model gives
            return torch.tensor(math.nan)

    ours = {
        name: metric
        for name, metric in settings.metrics.items()
        if metric in METRICS.values() and metric is not recall  # 1 for one class, 0 for the others
    }
    found = score(outputs, labels_of(y, test), loss, ours)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def pooled(federation: Federation, strategy: Strategy | str) -> tuple[Federation, Strategy]:
    """All training data at one client, and a strategy by which it trains alone.

    Parameters
    ----------
    federation : Federation
        The data, and who holds it.
    strategy : Strategy or str
        Whose local training is used, without a rule such as FedProx's term.

    Returns
    -------
    Federation, Strategy
        For `simulate`. In a round the one client makes as many gradient steps as all clients
        together would: the same number of epochs over all data, or N times the number of steps.

    Examples
    --------
    >>> from understudy import fedavg
    >>> from understudy.simulation import clustered_digits, pooled, simulate
    >>> run = simulate(*pooled(clustered_digits(), fedavg()), model="softmax", rounds=2)
    >>> [len(log.outcome) for log in run]
    [1, 1]
    """
    local = replace(strategy_of(strategy).local, rule=Plain())
    if local.steps is not None:
        local = replace(local, steps=local.steps * federation.n_clients)
    validation = federation.validation
    together = replace(
        federation,
        clients=(np.unique(np.concatenate(federation.clients)),),
        validation=None if validation is None else (np.unique(np.concatenate(validation)),),
        groups=None,
        features=None,
        names=None,
        test_clients=None,
    )
    return together, Strategy(local=local)
