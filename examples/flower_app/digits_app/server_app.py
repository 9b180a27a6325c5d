"""The ServerApp: any strategy of Understudy, by its name."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

import understudy
from digits_app.task import central_evaluate, make_model
from understudy import Bernoulli, Local
from understudy.flower import UnderstudyStrategy
from understudy.studies import LiveLog

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    local = Local(
        lr=float(config["lr"]),
        epochs=int(config["local-epochs"]),
        batch_size=int(config["batch-size"]),
    )
    name = str(config["strategy"])
    dropout, runs = float(config["dropout"]), str(config["runs"])
    strategy = UnderstudyStrategy(
        getattr(understudy, name)(local=local),
        deadline=float(config["deadline"]),
        quorum=float(config["quorum"]),
        grace=float(config["grace"]),
        fraction_evaluate=float(config["fraction-evaluate"]),
        seed=int(config["seed"]),
        folder=str(config["folder"]) or None,
        retired=[word.strip() for word in str(config["retired"]).split(",") if word.strip()],
        availability=Bernoulli(1 - dropout) if dropout else None,
        ledger=LiveLog(runs, "live", name) if runs else None,
    )
    strategy.start(
        grid,
        ArrayRecord(make_model().state_dict()),
        num_rounds=int(config["num-rounds"]),
        evaluate_fn=central_evaluate,
    )
