"""How alike clients are: similarities, the clients' graph, FedGS's pick, a private product."""

from understudy.graph.dependency_graph import (
    MAX_CLIENTS,
    EdgeScore,
    best_edge_score,
    cosine_similarity,
    edge_f1,
    edge_lengths,
    edge_score,
    edges_of,
    functional_similarity,
    graph_distances,
    normalise,
    refine,
    shortest_paths,
    unknown_similarity,
    update_similarity,
)
from understudy.graph.noise_answers import NoiseAnswers

__all__ = [
    "MAX_CLIENTS",
    "EdgeScore",
    "NoiseAnswers",
    "best_edge_score",
    "cosine_similarity",
    "edge_f1",
    "edge_lengths",
    "edge_score",
    "edges_of",
    "functional_similarity",
    "graph_distances",
    "normalise",
    "refine",
    "shortest_paths",
    "unknown_similarity",
    "update_similarity",
]
