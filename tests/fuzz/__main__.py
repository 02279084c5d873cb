"""Fuzz some targets, or all: ``python -m fuzz [TARGET ...] [--seconds 600]``."""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import tempfile
from pathlib import Path

import torch
from fuzz.driver import Target, run_target

TARGETS = ("engine", "tables", "files", "explorer", "arguments", "kills", "processes")
MEMORY = 16 * 2**30
"""More than any try should need; beyond it there is a MemoryError, and not a machine that stands still."""


def find_target(name: str) -> type[Target]:
    """The target of the module of this name."""
    kinds = vars(importlib.import_module(f"fuzz.{name}")).values()
    return next(kind for kind in kinds if isinstance(kind, type) and getattr(kind, "name", None) == name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for each target")
    parser.add_argument("--tries", type=int, default=10**8, help="the most for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat the try of this number")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="directory for inputs of findings")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")

    torch.set_num_threads(2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = 0
    for name in options.targets:
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as place:
            target = find_target(name)(Path(place))
            try:
                summary = run_target(
                    target,
                    seconds=options.seconds,
                    tries=options.tries,
                    seed=options.seed,
                    keep=options.keep,
                    only=options.only,
                )
            finally:
                target.close()
        print("\n".join(summary.describe()), flush=True)
        found += len(summary.findings)
        if options.only is not None and summary.findings:
            print((summary.findings[0].place / "finding.txt").read_text())
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
