"""Compiled kernels for plain chains of layers: C source, planner."""
