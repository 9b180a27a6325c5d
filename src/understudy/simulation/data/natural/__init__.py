"""Data that come with their clients, in the files of federated benchmarks."""
