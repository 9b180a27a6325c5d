"""The tables of docs/scale.md and its picture, from the entries of benchmarks/scale.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.scale.measuring import Entry

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "scale.md"
PICTURE = DOCS / "_static" / "scale.svg"
UNKNOWN = "Not measured yet."
PICTURED = {  # of the methods, those whose lines can be told apart
    "ignore": "left out",
    "fedvarp": "FedVARP",
    "fdms": "FDMS",
    "fdms with a race": "FDMS with a race",
    "concord": "Kriging and Concord",
    "median": "median over last updates",
    "fedgs": "FedGS",
}
Column = tuple[str, Callable[[Entry], object]]


def write_pages(measured: Mapping[str, Sequence[Entry]]) -> None:
    """Renew what stands between the marks of the page, and the picture."""
    entries = [one for some in measured.values() for one in some]
    text = PAGE.read_text()
    for name, table in tables(entries).items():
        before, found, rest = text.partition(f"<!-- {name}: begin -->\n")
        _, found_end, after = rest.partition(f"<!-- {name}: end -->")
        if not found or not found_end:
            raise ValueError(f"{PAGE}: expected the marks of the table {name!r}")
        text = f"{before}{found}\n{table}\n\n{found_end}{after}"
    PAGE.write_text(text)
    draw(entries)


def tables(entries: Sequence[Entry]) -> dict[str, str]:
    """Name of a table → its Markdown."""

    def those(begin: str) -> list[Entry]:
        return [one for one in entries if one["what"].startswith(begin)]

    clients: Column = ("clients", lambda one: f"{one['n_clients']:,}")
    peak: Column = ("peak memory (MB)", lambda one: f"{one['peak_megabytes']:,}")
    seconds: Column = ("seconds", lambda one: _short(one["seconds"]))
    rate: list[Column] = [
        ("rate", lambda one: f"{_short(one['rate'])} {one['unit']}"),
        ("of the machine's own", lambda one: _percent(one["share_of_limit"])),
    ]
    d: Column = ("d", lambda one: f"{one['d']:,}")
    what: Column = ("what", lambda one: one["what"].partition(": ")[2])
    return {
        "simulator": _table(
            those("a simulated round"),
            [
                clients,
                ("asked a round", lambda one: f"{one['asked']:,}"),
                ("ms a round", lambda one: _short(1000 * one["seconds"])),
                ("µs a round and asked client", lambda one: _short(one["microseconds_per_asked"])),
                ("start-up and first round (s)", lambda one: _short(one["start_seconds"])),
                ("memory (MB)", lambda one: f"{one['megabytes']:,}"),
                ("more since round 20 (MB)", lambda one: _short(one["megabytes_more_since_early"])),
                ("log (bytes a round)", lambda one: f"{one['log_bytes_per_round']:,}"),
            ],
        ),
        "server": _methods(those("server's round")),
        "products": _table(those("FDMS: products"), [("updates", clients[1]), d, seconds, *rate]),
        "memories": _table(
            those("FedAR: sum of a memory"),
            [
                what,
                clients,
                d,
                ("size (GB)", lambda one: _short(one["gigabytes"])),
                seconds,
                ("rate", rate[0][1]),
                ("of a plain read", rate[1][1]),
                ("from the cache (s)", lambda one: _if_known(one["cached_seconds"], _short)),
                (
                    "of a plain read",
                    lambda one: _if_known(one["cached_share_of_limit"], _percent),
                ),
                peak,
            ],
        ),
        "graph": _table(
            [*those("FedGS: the graph"), *those("FedGS: a pick")],
            [what, clients, ("picked", lambda one: f"{one.get('picked', '')}"), seconds, peak],
        ),
        "fedgs loss": _table(
            those("FedGS: loss"),
            [
                ("data", lambda one: one["what"].rpartition(", ")[2]),
                clients,
                ("loss of objective", lambda one: f"{100 * one['loss_of_objective']:.2f} %"),
                ("mean error of H", lambda one: f"{one['mean_error']:.5f}"),
                ("largest", lambda one: f"{one['largest_error']:.3f}"),
                ("F1, all edges", lambda one: f"{one['f1_all_edges']:.3f}"),
                ("F1, edges in use", lambda one: f"{one['f1_used_edges']:.3f}"),
                ("recall of these", lambda one: f"{one['recall_used_edges']:.4f}"),
                ("seconds", lambda one: _short(one["seconds"])),
                ("exact", lambda one: _short(one["exact_seconds"])),
            ],
        ),
        "fdms loss": _table(
            those("FDMS: friends"),
            [
                clients,
                ("candidates", lambda one: one["candidates"]),
                ("absences", lambda one: f"{one['absent']:,}"),
                ("another friend", lambda one: f"{100 * one['share_other_friend']:.2f} %"),
                ("a stranger instead", lambda one: f"{100 * one['share_more_strangers']:.2f} %"),
                ("no friend", lambda one: f"{100 * one['share_no_friend']:.2f} %"),
            ],
        ),
        "accuracy": _accuracies(those("accuracy")),
    }


def _table(entries: Sequence[Entry], columns: Sequence[Column]) -> str:
    if not entries:
        return UNKNOWN
    lines = [[str(cell(one)) for _, cell in columns] for one in entries]
    return _markdown([title for title, _ in columns], lines)


def _markdown(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [titles, ["---", *["---:"] * (len(titles) - 1)], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _methods(entries: Sequence[Entry]) -> str:
    """A row for each method, a column for each number of clients."""
    if not entries:
        return UNKNOWN
    sizes = sorted({one["n_clients"] for one in entries})
    methods = list(dict.fromkeys(one["what"].partition(": ")[2] for one in entries))
    found = {(one["what"].partition(": ")[2], one["n_clients"]): one for one in entries}
    lines = [
        [
            method,
            *(_short(found[method, n]["seconds"]) if (method, n) in found else "–" for n in sizes),
            f"{max(one['peak_megabytes'] for key, one in found.items() if key[0] == method):,}",
        ]
        for method in methods
    ]
    return _markdown(["method", *(f"{n:,}" for n in sizes), "peak memory (MB)"], lines)


def _accuracies(entries: Sequence[Entry]) -> str:
    """A row for data and method, a column for each precision."""
    if not entries:
        return UNKNOWN
    found: dict[str, dict[str, str]] = {}
    for one in entries:
        where, _, precision = one["what"].removeprefix("accuracy: ").rpartition(", ")
        found.setdefault(where, {})[precision] = (
            f"{100 * one['accuracy']:.2f} % ({one['loss']:.5f})"
        )
    precisions = list(dict.fromkeys(name for row in found.values() for name in row))
    lines = [[where, *(row.get(name, "–") for name in precisions)] for where, row in found.items()]
    return _markdown(["data, method", *precisions], lines)


def _if_known(value: float | None, text: Callable[[float], str]) -> str:
    return "–" if value is None else text(value)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _short(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def draw(entries: Sequence[Entry]) -> None:
    """Seconds of a round over clients; how near memories and products are to the machine's own."""
    from matplotlib.figure import Figure

    from understudy.plots.saving import svg

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines: dict[str, list[tuple[int, float]]] = {}
    for one in entries:
        method = one["what"].removeprefix("server's round: ")
        name = PICTURED.get(method)
        if method == "a simulated round":
            name = "a whole round, simulated"
        if name is not None:
            lines.setdefault(name, []).append((one["n_clients"], one["seconds"]))
    for marker, (name, points) in zip("os^vD*Ph", lines.items(), strict=False):
        left.plot(*zip(*sorted(points), strict=True), marker=marker, markersize=4, label=name)
    left.set(xscale="log", yscale="log", xlabel="clients", ylabel="seconds a round")
    left.set_title("1,000 clients a round", loc="left")
    if lines:
        left.legend(fontsize=7)
    for begin, label in (
        ("FDMS: products", "FDMS's products, of syrk"),
        ("FedAR: sum of a memory, full", "FedAR's sum, of a plain read"),
    ):
        points = sorted(
            (one["d"], one["share_of_limit"])
            for one in entries
            if one["what"].startswith(begin) and one["share_of_limit"] is not None
        )
        if points:
            right.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
    right.axhline(1, color="grey", linewidth=0.8)
    right.set(xscale="log", ylim=(0, None), xlabel="entries of the model, d")
    right.set_ylabel("share of the machine's own rate")
    if right.lines[1:]:
        right.legend(fontsize=7)
    PICTURE.write_bytes(svg(figure))
