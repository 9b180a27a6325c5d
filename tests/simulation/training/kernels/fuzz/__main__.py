"""``python -m tests.simulation.training.kernels.fuzz``: fuzzes one build, so long or so often."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from tests.simulation.training.kernels.fuzz import boundary, planted, sanitizers
from tests.simulation.training.kernels.fuzz.cases import case, plain_seed
from tests.simulation.training.kernels.fuzz.children import Result, tried
from tests.simulation.training.kernels.fuzz.oracle import verdict
from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.library import NEEDS, processor_flags

EVERY_SECONDS = 60  # a line of progress


def main(arguments: list[str] | None = None) -> int:
    """0: nothing was found."""
    options = _options(arguments)
    torch.set_num_threads(1)  # no threads: children are forked
    isa = options.isa or next((isa for isa in NEEDS if NEEDS[isa] <= processor_flags()), "plain")
    if not NEEDS.get(isa, set()) <= processor_flags():
        print(f"this processor has no {isa}")
        return 2
    if options.sanitize and not sanitizers.active():
        return sanitizers.again(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="understudy-fuzz-") as temporary:
        folder = Path(options.folder or temporary)
        for bits in compilation.SIZES:
            path = folder / compilation.file_name(isa, bits)
            if options.sanitize:
                sanitizers.compiled(path, isa, bits)
            elif not path.is_file():
                compilation.compile_one(path, isa, bits)
        boundary.use(folder, isa)
        if options.sanitize:
            boundary.guard = sanitizers.Poison()
        if options.planted:
            for fault, kind in planted.found().items():
                print(f"{fault}: {kind}")
            return 0
        if options.case is not None:
            print(case(options.case).text, flush=True)
            print(verdict(options.case))
            return 0
        return _fuzz(options, isa)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.training.kernels.fuzz")
    parser.add_argument(
        "--minutes", type=float, help="how long; by default, until --cases are done"
    )
    parser.add_argument(
        "--cases", type=int, help="how many; by default 1000, or what --minutes allow"
    )
    parser.add_argument("--seed", type=int, default=0, help="which cases: seed · 10⁹ and on")
    parser.add_argument("--isa", choices=sorted(compilation.INSTRUCTIONS), help="which build")
    parser.add_argument("--sanitize", action="store_true", help="with ASan and UBSan")
    parser.add_argument("--planted", action="store_true", help="find faults that are put in")
    parser.add_argument("--case", type=int, help="one case only, in this process: to look at it")
    parser.add_argument(
        "--folder", help="where builds are kept; one that is there is used as it is"
    )
    options = parser.parse_args(arguments)
    if options.cases is None and options.minutes is None:
        options.cases = 1000
    return options


def _fuzz(options: argparse.Namespace, isa: str) -> int:
    began = told = time.monotonic()
    kinds: Counter[str] = Counter()
    findings: list[Result] = []
    first = options.seed * 10**9
    done = 0
    # loads what is loaded at first use, before children are forked; an odd case would stay odd here
    begun = verdict(plain_seed())
    if begun.kind != "equal":
        print(f"a case that has nothing odd: {begun}")
        return 2
    while options.cases is None or done < options.cases:
        now = time.monotonic()
        if options.minutes is not None and now - began > 60 * options.minutes:
            break
        if now - told > EVERY_SECONDS:
            told = now
            print(_progress(now - began, done, findings), flush=True)
        result = tried(first + done, sanitized=options.sanitize)
        kinds[result.kind] += 1
        done += 1
        if result.is_finding:
            findings.append(result)
            print(_words(result, options, isa), flush=True)
    print(_progress(time.monotonic() - began, done, findings))
    for kind, count in kinds.most_common():
        print(f"  {count:7,}  {kind}")
    return 1 if findings else 0


def _progress(seconds: float, done: int, findings: list[Result]) -> str:
    return f"{seconds / 60:.1f} min: {done:,} cases, {len(findings):,} findings"


def _words(result: Result, options: argparse.Namespace, isa: str) -> str:
    sanitize = " --sanitize" if options.sanitize else ""
    return (
        f"FOUND {result.kind}: {result.detail}\n  with: {result.text}\n  again: python -m "
        f"tests.simulation.training.kernels.fuzz --isa {isa}{sanitize} --case {result.seed}"
    )


if __name__ == "__main__":
    sys.exit(main())
