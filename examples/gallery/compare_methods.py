"""Which method is best when 70 % of the clients are missing? It depends on who is missing."""

from pathlib import Path
from tempfile import TemporaryDirectory

from understudy import (
    FixedDropout,
    Local,
    Study,
    compare,
    fdms,
    fdms_dropout,
    fedar,
    fedavg,
    plots,
    results,
    stale,
)

# One local training and one weighting for all: the methods differ in nothing else.
same = {"local": Local(lr=0.1, epochs=2, batch_size=8), "weighting": "examples"}
absences = {  # both: 14 of 20 clients, drawn anew in every round
    "anybody may be missing": FixedDropout(0.7),
    "one of each group comes": fdms_dropout(0.7),  # and everybody in the first round
}
study = Study(
    name="compare",
    data={"name": "digits", "partition": "clustered", "per_client": 64, "seed": "run"},
    model="softmax",
    strategies={
        "fedavg": fedavg(**same),  # the absent are left out
        "stale": stale(**same),  # their last update stands in
        "fedar": fedar(**same),  # the same, older ones with more weight
        "fdms": fdms(**same),  # a similar client's update stands in
    },
    availability=absences,
    baseline="fedavg",
    rounds=20,
    seeds=5,
)
with TemporaryDirectory() as folder:
    study.run(folder, jobs=1, progress=False)
    frame = results(f"{folder}/compare")
print(compare(frame).to_text())
picture = plots.levels(frame, "availability")
Path("compare_methods.svg").write_bytes(plots.svg(picture))
