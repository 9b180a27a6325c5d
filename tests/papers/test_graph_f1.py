"""F1 of constructed graphs: a planted case by hand, and a real first round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.analysis.played import clusters, played
from understudy import Local, fedgs
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.papers.graph_f1 import (
    graph_f1,
    graph_scores,
    oracle_similarity,
    program_scores,
    server_inputs,
)
from understudy.simulation import Federation, federate
from understudy.studies.definition.cell import Task

EPSILONS = [0, 0.01, 0.05, 0.1, 0.5]


def matrix(*above) -> np.ndarray:
    """Symmetric, ones on the diagonal, these numbers above it, row by row."""
    n = int((1 + np.sqrt(1 + 8 * len(above))) / 2)
    full = np.zeros((n, n))
    full[np.triu_indices(n, 1)] = above
    return full + full.T + np.eye(n)


def test_a_planted_graph_by_hand():
    """Three clients; only 0 and 1 are joined in truth.

    V is 0.3 for them, 0.07 for (0, 2), 0 for (1, 2). Up to ε = 0.05 the false edge is there too:
    precision ½, recall 1, F1 2·1/(2+1) = ⅔. At 0.1 the graph is right, at 0.5 empty. At ε = 0 a
    similarity of 0 makes no edge. Normalised, V is 1 and 0.233: right only at 0.5.
    """
    metrics, scores = graph_scores("x", matrix(0.3, 0.07, 0), matrix(0.9, 0.05, 0))
    half = [0.5, 1, 2 / 3]
    np.testing.assert_allclose(scores, [half, half, half, [1, 1, 1], [0, 0, 0]])
    assert metrics["f1_x"] == metrics["precision_x"] == metrics["recall_x"] == 1
    assert metrics["epsilon_x"] == 0.1
    assert metrics["f1_x_normalised"] == 1


def test_zero_is_named_where_it_is_the_best_threshold():
    metrics, _ = graph_scores("x", matrix(0.005, 0, 0), matrix(0.9, 0.05, 0))
    assert metrics["epsilon_x"] == 0
    assert metrics["f1_x"] == 1


@pytest.fixture(scope="module")
def task() -> Task:
    """Classes overlap, so that neither graph is quite right."""
    data = federate("digits", "dirichlet", n_clients=12, alpha=0.3, seed=1)
    strategy = fedgs(m=3, local=Local(lr=0.1, steps=10, batch_size=10))
    return Task(data=data, model="mlp", strategy=strategy, rounds=2, seed=3)


def test_a_real_first_round(task):
    """Against cosines of updates and of mean outputs made here with plain loops."""
    logs, found = played(graph_f1, task)
    assert len(logs) == 2
    run = task.open(workers=1)
    start, above = run.start(), np.triu_indices(12, 1)
    counts = run.federation.label_counts
    true = np.array([[cosine(a, b) >= 0.1 for b in counts] for a in counts])[above]
    updates = run.train(start, np.arange(12), 0).deltas.clone()
    answers = [mean_answer(run, start + update, task.seed) for update in updates]
    vectors = {"cos_sim": updates.double().numpy(), "func_sim": answers}
    for name, rows in vectors.items():
        near = np.array([[cosine(a, b) for b in rows] for a in rows])[above]
        expected = [f1(near > 0, true), *(f1(near >= epsilon, true) for epsilon in EPSILONS[1:])]
        scores = found.arrays[f"graph_{name}"]
        np.testing.assert_allclose(scores[:, 2], expected, rtol=1e-12)
        best = scores[EPSILONS.index(found.metrics[f"epsilon_{name}"])]
        named = [found.metrics[f"{score}_{name}"] for score in ("precision", "recall", "f1")]
        np.testing.assert_array_equal(best, named)
        assert max(expected) == found.metrics[f"f1_{name}"] < 1
    np.testing.assert_array_equal(found.arrays["graph_epsilon"], EPSILONS)
    p = true.mean()
    assert found.metrics["f1_complete"] == pytest.approx(2 * p / (1 + p))


def mean_answer(run, params, seed) -> np.ndarray:
    """A client's mean output on noise with the mean and covariance of the server's examples."""
    inputs = server_inputs(run.federation, seed).double().numpy()
    flat = inputs.reshape(len(inputs), -1)
    rng = generator(seed, "analysis/graph_f1/noise")
    weights = rng.standard_normal((256, len(flat))) / np.sqrt(len(flat) - 1)
    noise = flat.mean(axis=0) + weights @ (flat - flat.mean(axis=0))
    module = run.module().eval()
    Layout.of(module).load(module, params)
    with torch.no_grad():
        outputs = module(torch.from_numpy(noise.reshape(256, *inputs.shape[1:])).float())
    return outputs.double().mean(dim=0).numpy()


def test_clusters_with_classes_of_their_own_are_found(task):
    _, found = played(graph_f1, task.changed(data=clusters(9, 3), model="softmax"))
    assert found.metrics["f1_cos_sim"] == 1
    assert found.metrics["f1_func_sim"] > found.metrics["f1_complete"]


def cosine(a, b) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def f1(found, true) -> float:
    return 2 * (found & true).sum() / (found.sum() + true.sum())


def test_the_oracle_prefers_features():
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])
    clients = tuple(np.array([i]) for i in range(3))
    plain = Federation(x, y, clients, np.array([3]))
    described = replace(plain, features=np.array([[1.0, 0], [1, 1], [0, 1]]))
    np.testing.assert_allclose(oracle_similarity(plain), matrix(0, 1, 0))
    np.testing.assert_allclose(oracle_similarity(described), matrix(0.5**0.5, 0, 0.5**0.5))
    regression = Federation(x, y.float(), clients, np.array([3]))
    with pytest.raises(ValueError, match="features or classes"):
        oracle_similarity(regression)


def test_the_server_s_own_examples():
    """The clients' validation examples where there are some, else the test set; never training."""
    x = torch.arange(2000.0)[:, None]
    y = torch.zeros(2000, dtype=torch.int64)
    clients = (np.arange(0, 100), np.arange(100, 200))
    without = Federation(x, y, clients, np.arange(200, 1200))
    chosen = server_inputs(without, 0).ravel()
    assert len(chosen) == len(set(chosen.tolist())) == 500
    assert chosen.min() >= 200
    assert chosen.max() < 1200
    assert not torch.equal(chosen, server_inputs(without, 1).ravel())
    held = (np.arange(1200, 1250), np.arange(1250, 1260))
    given = server_inputs(replace(without, validation=held), 0).ravel()
    np.testing.assert_array_equal(given, np.arange(1200, 1260))


