"""What FLGo looks for in the module of a task: the clients' data and how a loss is computed."""

from __future__ import annotations

from typing import Any

import torch
from flgo.benchmark.base import BasicTaskPipe
from flgo.benchmark.toolkits.cv.classification import GeneralCalculator

from benchmarks.workloads import WORKLOADS, load_client

# FLGo's own for classification: cross-entropy, and a shuffling DataLoader over single examples.
TaskCalculator = GeneralCalculator


class TaskPipe(BasicTaskPipe):
    def load_data(self, running_time_option: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The examples of each client that trains, whole; nobody has anything to evaluate on."""
        workload = WORKLOADS[self.feddata["workload"]]
        sets = (
            torch.utils.data.TensorDataset(
                *(torch.from_numpy(part) for part in load_client(workload, client))
            )
            for client in workload.trained
        )
        return {
            name: {"train": examples}
            for name, examples in zip(self.feddata["client_names"], sets, strict=True)
        }
