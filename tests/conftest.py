"""What all tests share: reproducible examples, one thread, and the way to the large data."""

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from understudy.memory.commits import COMMIT_EVERY
from understudy.server import loop

# The same examples on every machine and in every run, and no verdict by the clock.
settings.register_profile("understudy", derandomize=True, deadline=None, print_blob=True)
# `make test-full` draws anew each time, from a seed that it prints
settings.register_profile("full", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("understudy")

# Sums over threads depend on how many there are; tests compare bits.
torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts something in the background lets it ignore Ctrl-C; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _usual_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins with the usual time between commits: plug-ins of tests change it here."""
    monkeypatch.setattr(loop, "COMMIT_EVERY", COMMIT_EVERY)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with the image sets and traces, laid out as torchvision does."""
    folder = os.environ.get("UNDERSTUDY_DATA")
    if not folder:
        pytest.skip("UNDERSTUDY_DATA does not name the folder with the data sets")
    return Path(folder)
