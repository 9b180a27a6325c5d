"""FedLab's standalone simulation: one process, clients one after the other.

Run by ``python -m benchmarks.peers.fedlab --workload W3`` in FedLab's environment. FedLab imports
torchvision for data sets that are not used here, and PyPI's torchvision needs a CUDA build of
torch: empty modules stand in for it.
"""

from __future__ import annotations

import sys
import types
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore", FutureWarning)  # torch's about pynvml

import torch  # noqa: E402

sys.modules["torchvision"] = types.ModuleType("torchvision")
sys.modules["torchvision.transforms"] = types.ModuleType("torchvision.transforms")
sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]  # type: ignore[attr-defined]

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402
from fedlab.utils import Aggregators, SerializationTool  # noqa: E402

from benchmarks.models import build  # noqa: E402
from benchmarks.peers import common  # noqa: E402
from benchmarks.peers.torch_steps import StepCounter  # noqa: E402
from benchmarks.workloads import Workload, load_client  # noqa: E402


class Loaders:
    """What a trainer asks for loaders; a client of five steps gets the examples of five steps."""

    def __init__(self, workload: Workload) -> None:
        self.sets = [
            torch.utils.data.TensorDataset(
                *(
                    torch.from_numpy(part)[: workload.visited_per_client]
                    for part in load_client(workload, client)
                )
            )
            for client in workload.trained
        ]

    def get_dataloader(self, client: int, batch_size: int) -> torch.utils.data.DataLoader:
        return torch.utils.data.DataLoader(self.sets[client], batch_size, shuffle=True)


class Trainer(FedAvgSerialClientTrainer):
    def setup_decay(self, weight_decay: float) -> None:
        self.optimizer = torch.optim.SGD(
            self._model.parameters(), self.lr, weight_decay=weight_decay
        )


class Server(FedAvgServerHandler):
    """Averages by examples, as the others do."""

    def global_update(self, buffer: list[list[torch.Tensor]]) -> None:
        mean = Aggregators.fedavg_aggregate([part[0] for part in buffer], self.weights)
        SerializationTool.deserialize_model(self._model, mean)


class Pipeline(StandalonePipeline):
    def evaluate(self) -> None:
        """Called after every round: nothing is evaluated, the round is noted."""
        self.counter.remove()
        self.watch.round_done()


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    watch = common.Stopwatch(given)
    torch.set_num_threads(2 if len(workload.shape) == 3 else 1)
    trainer = Trainer(build(workload.model), num_clients=len(workload.trained))
    trainer.setup_dataset(Loaders(workload))
    trainer.setup_optim(workload.epochs or 1, workload.batch_size, workload.lr)
    trainer.setup_decay(workload.weight_decay)
    server = Server(build(workload.model), global_round=given.total, sample_ratio=1.0)
    server.weights = [workload.sizes[client] for client in workload.trained]
    pipeline = Pipeline(server, trainer)
    pipeline.watch, pipeline.counter = watch, StepCounter()
    pipeline.main()
    watch.report("FedLab", version("fedlab"), pipeline.counter.steps, torch=torch.__version__)


if __name__ == "__main__":
    main()
