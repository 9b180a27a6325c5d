"""A model of three numbers, clients that move it by a known amount, and a run in one call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from tests.flower.loopback import LoopbackGrid, config_of
from understudy.flower import UnderstudyStrategy, introduction
from understudy.flower.mod import Mod


def first_arrays(width: int = 3) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros(width, dtype=np.float32))})


def moved(record: ArrayRecord, by: float) -> ArrayRecord:
    return ArrayRecord({"w": Array((record["w"].numpy() + np.float32(by)).astype(np.float32))})


def reply_of(
    message: Message, arrays: ArrayRecord, n_examples: Any = 1, **metrics: float
) -> Message:
    numbers = MetricRecord({"num-examples": n_examples, **metrics})
    return Message(RecordDict({"arrays": arrays, "metrics": numbers}), reply_to=message)


def toy_app(
    behave: Callable[[Message, Context], Message | None] = lambda message, context: None,
    mods: list[Mod] | None = None,
) -> ClientApp:
    """Client i moves everything by i + 1 and has i + 1 examples, unless `behave` does otherwise."""
    app = ClientApp(mods=[introduction()] if mods is None else mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = behave(message, context)
        if own is not None:
            return own
        number = int(context.node_config["partition-id"])
        arrays = moved(message.content.array_records["arrays"], number + 1)
        return reply_of(message, arrays, number + 1, train_loss=float(number))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        found = MetricRecord({"num-examples": number + 1, "accuracy": 0.1 * number})
        return Message(RecordDict({"metrics": found}), reply_to=message)

    return app


def round_of(message: Message) -> int:
    """Our t: Flower counts from 1."""
    return int(config_of(message)["server-round"]) - 1


def play(grid: LoopbackGrid, strategy: Any = None, rounds: int = 1, **options: Any) -> Any:
    """Play some rounds; the adapter, with `history` (one dict of outcomes for each round)."""
    after_round = options.pop("after_round", lambda t: None)
    train_config = options.pop("train_config", None)
    options = {"deadline": 30.0, "quorum": 1.0, "grace": 5.0, "wait": 10.0, **options}
    adapter = UnderstudyStrategy(strategy, clock=grid.time.clock(), **options)
    history: list[dict[str, str]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        after_round(number - 1)
        return MetricRecord({"accuracy": number / 10})

    finish = adapter._end_round

    def finish_and_note(result=None) -> None:
        finish(result)
        history.append({one.id: one.outcome.name.lower() for one in adapter.outcomes})

    adapter._end_round = finish_and_note
    adapter.result = adapter.start(
        grid,
        first_arrays(),
        num_rounds=rounds,
        train_config=train_config,
        evaluate_fn=evaluate,
    )
    adapter.history = history
    return adapter


def refusals(folder: Path) -> list[tuple[int, str, str]]:
    """(round, who, reason) of all that was refused, by the log in a run's folder."""
    logs = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return [(log["t"], who.strip("'"), why) for log in logs for who, why, _ in log["refusals"]]


def files_with(folder: Path, content: bytes) -> list[str]:
    """Files below a folder in which these bytes are found."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in found if content in path.read_bytes())
