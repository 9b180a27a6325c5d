"""Server mathematics on one BLAS thread: its bits must not depend on the number of cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes longer than a small round


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit NumPy's and torch's BLAS to one thread meanwhile."""
    limited: AbstractContextManager[None] = _controller().limit(limits=1, user_api="blas")
    return limited
