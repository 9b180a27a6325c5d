"""Which newcomers the parts of a strategy accept."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def refused_newcomers(
    before: int, n_clients: int, accept: Callable[[Sequence[int]], None]
) -> dict[int, str]:
    """Newcomers, those from number `before` on, that are not accepted, and why.

    A group that is refused is halved, so that one client that a part refuses keeps nobody else out;
    where there is room for some only, the first are accepted. `accept` raises ValueError or
    MemoryError where a part cannot have these numbers; where there would be no client at all, that
    is raised here too.
    """
    accepted, refused = list(range(before)), {}
    groups = [list(range(before, n_clients))] if n_clients > before else []
    first: Exception | None = None
    while groups:
        group = groups.pop()
        try:
            accept([*accepted, *group])
        except (ValueError, MemoryError) as error:
            first = first or error
            if len(group) > 1:
                half = len(group) // 2
                groups += [group[half:], group[:half]]  # the first half is looked at next
            else:
                refused[group[0]] = str(error) or type(error).__name__
        else:
            accepted += group
    if first is not None and not accepted:
        raise first
    return refused
