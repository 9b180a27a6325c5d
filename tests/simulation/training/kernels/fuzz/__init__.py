"""A fuzzer for the boundary of the compiled kernels.

One seed is one case: a module, data and the arguments of two calls, some of them odd. The kernels
must give what the loop gives, or refuse. By hand:
``python -m tests.simulation.training.kernels.fuzz``.
"""
