"""How much memory a call takes."""

import tracemalloc
from collections.abc import Callable


def peak(call: Callable[[], object]) -> int:
    """The most bytes that were held at once during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
