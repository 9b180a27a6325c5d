"""A plain torch loop with optim.SGD in two forked processes of one thread each: a yardstick.

Run, from the top of the project: ``python -m benchmarks.peers.plain --workload W3``.
"""

from __future__ import annotations

import multiprocessing
import random
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
    """Train those of `clients` that are asked for; row i of `rows` is the i-th one's result."""
    torch.set_num_threads(1)
    torch.manual_seed(clients[0])
    data = {
        client: tuple(map(torch.from_numpy, load_client(workload, client))) for client in clients
    }
    model = build(workload.model)
    while (asked := pipe.recv()) is not None:
        made = 0
        for row, (x, y) in zip(rows, map(data.__getitem__, asked), strict=False):
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
    pipes, blocks, own = [], [], shares(workload)
    for clients in own:
        # of a cohort each process trains as many: its own clients are as good as any
        each = len(clients) if workload.cohort is None else workload.cohort // PROCESSES
        rows = torch.empty(each, len(params)).share_memory_()
        here, there = context.Pipe()
        context.Process(
            target=work, args=(workload, clients, params, rows, there), daemon=True
        ).start()
        pipes.append(here)
        blocks.append(rows)
    made, draw = 0, random.Random(0)
    for _ in range(given.total):
        asked = own
        if workload.cohort is not None:
            asked = [draw.sample(own[i], len(blocks[i])) for i in range(PROCESSES)]
        for pipe, clients in zip(pipes, asked, strict=True):
            pipe.send(clients)
        sizes = [torch.tensor([float(workload.sizes[k]) for k in clients]) for clients in asked]
        total = sum(float(of_some.sum()) for of_some in sizes)
        weights = [of_some / total for of_some in sizes]
        made = sum(pipe.recv() for pipe in pipes)
        params.copy_(sum(weight @ rows for weight, rows in zip(weights, blocks, strict=True)))
        watch.round_done()
    if not params.isfinite().all():
        raise FloatingPointError("training diverged")
    watch.report("plain loop", torch.__version__, made)


if __name__ == "__main__":
    main()
