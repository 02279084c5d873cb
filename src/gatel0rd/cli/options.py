"""Options that commands share, and the parsers of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg


def optional(metavar: str, help: str) -> Any:
    """An option that is None if it is not given; the help text says what happens then."""
    return arg(metavar=metavar, help=help, help_behavior_hint="")


@dataclass(frozen=True)
class Limits:
    """Which numbers an option takes; every number that is not said otherwise is at most a billion."""

    least: float | None = None
    most: float = 10**9


LARGEST_SEED = 2**32 - 1
"""What every generator takes: those of NumPy, PyTorch and the environments."""
MOST_NUMBERS = 10_000
"""In a list of seeds or episodes."""
COUNT = Limits(least=1)
AT_LEAST_0 = Limits(least=0)

Preset = Literal["text", "reference"]
AgentPreset = Literal["text", "reference", "tuned"]
Backend = Annotated[
    Literal["auto", "gymnasium", "native", "envpool"],
    arg(
        help="What runs the environments: Gymnasium, compiled MiniGrid, or EnvPool. auto takes compiled ones for "
        "MiniGrid and Gymnasium for all others."
    ),
]
PresetOption = Annotated[Preset, arg(help="The paper's text, or the authors' code where the two differ.")]
Profile = Annotated[str, arg(metavar="P", help="The scale of the runs: smoke, demo, quick or paper.")]
Seed = Annotated[int, Limits(0, LARGEST_SEED), arg(metavar="N", help="The random seed.")]
SeedList = Annotated[
    str,
    arg(
        metavar="SEEDS", help="Random seeds, as in 0-4 or 0,3,7; paper: as many as the paper used for each experiment."
    ),
]
CellList = Annotated[
    str | None,
    optional("A,B", "Run only these cells or variants, as in gatel0rd,gru or gatel0rd-0.01. The default is all."),
]
OutDirectory = Annotated[Path, arg(metavar="DIR", help="Directory for runs, data and reports.")]
JsonFile = Annotated[Path | None, optional("FILE", "Write the outcome to this file as JSON; - is standard output.")]
FilmFile = Annotated[Path | None, optional("FILE", "Film an episode, as a GIF or WebP file.")]
HiddenSize = Annotated[int, Limits(1, 65_536), arg(metavar="H", help="Number of dimensions of the memory.")]
LearningRate = Annotated[float, arg(metavar="R", help="Learning rate of Adam.")]
DataSources = Annotated[
    tuple[str, ...],
    arg(
        metavar="DATA",
        help="Recordings: .npz, .csv or .parquet files, many as data/*.csv, or minari:NAME.",
        help_behavior_hint="(required)",  # by an error that says more than the parser's
    ),
]
SequenceColumn = Annotated[
    str | None,
    optional("COLUMN", "Column that names the sequence of a row. The default is one with a telling name."),
]
TimeColumn = Annotated[
    str | None, optional("COLUMN", "Column that orders the rows. The default is one with a telling name.")
]


def file_name_of(environment: str) -> str:
    """The id of an environment as a part of a file's name."""
    return re.sub("[/:]", "-", environment)


def parse_numbers(text: str, what: str = "seeds", *, alternative: str | None = None) -> list[int]:
    """0-4 and 0,3,7 and mixtures of both, without repetition; errors name the word that could be given instead."""
    numbers: list[int] = []
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4000})(?:-([0-9]{1,4000}))?\s*", part)
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if last < first:
            instead = f", or {alternative}" if alternative else ""
            raise ValueError(f"{what} are {shown!r}; expected numbers and ranges, as in 0-4 or 0,3,7{instead}")
        if last > LARGEST_SEED or last - first >= MOST_NUMBERS or len(numbers) + last - first >= MOST_NUMBERS:
            raise ValueError(
                f"{what} are {shown!r}; expected at most {MOST_NUMBERS} numbers, none above {LARGEST_SEED}"
            )
        numbers += range(first, last + 1)
    return list(dict.fromkeys(numbers))


def parse_seeds(text: str) -> list[int] | None:
    """Seeds as :func:`parse_numbers` reads them; None for ``paper``, each experiment's own number."""
    return None if text.strip() == "paper" else parse_numbers(text, alternative="paper")


def parse_names(text: str | None) -> tuple[str, ...]:
    """a,b as a tuple of names."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def parse_options(text: str | None) -> dict[str, str]:
    """a=1,b=2 as a dictionary."""
    parts = [part.partition("=") for part in (text or "").split(",") if part]
    wrong = [key for key, equals, value in parts if not (key and equals and value)]
    if wrong:
        raise ValueError(f"the options are {text!r}; expected names and values, as in partition=cpu,account=me")
    return {key.strip(): value.strip() for key, _, value in parts}
