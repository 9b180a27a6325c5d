"""The model, and who holds which digits. Put your own here."""

from functools import lru_cache

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, MetricRecord

from understudy.flower import ClientData
from understudy.simulation import Federation, build, clustered_digits, evaluate

CLASSES = 10


def make_model() -> torch.nn.Module:
    """One hidden layer of 32 units."""
    return build("mlp", (1, 8, 8), CLASSES, seed=0)


@lru_cache
def digits(n_clients: int) -> Federation:
    """The embedded digits, divided so that at least two clients hold the same classes."""
    n_clusters = min(5, max(1, n_clients // 2))
    return clustered_digits(
        n_clients=n_clients,
        n_clusters=n_clusters,
        classes_per_cluster=CLASSES // n_clusters,
        per_client=min(64, 1200 // n_clients),
    )


def load_data(context: Context) -> ClientData:
    """What this client holds, by what its --node-config says."""
    number = int(context.node_config["partition-id"])
    held = digits(int(context.node_config["num-partitions"]))
    mine = torch.from_numpy(held.clients[number])
    return ClientData(held.x[mine], held.y[mine], n_classes=CLASSES)


def central_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """How good the model is on digits that no client holds."""
    model = make_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    everything = digits(5)
    loss, accuracy = evaluate(model, everything, np.asarray(everything.test))
    return MetricRecord({"loss": loss, "accuracy": accuracy})
