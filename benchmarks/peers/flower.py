"""Flower's simulation: Ray with two actors of one core each.

Run by ``python -m benchmarks.peers.flower --workload W3`` in Flower's environment. There is one
virtual node per client that trains: every node is asked in every round, or as many as the cohort
has, drawn by Flower.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version

from benchmarks.peers import common


def main() -> None:
    given = common.options(__doc__)
    common.alone_on_the_network()
    # Before flwr and Ray are imported: they and their workers read these.
    os.environ.update(
        BENCH_WORKLOAD=given.workload.name,
        FLWR_TELEMETRY_ENABLED="0",
        FLWR_DISABLE_UPDATE_CHECK="1",
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
        PYTHONPATH=os.getcwd(),
    )

    from flwr.app import ArrayRecord, Context, Message
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from benchmarks.models import build
    from benchmarks.peers import flower_app

    watch = common.Stopwatch(given)
    steps: list[int] = []
    n_clients = len(given.workload.trained)
    share = given.workload.clients_per_round / n_clients

    class Watched(FedAvg):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]):
            replies = list(replies)
            result = super().aggregate_train(server_round, replies)
            answered = [reply for reply in replies if reply.has_content()]
            steps.append(sum(int(reply.content["metrics"]["steps"]) for reply in answered))
            watch.round_done()
            return result

    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Watched(
            fraction_train=share, fraction_evaluate=0.0, min_available_nodes=n_clients
        )
        start = ArrayRecord(build(given.workload.model).state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=given.total, timeout=600)

    run_simulation(
        server_app=server,
        client_app=flower_app.app,
        num_supernodes=n_clients,
        backend_config={
            "init_args": {"num_cpus": 2, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    # in its first round Flower may start with the nodes that are there by then
    measured = steps[given.warmup :]
    assert len(set(measured)) == 1, f"steps differ from round to round: {steps}"
    watch.report("Flower", version("flwr"), steps[-1], ray=version("ray"))


if __name__ == "__main__":
    main()
