"""Does my hospital gain from taking part? A CSV file, a model of your own, results by name."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from torch import nn

from understudy import Federation, Local, fedavg, plots
from understudy.simulation import simulate

# In place of your own file: six hospitals, six measurements of each patient.
rng = np.random.default_rng(0)
sizes = {"Ashford": 216, "Birch": 224, "Castle": 232, "Dale": 264, "Elm": 360, "Ferry": 600}
x = rng.normal(size=(sum(sizes.values()), 6))
ill = x @ [1.0, -1, 0.5, 0.5, 0, 0] + x[:, 4] * x[:, 5] + rng.normal(size=len(x)) > 0
file = pd.DataFrame(x, columns=list("abcdef")).assign(ill=ill.astype(int))
file.insert(0, "hospital", np.repeat(list(sizes), list(sizes.values())))
file.to_csv("patients.csv", index=False)

patients = pd.read_csv("patients.csv")
held_out = patients.groupby("hospital").sample(200, random_state=0)
training = patients.drop(held_out.index)


def net():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def accuracies(rows):
    """Train on these rows; accuracy on each hospital's own held-out patients, over three seeds."""
    test = held_out.drop(columns="hospital")
    data = Federation.from_table(rows, client="hospital", label="ill", test=test)
    method = fedavg(local=Local(lr=0.1, epochs=2, batch_size=8), weighting="examples")
    right = 0
    for seed in range(3):
        run = simulate(data, method, model=net, rounds=15, seed=seed)
        list(run)  # plays it
        outputs = run.module()(torch.tensor(held_out[list("abcdef")].to_numpy("float32")))
        right = right + (outputs.argmax(dim=1).numpy() == held_out["ill"])
    return 100 / 3 * right.groupby(held_out["hospital"]).mean()


together = accuracies(training)
alone = pd.Series({name: accuracies(rows)[name] for name, rows in training.groupby("hospital")})
trained_on = training["hospital"].value_counts().sort_index()
print(pd.DataFrame({"trained on": trained_on, "alone": alone, "together": together}).round(1))
figure, axes = plt.subplots(figsize=(5.8, 3.2), layout="constrained")
axes.hlines(alone.index, alone, together, color="#9AA1AB")
axes.plot(alone, alone.index, "o", color="#D55E00", label="trained alone")
axes.plot(together, together.index, "s", color="#0072B2", label="trained together")
axes.set_xlabel("accuracy on the hospital's own held-out patients, %")
axes.grid(color="#E3E6EA", axis="x")
axes.invert_yaxis()
axes.legend(frameon=False)
Path("hospitals_csv.svg").write_bytes(plots.svg(figure))
