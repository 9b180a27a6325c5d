"""Pictures of a federation and of a study.

Each function takes a run, a dict of runs by label, a data frame (as `understudy.studies.results`
returns) or arrays, and gives a `matplotlib.figure.Figure` that belongs to nobody else: no pyplot
window, no global state. In a notebook it shows itself; ``figure.savefig("attendance.png")`` writes
it, `svg`, `pdf` and `png` make it the same to the byte for the same numbers.
"""

from __future__ import annotations

from understudy.plots.clients import client_accuracy, client_values, sampling_counts
from understudy.plots.curves import convergence, substitution_error
from understudy.plots.differences import differences
from understudy.plots.federation import OUTCOME_COLOURS, attendance, partition
from understudy.plots.levels import intervals, levels
from understudy.plots.pairs import similarity, stood_in
from understudy.plots.represented import represented
from understudy.plots.saving import pdf, png, svg
from understudy.plots.style import Style, styles
from understudy.plots.traces import trace

__all__ = [
    "OUTCOME_COLOURS",
    "Style",
    "attendance",
    "client_accuracy",
    "client_values",
    "convergence",
    "differences",
    "intervals",
    "levels",
    "partition",
    "pdf",
    "png",
    "represented",
    "sampling_counts",
    "similarity",
    "stood_in",
    "styles",
    "substitution_error",
    "svg",
    "trace",
]
