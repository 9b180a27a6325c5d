"""A small study, really run, in a store: what reports and pictures are tested on."""

from pathlib import Path

from understudy import Always, Local, fdms, fdms_dropout, fedavg
from understudy._version import __version__
from understudy.analysis import analyse
from understudy.parts.samplers.uniform import Uniform
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.store.store import Store

NAME = "small"
LOCAL = Local(lr=0.1, epochs=1, batch_size=10)
RECIPE = DataRecipe(
    "digits", "clustered", settings={"n_clients": 6, "n_clusters": 3, "per_client": 20}
)
ABOUT = {
    "name": NAME,
    "title": "Friends & <stand-ins>",
    "shows": "Absent clients are represented, or not.",
    "baseline": "dropout",
    "target": 0.3,
}


def strategies():
    return {
        "full": fedavg(local=LOCAL),
        "dropout": fedavg(local=LOCAL),
        "fdms": fdms(local=LOCAL),
        "uniform": fedavg(local=LOCAL, sampler=Uniform(3)),
    }


def cells(rounds=3, seeds=3, alphas=(0.2, 0.5)):
    """`full` once for all alphas; the others under each."""
    made = []
    for seed in range(seeds):
        for alpha in (None, *alphas):
            for name, strategy in strategies().items():
                if (name == "full") != (alpha is None):
                    continue
                labels = {"strategy": name, "availability": None, "alpha": alpha}
                if alpha is not None:
                    labels["availability"] = "fixed"
                task = Task(
                    RECIPE,
                    "softmax",
                    strategy,
                    rounds,
                    availability=Always() if alpha is None else fdms_dropout(alpha),
                    seed=seed,
                    per_client_every=2,
                    oracle=True,
                    analysis=("similarity",),
                )
                made.append(Cell.of(labels, task))
    return made


def store_small_study(folder, *, about=ABOUT, broken=(), waiting=(), **settings) -> Path:
    """Run the cells and store them; those at the positions `broken` fail, `waiting` never begin."""
    made = cells(**settings)
    with Store.open(folder, write=True) as store:
        store.save_study(about["name"], about, made, __version__)
        federation = RECIPE.federation()
        for position, cell in enumerate(made):
            if position in waiting:
                continue
            run = cell.task.open(federation)
            facts = {
                "n_clients": federation.n_clients,
                "groups": federation.groups.tolist(),
                "sizes": federation.sizes.tolist(),
                "n_parameters": run.state.n_parameters,
                "n_classes": federation.n_classes,
                "data": federation.name,
            }
            store.begin(cell.key, cell.resolved, facts, __version__)
            for log in run:
                store.add_rounds(cell.key, [log])
                if position in broken:
                    break
                if log.t == cell.task.rounds - 1:
                    findings = analyse(run, cell.task)
            if position in broken:
                store.fail(cell.key, "ValueError: <b>no</b> luck\n\nTraceback: in line 1")
            else:
                store.finish(cell.key, findings)
    return folder
