"""What the paper claims, as inequalities between means over seeds, and verdicts on them from records.

Everything that is tested reads "this mean is below that one", so that there is one rule for all claims: resample the
seeds (bootstrap), and see whether the inequality survives. Verdicts:

- **holds**: the 95 % interval of the difference lies on the claimed side, for every inequality of the claim;
- **does not hold**: an interval lies on the other side, or includes zero with as many seeds as in the paper;
- **not enough seeds**: neither, or fewer than three seeds;
- **not run**: a network that the claim is about has no record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gatel0rd.paper.bootstrap import FEWEST_SEEDS, Numbers, interval, resampled
from gatel0rd.paper.records import Line, Record
from gatel0rd.paper.report.tables import number as written
from gatel0rd.worlds.claims import Claim, Less, Of, Times

Verdict = Literal["holds", "does not hold", "not enough seeds", "not run"]
VERDICTS: dict[Verdict, str] = {
    "holds": "hold",
    "does not hold": "do not hold",
    "not enough seeds": "lack seeds",
    "not run": "were not run",
}
"""Verdicts, and what to say of several claims."""
Find = Callable[[str], Line | None]
"""Finds the records of a variant; of another experiment's as ``experiment:variant``."""


@dataclass(frozen=True)
class Finding:
    """What the records say about a claim: the verdict, the numbers behind it, and the fewest seeds of a network."""

    verdict: Verdict
    evidence: str
    seeds: int


def judge(claim: Claim, find: Find, *, paper_seeds: int) -> Finding:
    """The verdict on a claim, with the numbers behind it."""
    numbers = list(dict.fromkeys(number for test in claim.tests for number in test.numbers))
    values = {number: readings(find(number.variant), number.metric) for number in numbers}
    seeds = min((len(found) for found in values.values()), default=0)
    words = evidence(values, find)
    if seeds == 0:
        return Finding("not run", words, 0)
    fewest = min(FEWEST_SEEDS, paper_seeds)
    verdicts = [test_verdict(test, values, enough=seeds >= fewest, final=seeds >= paper_seeds) for test in claim.tests]
    return Finding(max(verdicts, key=("holds", "not enough seeds", "does not hold").index), words, seeds)


Values = dict[Of, Numbers]


def test_verdict(test: Less, values: Values, *, enough: bool, final: bool) -> Verdict:
    """The verdict on one inequality.

    Numbers of the same variant are resampled together: they come from the same runs.
    """
    if not enough:
        return "not enough seeds"

    def side(of: Of | Times | float, means: Callable[[Of], Numbers]) -> Numbers | float:
        if isinstance(of, Times):
            return of.factor * means(of.of) + of.more
        return means(of) if isinstance(of, Of) else of

    if not test.surely:
        plain = side(test.right, lambda of: values[of].mean()) - side(test.left, lambda of: values[of].mean())
        return "holds" if plain > 0 else "does not hold"
    difference = np.asarray(
        side(test.right, lambda of: resampled(values[of], of.variant))
        - side(test.left, lambda of: resampled(values[of], of.variant))
    )
    low, high = np.quantile(difference, [0.025, 0.975])
    if low > 0:
        return "holds"
    return "does not hold" if high < 0 or final else "not enough seeds"


def readings(line: Line | None, metric: str) -> Numbers:
    """A number of every run of a line that has it, ordered by seed."""
    records = [] if line is None else sorted(line.records, key=lambda record: record.seed)
    found = [value for record in records if (value := read(record, metric)) is not None]
    return np.array(found, dtype=float)


def read(record: Record, metric: str) -> float | None:
    """A number of a record, see :class:`Of`; None if the record does not have it."""
    if metric == "planning.success":
        outcome = record.content.get("planning", {"epochs": [None]})
        return float(outcome["success"][-1]) if outcome["epochs"][-1] == record.length else None
    if metric.startswith(("changes: ", "dims: ")):
        kind, _, name = metric.partition(": ")
        example = record.content.get("measures", {}).get("examples", {}).get(name)
        if example is None:
            return None
        changes = np.diff(np.array(example["latents"]), axis=0) != 0  # [T-1, D]
        return float(changes.mean() if kind == "changes" else changes.any(axis=0).sum())
    if metric.startswith("loss "):
        return _stretch_of_loss(record, metric.removeprefix("loss "))
    if metric.startswith("mean "):
        curve = record.curve(metric.removeprefix("mean "))
        return None if curve is None else float(np.mean(curve[1]))
    if "@" in metric:
        name, _, share = metric.partition("@")
        curve = record.curve(name)
        if curve is None:
            return None
        nearest = int(np.argmin(np.abs(np.array(curve[0]) - float(share) * record.length)))
        return float(curve[1][nearest])
    if "/" in metric:
        place = record.content
        for key in metric.split("/"):
            if place is None or key not in place:
                return None
            place = place[key]
        return None if place is None else float(place)  # type: ignore[arg-type]
    return record.final(metric)


def _stretch_of_loss(record: Record, stretch: str) -> float | None:
    """The loss at its end, its dip while inputs are mostly real, and its peak after that."""
    loss, sampling = record.curve("train.loss"), record.curve("train.sampling_probability")
    if loss is None or sampling is None:
        return None
    values = np.array(loss[1])
    real = np.array(sampling[1]) > 0.5
    early = max(1, int(real.sum()))
    dip = int(np.argmin(values[:early]))
    return float({"dip": values[dip], "peak": values[dip:].max(), "end": values[-1]}[stretch])


NAMES = {
    "measures/gating/": "",
    "planning.success": "success in planning",
    "changes: ": "share of the latent state that changes per step, ",
    "dims: ": "dimensions that change, ",
    "MiniGrid-": "",
    "-v0": "",
    "_": " ",
    "/": " ",
}


def described(metric: str) -> str:
    """A metric for people."""
    name, at, share = metric.partition("@")
    for code, words in NAMES.items():
        name = name.replace(code, words)
    name = name.replace(".", " ")
    return f"{name} after {float(share):.0%} of training" if at else name


def evidence(values: dict[Of, Numbers], find: Find) -> str:
    """The numbers behind a verdict in words: means by metric, with intervals where there are enough seeds."""
    groups: dict[str, list[str]] = {}
    for number, found in values.items():
        experiment, _, variant = number.variant.rpartition(":")
        line = find(number.variant)
        text = f"{variant if line is None else line.label} "
        text += f"{written(float(found.mean()))}" if len(found) else "has not been run"
        if len(found) >= FEWEST_SEEDS:
            low, high = interval(found)
            text += f" ({written(low)} to {written(high)})"
        title = described(number.metric) + (f" in {experiment}" if experiment else "")
        groups.setdefault(title, []).append(text)
    return "; ".join(f"{title}: {', '.join(texts)}" for title, texts in groups.items())
