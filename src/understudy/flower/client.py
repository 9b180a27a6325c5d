"""A ClientApp that trains as `Strategy.local` says, with the engines of the simulator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.threads import one_thread
from understudy.flower.messages import names
from understudy.flower.messages.local_config import local_of
from understudy.flower.mod import Mod, answer, is_introduction, report
from understudy.simulation.data.shared_memory import aligned_matrix
from understudy.simulation.training.convolution_backend import kernels
from understudy.simulation.training.engines import engine_for
from understudy.simulation.training.evaluation import labels_of, outputs_of, score
from understudy.simulation.training.jobs import Job, Loss, Recipe
from understudy.simulation.training.metrics import Metric
from understudy.simulation.training.preparation import prepared
from understudy.simulation.training.targets import check_targets


@dataclass(frozen=True, eq=False)
class ClientData:
    """What one client holds.

    Parameters
    ----------
    x, y : tensors
        Training examples: inputs, and labels of int64 or the targets of a regression.
    x_test, y_test : tensors, optional
        What the client evaluates on; by default its training examples.
    n_classes : int, optional
        C, where the label histogram may be sent to the server; None keeps it local.
    """

    x: torch.Tensor
    y: torch.Tensor
    x_test: torch.Tensor | None = None
    y_test: torch.Tensor | None = None
    n_classes: int | None = None

    def label_counts(self) -> list[float] | None:
        if self.n_classes is None:
            return None
        return [float(n) for n in np.bincount(self.y.numpy(), minlength=self.n_classes)]


def client_app(
    model: nn.Module | Callable[[], nn.Module],
    data: Callable[[Context], ClientData],
    loss: Loss = cross_entropy,
    *,
    metrics: Mapping[str, Metric] | None = None,
    mods: list[Mod] | None = None,
) -> ClientApp:
    """A ClientApp: plain, proximal and SCAFFOLD training, and evaluation.

    Parameters
    ----------
    model : torch.nn.Module, or a function that makes one
        The arrays that the server sends are loaded into it by name, and only these are sent back:
        where they are a few adapters, the rest of the model stays what it is here.
    data : function of the context
        Gives the `ClientData` of this client, by what its ``node_config`` says.
    loss : function
        Of outputs and labels; the mean over a batch.
    metrics : dict of functions, optional
        Of outputs and labels, besides loss and accuracy.
    mods : list, optional
        Of Flower's or your own.

    Examples
    --------
    >>> import torch
    >>> def data(context):
    ...     return ClientData(torch.zeros(8, 4), torch.arange(8) % 2, n_classes=2)
    >>> app = client_app(lambda: torch.nn.Linear(4, 2), data)
    """
    if not isinstance(model, nn.Module) and not callable(model):
        raise TypeError(f"model: expected a torch module or a function, got {model!r}")
    app = ClientApp(mods=mods)

    @app.train()
    @one_thread()
    def train(message: Message, context: Context) -> Message:
        held = data(context)
        counts = held.label_counts()
        own_report = report(context, None if counts is None else lambda _: counts)
        if is_introduction(message):
            return answer(message, own_report, len(held.x))
        module = _module(model)
        key, arrays = _the_arrays(message.content)
        _load(module, arrays)
        local, n_steps, mean_loss = _train(module, held, loss, message.content)
        trained = _named(local, module, arrays)
        own_report[names.N_STEPS] = n_steps
        numbers = MetricRecord({names.N_EXAMPLES: len(held.x), names.LOSS: mean_loss})
        content = RecordDict({key: trained, "metrics": numbers, names.REPORT: own_report})
        return Message(content, reply_to=message)

    @app.evaluate()
    @one_thread()
    def evaluate(message: Message, context: Context) -> Message:
        held, module = data(context), _module(model)
        _load(module, _the_arrays(message.content)[1])
        x, y = held.x_test, held.y_test
        if x is None or y is None:
            x, y = held.x, held.y
        everything = np.arange(len(x))
        with kernels(onednn=True):
            check_targets(module, loss, x, y)
            found = score(
                outputs_of(module, x, everything), labels_of(y, everything), loss, metrics
            )
        numbers = MetricRecord({names.N_EXAMPLES: len(x), **found})
        return Message(RecordDict({"metrics": numbers}), reply_to=message)

    return app


def _module(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    return copy.deepcopy(model) if isinstance(model, nn.Module) else model()


def _the_arrays(content: RecordDict) -> tuple[str, ArrayRecord]:
    """The model, under whatever key the server has for it."""
    records = {
        key: record for key, record in content.array_records.items() if key != names.CORRECTION
    }
    if len(records) != 1:
        raise ValueError(f"expected one ArrayRecord with the model, got {sorted(records)}")
    return next(iter(records.items()))


def _load(module: nn.Module, arrays: ArrayRecord) -> None:
    """Write arrays into the module, by name; nothing is unpickled."""
    own = module.state_dict()
    for name, array in arrays.items():
        if name not in own or tuple(own[name].shape) != tuple(array.shape):
            expected = tuple(own[name].shape) if name in own else "no such name"
            raise ValueError(
                f"arrays[{name!r}]: the model here has {expected}, the server's {array.shape}"
            )
    tensors = {name: torch.from_numpy(array.numpy().copy()) for name, array in arrays.items()}
    module.load_state_dict(tensors, strict=False)


def _train(
    module: nn.Module, held: ClientData, loss: Loss, content: RecordDict
) -> tuple[torch.Tensor, int, float]:
    """The flat local model, its number of steps, and the mean loss."""
    values = _config(content)
    local, number = local_of(values), int(values.get(names.CLIENT_NUMBER, 0))
    seed, t = int(values.get(names.SEED, 0)), int(values.get(names.ROUND, 1)) - 1
    layout = Layout.of(module)
    start = layout.vector(module)
    # only this client has examples: its number is the address of what is drawn
    nobody = np.zeros(0, dtype=np.int64)
    clients = (*[nobody] * number, np.arange(len(held.x)))
    recipe, _ = prepared(Recipe(module, loss, local, seed, clients), held.x, held.y)
    engine = engine_for(recipe, held.x, held.y)
    matrix = aligned_matrix(1, layout.size, layout.dtype)
    corrections = _correction(content, layout)
    job = Job(t, [number], [0], start, matrix, corrections=corrections)
    ((n_steps, mean_loss),) = engine.train(job)
    return start + matrix[0], n_steps, mean_loss


def _config(content: RecordDict) -> Mapping[str, Any]:
    for record in content.config_records.values():
        if names.ROUND in record:
            return record
    raise ValueError(f"expected a ConfigRecord with {names.ROUND!r}, got none")


def _correction(content: RecordDict, layout: Layout) -> torch.Tensor | None:
    """(1, d) what SCAFFOLD adds to each gradient; zero for arrays that the server has not."""
    arrays = content.array_records.get(names.CORRECTION)
    if arrays is None:
        return None
    rows = aligned_matrix(1, layout.size, layout.dtype)
    rows.zero_()
    named = layout.named(rows[0])
    for name, array in arrays.items():
        if name in named:
            named[name].copy_(torch.from_numpy(array.numpy().copy()))
    return rows


def _named(local: torch.Tensor, module: nn.Module, arrays: ArrayRecord) -> ArrayRecord:
    """The arrays that the server sent, trained; those that are not trained as they came."""
    named = Layout.of(module).named(local)
    return ArrayRecord(
        {
            name: Array(named[name].numpy().copy()) if name in named else array
            for name, array in arrays.items()
        }
    )
