"""The client of the Flower benchmark, in a module that Ray's actors can import.

Defined elsewhere, every task would carry it, and the data it refers to, through cloudpickle.
"""

from __future__ import annotations

import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.models import build
from benchmarks.peers.plain import train as train_locally
from benchmarks.workloads import WORKLOADS, Workload, load_client

app = ClientApp()


@cache
def workload() -> Workload:
    return WORKLOADS[os.environ["BENCH_WORKLOAD"]]


@cache
def model() -> torch.nn.Module:
    torch.set_num_threads(1)  # two actors on two cores
    return build(workload().model)


@cache
def data(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    examples, labels = load_client(workload(), client)
    return torch.from_numpy(examples), torch.from_numpy(labels)


@app.train()
def train(message: Message, context: Context) -> Message:
    client = workload().trained[int(context.node_config["partition-id"])]
    module = model()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = data(client)
    made = train_locally(module, x, y, workload())
    metrics = MetricRecord({"num-examples": len(x), "steps": made})
    content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
