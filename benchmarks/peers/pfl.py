"""pfl-research: two gloo processes under torchrun, each with one thread.

Run by ``python -m benchmarks.peers.pfl --workload W3`` in pfl's environment.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.metadata import version

from benchmarks.peers import common

PROCESSES = 2


def launch() -> None:
    """Become torchrun with two processes of this very module."""
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1"]
    command += [f"--nproc-per-node={PROCESSES}", "--master-addr=127.0.0.1", "--master-port=29511"]
    command += ["-m", "benchmarks.peers.pfl", *sys.argv[1:]]
    os.execv(sys.executable, command)


def main() -> None:
    given = common.options(__doc__)
    common.alone_on_the_network()
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        launch()

    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset, get_user_sampler
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel
    from torch.nn import functional as F

    from benchmarks.models import build
    from benchmarks.peers.torch_steps import StepCounter
    from benchmarks.workloads import load_client

    torch.set_num_threads(1)
    workload = given.workload
    watch = common.Stopwatch(given, root=os.getppid())

    class Module(torch.nn.Module):
        """The workload's model with the methods that pfl asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = build(workload.model)

        def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.inner(x), y)

        @torch.no_grad()
        def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
            return {"loss": Weighted(self.loss(x, y).item() * len(x), len(x))}

    datasets = {
        client: PyTorchTensorDataset(
            tuple(map(torch.from_numpy, load_client(workload, client))), user_id=str(client)
        )
        for client in workload.trained
    }
    trained: list[int] = []  # by this process

    def dataset_of(client: int) -> PyTorchTensorDataset:
        trained.append(client)
        return datasets[client]

    # With a cohort of everybody this sampler gives each client once a round, with a smaller one
    # everybody once before anybody again; the weights let pfl
    # balance its processes where the clients differ.
    sampler = get_user_sampler("minimize_reuse", list(workload.trained))
    unequal = len({workload.sizes[client] for client in workload.trained}) > 1
    weights = {client: workload.client_steps(client) for client in workload.trained}
    federation = FederatedDataset(dataset_of, sampler, weights if unequal else None)

    module = Module()
    central = torch.optim.SGD(module.parameters(), lr=1.0)
    counter = StepCounter(ignored=central)
    counted: list[int] = []

    class Watch(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            if central_iteration == 0:
                counter.remove()
                counted.append(counter.steps)
            watch.round_done()
            return False, Metrics()

    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=given.total,
            evaluation_frequency=10**9,  # the first round is evaluated all the same: warm-up
            train_cohort_size=workload.clients_per_round,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(
            training_data=federation, val_data=federation, postprocessors=[WeightByDatapoints()]
        ),
        model=PyTorchModel(
            module,
            local_optimizer_create=partial(torch.optim.SGD, weight_decay=workload.weight_decay),
            central_optimizer=central,
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=workload.epochs,
            local_num_steps=workload.steps,
            local_learning_rate=workload.lr,
            local_batch_size=workload.batch_size,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=10_000),
        callbacks=[Watch()],
        send_metrics_to_platform=False,
    )
    # Optimizer steps really made in the first round; clients really trained in all of them.
    derived = sum(workload.client_steps(client) for client in trained) / given.total
    sums = torch.tensor([float(counted[0]), derived], dtype=torch.float64)
    torch.distributed.all_reduce(sums)
    if os.environ["RANK"] == "0":
        if sums[0] != sums[1]:
            sys.exit(f"{sums[0]} steps in the first round, {sums[1]} on average")
        watch.report("pfl", version("pfl"), sums[0].item(), torch=torch.__version__)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
