"""fluke: one process, clients one after the other.

Run by ``python -m benchmarks.peers.fluke --workload W3`` in fluke's environment. Two threads help
the convolutions and hinder softmax regression, so each workload has the number that is faster.
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import ServerObserver

from benchmarks.models import build
from benchmarks.peers import common
from benchmarks.peers.torch_steps import StepCounter
from benchmarks.workloads import N_CLASSES, Workload, load_client


def loader(workload: Workload, client: int) -> FastDataLoader:
    # fluke counts epochs: a client that makes five steps gets the examples of five steps.
    tensors = [
        torch.from_numpy(part)[: workload.visited_per_client]
        for part in load_client(workload, client)
    ]
    return FastDataLoader(
        *tensors, num_labels=N_CLASSES, batch_size=workload.batch_size, shuffle=True
    )


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    watch = common.Stopwatch(given)
    torch.set_num_threads(2 if len(workload.shape) == 3 else 1)
    environment = FlukeENV()
    environment.set_seed(0)
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)

    loaders = [loader(workload, client) for client in workload.trained]
    container = DummyDataContainer(loaders, [None] * len(loaders), None, N_CLASSES)
    algorithm = FedAVG(
        n_clients=len(loaders),
        data_splitter=DataSplitter(container, distribution="iid"),
        hyper_params=DDict(
            model=build(workload.model),
            client=DDict(
                batch_size=workload.batch_size,
                local_epochs=workload.epochs or 1,
                loss="CrossEntropyLoss",
                optimizer=DDict(name="SGD", lr=workload.lr, weight_decay=workload.weight_decay),
                scheduler=DDict(name="StepLR", step_size=1, gamma=1),
            ),
            server=DDict(weighted=True),
        ),
    )
    counter = StepCounter()
    counted: list[int] = []

    class Watch(ServerObserver):
        def end_round(self, *_: object, **__: object) -> None:
            if not counted:
                counter.remove()
                counted.append(counter.steps)
            watch.round_done()

    algorithm.attach(Watch())
    algorithm.run(given.total, eligible_perc=1)
    if counted[0] != sum(len(part) for part in loaders) * (workload.epochs or 1):
        sys.exit(f"{counted[0]} steps counted do not match the loaders")
    watch.report("fluke", version("fluke-fl"), counted[0], torch=torch.__version__)


if __name__ == "__main__":
    main()
