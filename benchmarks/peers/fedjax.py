"""FedJAX: federated averaging compiled by XLA.

Run by ``python -m benchmarks.peers.fedjax --workload W3`` in FedJAX's environment. ``jit`` trains
one client after the other, XLA using both cores inside a step where it can; ``pmap`` trains two
clients at a time on two virtual devices. Each workload runs on the one that is faster there.
"""

from __future__ import annotations

import os
from importlib.metadata import version

from benchmarks.peers import common

BACKENDS = {"W1": "pmap", "W2": "pmap", "W6": "pmap"}  # the others: jit


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    backend = os.environ.get("BENCH_FEDJAX") or BACKENDS.get(workload.name, "jit")
    os.environ["JAX_PLATFORMS"] = "cpu"
    if backend == "pmap":
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

    import fedjax
    import haiku as hk
    import jax
    import numpy as np
    import optax

    from benchmarks.workloads import N_CLASSES, load_client

    watch = common.Stopwatch(given)
    fedjax.set_for_each_client_backend(backend)

    def pool(x: jax.Array) -> jax.Array:
        return hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def convolution(channels: int, padding: str = "VALID") -> hk.Conv2D:
        return hk.Conv2D(channels, 5, padding=padding)

    layers = {
        "mnist_cnn": lambda: [
            *(convolution(10), pool, jax.nn.relu, convolution(20), pool, jax.nn.relu),
            *(hk.Flatten(), hk.Linear(50), jax.nn.relu, hk.Linear(N_CLASSES)),
        ],
        "lenet": lambda: [
            *(convolution(6), jax.nn.relu, pool, convolution(16), jax.nn.relu, pool),
            *(hk.Flatten(), hk.Linear(120), jax.nn.relu, hk.Linear(84), jax.nn.relu),
            hk.Linear(N_CLASSES),
        ],
        "softmax_784": lambda: [hk.Linear(N_CLASSES)],
        "softmax_60": lambda: [hk.Linear(N_CLASSES)],
        "mlp_200": lambda: [
            *(hk.Linear(200), jax.nn.relu, hk.Linear(200), jax.nn.relu, hk.Linear(N_CLASSES)),
        ],
        "mcmahan_cnn": lambda: [
            *(convolution(32, "SAME"), jax.nn.relu, pool),
            *(convolution(64, "SAME"), jax.nn.relu, pool),
            *(hk.Flatten(), hk.Linear(512), jax.nn.relu, hk.Linear(N_CLASSES)),
        ],
    }[workload.model]

    def examples_of(client: int) -> dict[str, np.ndarray]:
        x, y = load_client(workload, client)
        if x.ndim == 4:  # XLA's channels come last
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return {"x": x, "y": y.astype(np.int32)}

    data = fedjax.InMemoryFederatedData(
        {client: examples_of(client) for client in workload.trained}
    )
    _, first = next(iter(data.clients()))
    model = fedjax.create_model_from_haiku(
        hk.transform(lambda batch: hk.Sequential(layers())(batch["x"])),
        sample_batch={name: part[:1] for name, part in first.all_examples().items()},
        train_loss=lambda batch, scores: optax.softmax_cross_entropy_with_integer_labels(
            scores, batch["y"]
        ),
    )
    sgd = optax.chain(optax.add_decayed_weights(workload.weight_decay), optax.sgd(workload.lr))
    if not workload.weight_decay:
        sgd = optax.sgd(workload.lr)
    batches = fedjax.ShuffleRepeatBatchHParams(
        batch_size=workload.batch_size, num_epochs=workload.epochs, num_steps=workload.steps
    )
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        grad_fn=fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.create_optimizer_from_optax(sgd),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=batches,
    )
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))
    n_clients = workload.clients_per_round
    keys = jax.random.split(jax.random.PRNGKey(1), (given.total, n_clients))
    rng = np.random.default_rng(0)
    everyone = list(workload.trained)
    for t in range(given.total):
        ids = everyone
        if workload.cohort is not None:
            ids = rng.choice(everyone, n_clients, replace=False).tolist()
        clients = [
            (client, dataset, keys[t, i])
            for i, (client, dataset) in enumerate(data.get_clients(ids))
        ]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        watch.round_done()
    # Every batch of this view is one step, and the view is what the algorithm iterates over.
    steps = sum(
        sum(1 for _ in dataset.shuffle_repeat_batch(batches))
        for _, dataset in data.get_clients(ids)
    )
    if not all(np.isfinite(part).all() for part in jax.tree_util.tree_leaves(state.params)):
        raise FloatingPointError("training diverged")
    watch.report("FedJAX", version("fedjax"), steps, jax=jax.__version__, backend=backend)


if __name__ == "__main__":
    main()
