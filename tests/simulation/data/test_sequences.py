"""Sequences: models by hand, padding that is never counted, and whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from understudy import Bernoulli, Local, Study, fedavg, results, stale
from understudy.simulation import Federation, simulate
from understudy.simulation.data.federation import PADDING
from understudy.simulation.data.models import build
from understudy.simulation.data.text.tokens import N_CHARACTERS, characters, next_tokens
from understudy.simulation.training.evaluation import evaluate, score

LINES = [
    "to be, or not to be", "that is the question", "to sleep, perchance to dream",
    "the rest is silence", "brevity is the soul of wit", "words, words, words",
]  # fmt: skip
SMALL = {"name": "char_lstm", "hidden": 16, "layers": 1}
TINY = {"name": "char_transformer", "width": 16, "heads": 2, "layers": 1}


def plays(length=12, n=6):
    """A few roles, who say the same lines in other orders."""
    x, y, whose = [], [], []
    for role in range(n):
        texts = [characters(LINES[(role + k) % len(LINES)]) for k in range(4)]
        inputs, labels = next_tokens(texts, length)
        x.append(inputs)
        y.append(labels)
        whose += [f"role {role}"] * len(inputs)
    return Federation.from_arrays(np.concatenate(x), np.concatenate(y), clients=whose, test=0.25)


@pytest.mark.parametrize("model", [SMALL, TINY], ids=lambda model: model["name"])
def test_models_give_a_score_of_each_class_at_each_place(model):
    module = build(model, (7,), 5, seed=3)
    x = torch.tensor([[1, 2, 3, 4, 0, 0, 0], [4, 3, 2, 1, 1, 2, 3]])
    outputs = module(x)
    assert outputs.shape == (2, 5, 7)
    # what comes later changes nothing of what was said before
    later = x.clone()
    later[:, 4:] = 2
    torch.testing.assert_close(module(later)[:, :, :4], outputs[:, :, :4])
    last = build({**model, "last": True}, (7,), 5, seed=3)
    picked = torch.stack([outputs[0, :, 3], outputs[1, :, 6]])
    torch.testing.assert_close(last(x), picked)
    assert torch.equal(last(x), build({**model, "last": True}, (7,), 5, seed=3)(x))


def test_the_lstm_of_leaf_has_its_size():
    """Embedding 98·8; cells 4·256·(8 + 256 + 2) and 4·256·(256 + 256 + 2); 257·98 scores."""
    module = build("char_lstm", (80,), N_CHARACTERS, seed=0)
    n = sum(entry.numel() for entry in module.parameters())
    assert n == 98 * 8 + 1024 * 266 + 1024 * 514 + 257 * 98


def test_attention_by_hand():
    """One layer, one head, against softmax(Q Kᵀ/√d + mask) V written out in float64."""
    module = build({**TINY, "heads": 1}, (6,), 5, seed=1).double()
    x = torch.tensor([[1, 4, 2, 3, 3, 1]])
    states = module.tokens(x)[0] + module.positions
    layer = module.layers[0]
    query, key, value = layer.attend(layer.before(states)).split(16, dim=1)
    logits = query @ key.T / math.sqrt(16)
    logits = logits.masked_fill(torch.triu(torch.ones(6, 6), 1).bool(), -math.inf)
    states = states + layer.mix(logits.softmax(dim=1) @ value)
    states = states + layer.wide(layer.between(states))
    expected = module.scores(module.norm(states)).T
    torch.testing.assert_close(module(x)[0], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        ("char_lstm", (3, 8, 8), r"'char_lstm' takes sequences \(length,\)"),
        ({**TINY, "heads": 3}, (8,), "width: expected a multiple of heads=3, got 16"),
        ({**SMALL, "hidden": 0}, (8,), "hidden: .* got 0"),
        ({**SMALL, "last": "yes"}, (8,), "last: expected one of True, False"),
        ({**SMALL, "vocabulary": 0}, (8,), "vocabulary: .* got 0"),
    ],
)
def test_bad_settings_are_named(model, shape, words):
    with pytest.raises(ValueError, match=words):
        build(model, shape, 5, seed=0)


def test_tokens_out_of_range_are_named():
    module = build(SMALL, (3,), 5, seed=0)
    with pytest.raises(ValueError, match=r"x: expected tokens in 0 .. 4, got 1 .. 7; "):
        module(torch.tensor([[1, 7, 2]]))


# -- padding ---------------------------------------------------------------------------------------


def test_padding_is_neither_loss_nor_accuracy():
    """Three of five labels count; of these two are right. The loss is the mean of three."""
    rng = np.random.default_rng(0)
    outputs = torch.from_numpy(rng.normal(size=(2, 4, 3)))
    labels = outputs.argmax(dim=1)
    labels[0, 2] = (labels[0, 2] + 1) % 4
    labels[1] = PADDING
    labels[1, 0] = outputs[1, :, 0].argmax()
    labels[0, 1] = PADDING
    said = score(outputs, labels, F.cross_entropy)
    kept = [(0, 0), (0, 2), (1, 0)]
    logs = [float(-outputs[i, :, j].log_softmax(0)[labels[i, j]]) for i, j in kept]
    assert math.isclose(said["loss"], sum(logs) / 3)
    assert math.isclose(said["accuracy"], 2 / 3)


def test_the_loss_of_many_is_the_mean_over_tokens():
    """600 examples are three batches of evaluation, with as many tokens as come out."""
    rng = np.random.default_rng(1)
    outputs = torch.from_numpy(rng.normal(size=(600, 4, 5)))
    labels = torch.from_numpy(rng.integers(0, 4, (600, 5)))
    labels[torch.from_numpy(rng.random((600, 5)) < np.linspace(0, 0.9, 600)[:, None])] = PADDING
    labels[:, 0] = 1
    whole = float(F.cross_entropy(outputs, labels))
    assert math.isclose(score(outputs, labels, F.cross_entropy)["loss"], whole, rel_tol=1e-12)


def test_more_padding_changes_nothing():
    """A model reads rows with five more places of padding as it read them."""
    x, y = next_tokens([characters(line) for line in LINES], 12)
    wide = np.pad(x, ((0, 0), (0, 5))), np.pad(y, ((0, 0), (0, 5)), constant_values=PADDING)
    scores = []
    for inputs, labels in ((x, y), wide):
        federation = Federation(
            torch.from_numpy(inputs), torch.from_numpy(labels), (np.arange(4),),
            np.arange(4, len(inputs)), n_classes=N_CHARACTERS,
        )  # fmt: skip
        module = build(SMALL, (17,), N_CHARACTERS, seed=0)
        scores.append(evaluate(module, federation, federation.test))
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)


def test_labels_of_sequences_are_checked():
    x = torch.zeros((3, 2), dtype=torch.int64)
    y = torch.tensor([[0, 1], [PADDING, PADDING], [1, 1]])
    with pytest.raises(ValueError, match=r"y\[1\]: expected at least one label, got padding only"):
        Federation(x, y, (np.array([0]),), np.array([2]))
    with pytest.raises(ValueError, match=r"y: expected labels of 0 or more, got -7 .. 1"):
        Federation(x, torch.tensor([[0, 1], [-7, 1], [1, 1]]), (np.array([0]),), np.array([2]))
    with pytest.raises(ValueError, match=r"got -100 .. 1"):
        Federation(x, torch.tensor([0, PADDING, 1]), (np.array([0]),), np.array([2]))


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [SMALL, TINY], ids=lambda model: model["name"])
def test_a_run_learns_the_next_character(model):
    """Accuracy is per token, of all and of each client; the same seed gives the same bits."""
    federation = plays()
    strategy = stale(local=Local(lr=1.0 if model is SMALL else 0.3, epochs=3, batch_size=4))
    runs = [
        list(simulate(federation, strategy, model=model, rounds=6, per_client_every=3, seed=2,
                      availability=Bernoulli(0.7)))
        for _ in range(2)
    ]  # fmt: skip
    first, last = runs[0][0].metrics, runs[0][-1].metrics
    assert last["test_loss"] < first["test_loss"]
    assert last["test_accuracy"] > 1 / N_CHARACTERS
    assert runs[0][-1].metrics == runs[1][-1].metrics
    own = runs[0][-1].client_metrics["accuracy"]
    tokens = [
        int((federation.y[torch.from_numpy(mine)] != PADDING).sum())
        for mine in federation.client_tests()
    ]
    mean = np.average(own[np.array(tokens) > 0], weights=[n for n in tokens if n])
    assert math.isclose(mean, last["test_accuracy"], rel_tol=1e-9)


def test_one_answer_for_a_sequence_and_what_does_not_fit():
    federation = plays()
    single = Federation.from_arrays(
        federation.x.numpy(),
        (federation.x[:, 0] % 2).numpy(),
        clients=np.arange(len(federation.x)) % 3,
    )
    model = {**SMALL, "last": True, "vocabulary": N_CHARACTERS}
    logs = list(simulate(single, fedavg(), model=model, rounds=2))
    assert 0 <= logs[-1].metrics["test_accuracy"] <= 1
    with pytest.raises(ValueError, match=r"\(batch, classes, places\).*with last=True"):
        simulate(single, fedavg(), model={**SMALL, "vocabulary": N_CHARACTERS}, rounds=1)
    with pytest.raises(ValueError, match="for each place without last"):
        simulate(federation, fedavg(), model={**SMALL, "last": True}, rounds=1)


def test_a_study_of_sequences(tmp_path):
    study = Study(
        name="plays",
        data=plays(),
        model=SMALL,
        strategies={"fedavg": "fedavg", "fdms": "fdms"},
        rounds=2,
        seeds=1,
        local={"lr": 0.5, "batch_size": 4},
    )
    study.run(tmp_path, on="here", progress=False)
    found = results(tmp_path)
    assert len(found) == 2
    assert found["accuracy_last"].between(0, 1).all()
