"""A plain torch loop with optim.SGD in two forked processes of one thread each: a yardstick.

Run, from the top of the project: ``python -m benchmarks.peers.plain --workload W3``.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.models import build
from benchmarks.peers import common
from benchmarks.workloads import Workload, load_client

PROCESSES = 2


def shares(workload: Workload) -> list[list[int]]:
    """The clients of each process: the longest first, each to the process with least to do."""
    loads = [0] * PROCESSES
    clients: list[list[int]] = [[] for _ in range(PROCESSES)]
    for client in sorted(workload.trained, key=workload.client_steps, reverse=True):
        process = loads.index(min(loads))
        loads[process] += workload.client_steps(client)
        clients[process].append(client)
    return clients


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, workload: Workload) -> int:
    """One client's local training; the number of steps made."""
    optimizer = torch.optim.SGD(
        model.parameters(), lr=workload.lr, weight_decay=workload.weight_decay
    )
    made = 0
    for _ in range(workload.epochs or 1):
        order = torch.randperm(len(x))
        if workload.visited_per_client is not None:
            order = order[: workload.visited_per_client]
        for batch in order.split(workload.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
            made += 1
    return made


def work(
    workload: Workload,
    clients: list[int],
    params: torch.Tensor,
    rows: torch.Tensor,
    pipe: Connection,
) -> None:
    """Train `clients` whenever told to; row i of `rows` is the i-th client's result."""
    torch.set_num_threads(1)
    torch.manual_seed(clients[0])
    data = [tuple(map(torch.from_numpy, load_client(workload, client))) for client in clients]
    model = build(workload.model)
    while pipe.recv():
        made = 0
        for row, (x, y) in zip(rows, data, strict=True):
            vector_to_parameters(params, model.parameters())
            made += train(model, x, y, workload)
            row.copy_(parameters_to_vector(model.parameters()).detach())
        pipe.send(made)


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    watch = common.Stopwatch(given)
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    params = parameters_to_vector(build(workload.model).parameters()).detach().share_memory_()
    pipes, blocks, weights = [], [], []
    total = sum(workload.sizes[client] for client in workload.trained)
    for clients in shares(workload):
        rows = torch.empty(len(clients), len(params)).share_memory_()
        here, there = context.Pipe()
        context.Process(
            target=work, args=(workload, clients, params, rows, there), daemon=True
        ).start()
        pipes.append(here)
        blocks.append(rows)
        weights.append(torch.tensor([workload.sizes[client] / total for client in clients]))
    made = 0
    for _ in range(given.total):
        for pipe in pipes:
            pipe.send(True)
        made = sum(pipe.recv() for pipe in pipes)
        params.copy_(sum(weight @ rows for weight, rows in zip(weights, blocks, strict=True)))
        watch.round_done()
    if not params.isfinite().all():
        raise FloatingPointError("training diverged")
    watch.report("plain loop", torch.__version__, made)


if __name__ == "__main__":
    main()
