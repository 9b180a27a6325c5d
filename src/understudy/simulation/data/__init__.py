"""Federations: data sets, partitions, models, and the memory that processes share."""
