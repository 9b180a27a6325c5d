"""One question, asked in three ways: which method copes best with 14 of 20 clients missing?

    python examples/compare_fairly.py

1. each method with the local training of its own paper;
2. one local training for all, server step 1;
3. the same, and each method with the server step that suits it, chosen with other seeds and on
   validation data.

It can be interrupted and started again. How long it takes, and the tables, are in
docs/comparing.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pandas as pd

from understudy import (
    FixedDropout,
    Local,
    Sgd,
    Strategy,
    Study,
    compare,
    fdms,
    fedar,
    fedavg,
    fedvarp,
    mifa,
    results,
    stale,
)

STEPS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TUNING_SEEDS = [1000, 1001, 1002]  # none of those that the result is measured with
SAME = Local(lr=0.1, epochs=2, batch_size=5)


def methods(**fields: Any) -> dict[str, Strategy]:
    """All methods; `fields` are given to each of them."""
    return {
        "fedavg": fedavg(**fields),
        "stale": stale(**fields),
        "mifa": mifa(wait=False, **fields),
        "fedar": fedar(**fields),
        "fedvarp": fedvarp(**fields),
        "fdms": fdms(**fields),
    }


def study(name: str, strategies: Mapping[str, Strategy], **asked: Any) -> Study:
    """The situation, which is the same for all."""
    return Study(
        name=name,
        data={
            "name": "digits",
            "partition": "clustered",
            "n_clients": 20,
            "per_client": 64,
            "validation": 0.2,
            "seed": "run",  # each seed divides the data again
        },
        model="mlp",
        strategies=strategies,
        availability={"missing": FixedDropout(0.7)},
        **asked,
    )


def picked_steps(folder: str, rounds: int, seeds: list[int]) -> dict[str, float]:
    """The server step with the best validation accuracy, for each method."""
    tried = {
        f"{name} {step:g}": strategy
        for step in STEPS
        for name, strategy in methods(local=SAME, server=Sgd(step)).items()
    }
    trials = study("steps", tried, rounds=rounds, seeds=seeds, evaluate=["validation"])
    trials.run(folder)
    frame = results(f"{folder}/steps", level="round")
    last = frame[frame["t"] >= rounds - 10]
    score = last.groupby("strategy")["validation_accuracy"].mean()
    return {
        name: max(STEPS, key=lambda step, name=name: score[f"{name} {step:g}"])
        for name in methods()
    }


def table(folder: str, asked: Study) -> pd.DataFrame:
    """Accuracy of each method, and the difference to FedAvg, in points."""
    asked.run(folder)
    rows = compare(results(f"{folder}/{asked.name}"), "accuracy_last10", baseline="fedavg").rows
    points = ["mean", "half", "difference", "difference_half"]
    rows[points] = (100 * rows[points]).round(1)
    return rows[["strategy", *points, "p_t_holm"]].round(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", default="runs")
    args = parser.parse_args()
    size = {"rounds": args.rounds, "seeds": args.seeds}

    def show(title: str, name: str, strategies: dict[str, Strategy]) -> None:
        found = table(args.folder, study(name, strategies, **size))
        print(f"\n{title}\n{found.to_string(index=False)}", flush=True)

    show("each with its own paper's local training", "own-local", methods())
    show("one local training for all, server step 1", "one-local", methods(local=SAME))
    steps = picked_steps(args.folder, args.rounds, TUNING_SEEDS[: args.seeds])
    tuned = {name: methods(local=SAME, server=Sgd(steps[name]))[name] for name in steps}
    show(f"one local training, server steps {steps}", "own-step", tuned)


if __name__ == "__main__":
    main()
