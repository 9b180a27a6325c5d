"""What only the experiments of the papers use: their studies, data, other readings and tests.

Nothing below imports it: the registry and the lists of studies and data sets name what is here.
"""
