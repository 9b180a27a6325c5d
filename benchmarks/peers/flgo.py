"""FLGo's simulation: one process, two clients at a time where that helps.

Run by ``python -m benchmarks.peers.flgo --workload W3`` in FLGo's environment. FLGo trains clients
in parallel by threads, processes or Ray. Its processes are made anew in every round and are sent
the whole federation with each client, which costs more than the second core brings; its Ray tasks
ask for a GPU. Threads help the convolutions and change nothing for softmax regression.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import flgo
import torch
from flgo.algorithm import fedbase
from flgo.experiment.logger import BasicLogger
from flgo.utils.fmodule import FModule

from benchmarks.models import MODELS, build
from benchmarks.peers import common
from benchmarks.peers.torch_steps import StepCounter
from benchmarks.workloads import Workload


class Model(FModule):
    """The workload's model with FLGo's arithmetic, which makes new ones without arguments."""

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self.model = MODELS[self.name]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


class Models:
    """Gives the server its model; FLGo sends clients a copy."""

    @staticmethod
    def init_global_module(party: Any) -> None:
        if isinstance(party, fedbase.BasicServer):
            party.model = Model()
            party.model.model.load_state_dict(build(Model.name).state_dict())


class FedAvg:
    """FLGo's federated averaging, which tells the stopwatch of every round."""

    class Server(fedbase.BasicServer):
        def global_lr_scheduler(self, current_round: int) -> None:
            """The last thing of a round: the rate stays, the round is noted."""
            self.counter.remove()
            if len(self.received_clients) != self.num_clients:
                sys.exit(f"{len(self.received_clients)} clients of {self.num_clients} trained")
            self.watch.round_done()

    class Client(fedbase.BasicClient):
        pass


class Silent(BasicLogger):
    """FLGo's logger without evaluation."""

    def log_once(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("nothing is to be evaluated")


def write_task(folder: Path, workload: Workload) -> None:
    """The files FLGo expects of a task; they name the data instead of holding them."""
    names = [f"Client{client}" for client in workload.trained]
    (folder / "record").mkdir()
    (folder / "info").write_text(json.dumps({"benchmark": "benchmarks.peers.flgo_task"}))
    (folder / "data.json").write_text(
        json.dumps({"client_names": names, "workload": workload.name})
    )


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    watch = common.Stopwatch(given)
    Model.name = workload.model
    option = {
        "sample": "full",
        "aggregate": "other",  # by examples
        "num_rounds": given.total,
        "num_epochs": workload.epochs or 1,
        "num_steps": workload.steps or -1,
        "learning_rate": workload.lr,
        "batch_size": workload.batch_size,
        "weight_decay": workload.weight_decay,
        "train_holdout": 0.0,
        "eval_interval": -1,
        "num_parallels": 2 if len(workload.shape) == 3 else 1,
        "parallel_type": "t",
        "torch_num_threads": 1,
        "no_log_console": True,
        "no_tqdm": True,
    }
    with tempfile.TemporaryDirectory() as folder:
        write_task(Path(folder), workload)
        server = flgo.init(folder, FedAvg, option, model=Models, Logger=Silent)
        server.watch, server.counter = watch, StepCounter()
        server.run()
    watch.report("FLGo", version("flgo"), server.counter.steps, torch=torch.__version__)


if __name__ == "__main__":
    main()