def test_the_authors_program_by_hand():
    """Shares (1, 0), (.5, .5), (0, 1): dot products .5, 0, .5 and 1, .5, 1 with oneself, so five
    edges of six. V is 0.6 for (0, 1), 0.3 for (0, 2), 0.02 for (1, 2), 1 with oneself.

    At ε = 0 and 0.01 all six edges: precision 5/6, recall 1, F1 10/11. At 0.05 and 0.1 without
    (1, 2): 4 of 5 right, 4 of 5 found, F1 0.8. At 0.5 (0, 1) and the loops: 4 of 4 right, F1 8/9.
    """
    counts = np.array([[4, 0], [2, 2], [0, 7]])
    found = program_scores({"x": matrix(0.6, 0.3, 0.02)}, counts)
    assert found["edges_program"] == 5
    assert found["f1_x_program"] == pytest.approx(10 / 11)
    assert found["precision_x_program"] == pytest.approx(5 / 6)
    assert found["recall_x_program"] == 1
    # only loops are found: 3 of 5
    alone = program_scores({"x": matrix(0.0, 0.0, 0.0)}, counts)
    assert alone["f1_x_program"] == pytest.approx(6 / 8)


def test_the_program_is_scored_in_a_run(task):
    _, found = played(graph_f1, task)
    counts = task.federation().label_counts
    shares = counts / counts.sum(axis=1, keepdims=True)
    edges = ((shares @ shares.T) > 0.1)[np.triu_indices(12)].sum()
    assert found.metrics["edges_program"] == edges
    assert 0 < found.metrics["f1_func_sim_program"] <= 1
    assert found.metrics["f1_func_sim_program"] != found.metrics["f1_func_sim"]
