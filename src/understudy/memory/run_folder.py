"""A run's folder: who may write to it, and which files are in it."""

from __future__ import annotations

import re
from pathlib import Path

from understudy.core.files import refuse_link
from understudy.core.shown import shown
from understudy.core.types import Population
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import WriterLock

STATE = "state.safetensors"
ROUNDS = "rounds.jsonl"  # the log of each round, a line each
ABOUT = "run.json"  # settings and clients of a run, and how it ended
# what may be swept: never a file that somebody else put into the folder
OURS = re.compile(
    r"(sampler|compensator|server|local|guard|extra)-\d+\.rows"
    r"|population-\d+\.safetensors(\.new)?|state\.safetensors\.new"
)


def own_file(folder: Path, name: object) -> Path:
    """The file that a commit points to; a name that no commit writes is refused."""
    if not isinstance(name, str) or not OURS.fullmatch(name):
        raise CheckpointError(
            f"{folder / STATE}: points to {shown(name)}, which is no file of a run"
        )
    refuse_link(folder / name)
    return folder / name


class RunFolder:
    """A run's folder and the right to write to it. The lock dies with its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = WriterLock(folder)
        self.population_file = ""
        self.population: Population | None = None  # the one that population_file holds

    @classmethod
    def create(cls, folder: Path) -> RunFolder:
        """For a new run: a folder that holds one already is refused."""
        run_folder = cls(folder)
        if (folder / STATE).exists():
            run_folder.close()
            raise CheckpointError(
                f"{folder}: already holds a run; resume it by resume() or by init(…, "
                "resume=True), or name another folder"
            )
        run_folder.sweep(keep=set())  # what a run that died before its first commit left
        return run_folder

    def new_rows(self, role: str) -> Path:
        """A name for a new row file."""
        return self._unused(role, "rows")

    def _unused(self, stem: str, suffix: str) -> Path:
        number = 0
        while True:
            path = self.folder / f"{stem}-{number}.{suffix}"
            try:
                path.touch(exist_ok=False)  # a link that leads nowhere exists too
            except FileExistsError:
                number += 1
            else:
                return path

    def new_population(self) -> Path:
        """A name for a new population file."""
        return self._unused("population", "safetensors")

    def sweep(self, keep: set[str]) -> None:
        """Remove row and population files that no commit points to."""
        for path in self.folder.iterdir():
            if OURS.fullmatch(path.name) and path.name not in keep:
                path.unlink()

    def close(self) -> None:
        self._lock.release()
