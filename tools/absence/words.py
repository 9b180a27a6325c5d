"""What the page of the benchmark says around its tables."""

from collections.abc import Sequence

NAMES = {
    "digits": "digits",
    "synthetic": "Synthetic",
    "fmnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
}

TITLE = """\
# The benchmark: absent clients

<!-- Made by `make benchmark` from results/absence and absence-in-words.txt: not to be edited. -->

The study `absence` runs every method that is asked for in this field, and ours, under twelve
kinds of absence: the same data, attendance and local training for all, seed by seed, on seeds
that no setting was chosen on. `understudy run absence --scale quick` does a small part of it in
minutes.
"""
READING = """\
## How to read it

**Accuracy** is that of the last ten evaluations, on test data of all clients. **Regret** is how
many points a method is behind the one with the best mean in the same cell (data × absence),
paired by seed, with half a 95 % interval. **Within noise**: that interval reaches zero. The best
one was found with the seeds that are shown, which makes all regrets a little too large. **Mean
regret** gives each cell the same weight; its interval is a bootstrap over cells and, within them,
seeds, in which the best of a cell is looked for again. `full` has everybody present. `known p` is
told the chances of presence, which nobody knows: it is shown and can be no cell's best. `fedgs`,
`f3ast` and `fedlaavg` ask a fifth of the clients at most, all others everyone who is there. † and
*diverged*: runs whose last test loss is above 1,000; the local step is the same for all. *Ahead of
`fedavg`*: points of accuracy, mean over the cells of the data, half a 95 % interval over seeds.

Server steps that follow from the updates do not spare the tuning (study `server-step`,
[`Extrapolated`](algorithms/extrapolated.md)), so there are two parts: each method at a server that
was picked for it, and all at one.
"""
TUNED_WORDS = """\
## Each method at its tuned server

One server for all absences of a data set: the one of {n} with the best {metric} over them all, on
other seeds ({seeds}). `fedexp`, `generalized` and `amplified` are server steps themselves and are
not tuned.
"""
ONE_WORDS = """\
## One server for all

`Sgd(lr=1)`: the plain sum is taken as it is. That is no method's best step, and rows whose update
is a plain mean gain most by a longer one (above); `concord()` as it comes has another server,
`Momentum(lr=1, beta=0.5)`.
"""
COMMANDS = """\
## Commands

```sh
understudy run absence --scale standard --block digits    # block by block, or all without --block
understudy export absence --to docs/results
make benchmark    # this page
```

A method of your own gets its row by `--with`: see [studies](studies.md).
"""
SITUATIONS = """\
On {data}, {servers}. Points of accuracy ahead of leaving the absent out (`fedavg`) and of the
next method, means over the cells of the situation, with half a 95 % interval over seeds; which
method stands first was chosen by these numbers."""
TARGET_WORDS = """\
The target is {share} % of what everybody present reaches: {shown}. Reached: share of the runs, over
all absences and seeds. Rounds and megabytes: what half of the runs need at most; – where less than
half get there."""
MEMORY = """\
What the server of a run without a folder holds in memory, the updates of one round from everybody
who is asked among them, in vectors of the model's length (`Strategy.footprint`). With a folder,
memories of clients are a file."""


def listed(data: Sequence[str]) -> str:
    """Names of data sets, for people."""
    return " and ".join(NAMES.get(name, name) for name in data)
