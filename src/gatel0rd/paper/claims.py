"""What the paper claims, as inequalities between means over seeds, and verdicts on them from records.

Everything that is tested reads "this mean is below that one", so that there is one rule for all claims: resample the
seeds (bootstrap), and see whether the inequality survives. Verdicts:

- **holds**: the 95 % interval of the difference lies on the claimed side, for every inequality of the claim;
- **does not hold**: an interval lies on the other side, or includes zero with as many seeds as in the paper;
- **not enough seeds**: neither, or fewer than three seeds;
- **not enough training**: no network has learned the task, so that comparing them says nothing;
- **not measured**: all networks have records, but of a version that did not measure what the claim is about;
- **networks missing**: some of the networks that the claim is about have records, others do not;
- **not run**: none of them has.

With few seeds the bootstrap is too sure of itself, so that each verdict also says whether Student's t confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gatel0rd.paper.bootstrap import FEWEST_SEEDS, Numbers, interval, resampled, student_interval
from gatel0rd.paper.records import Line
from gatel0rd.paper.report.tables import format_number
from gatel0rd.streams import count_of
from gatel0rd.worlds.claims import Claim, Less, Of, Times

Verdict = Literal[
    "holds",
    "does not hold",
    "not enough seeds",
    "not enough training",
    "not measured",
    "networks missing",
    "not run",
]
VERDICTS: dict[Verdict, str] = {
    "holds": "hold",
    "does not hold": "do not hold",
    "not enough seeds": "lack seeds",
    "not enough training": "lack training",
    "not measured": "were not measured",
    "networks missing": "lack networks",
    "not run": "were not run",
}
"""Verdicts, and what to say of several claims."""
SINGULAR: dict[Verdict, str] = {
    "holds": "holds",
    "does not hold": "does not hold",
    "not enough seeds": "lacks seeds",
    "not enough training": "lacks training",
    "not measured": "was not measured",
    "networks missing": "lacks networks",
    "not run": "was not run",
}
"""What to say of one claim."""
DECIDED: tuple[Verdict, ...] = ("holds", "does not hold")
Find = Callable[[Of], Line | None]
"""Finds the records that a number is read from."""
Values = dict[Of, Numbers]
Interval = Callable[[float, dict[str, Numbers]], tuple[float, float]]
"""What is certain of a number plus the means of independent samples."""


@dataclass(frozen=True)
class Finding:
    """What the records say about a claim.

    Attributes:
        evidence: the numbers behind the verdict, in words.
        seeds: the fewest of a network.
        tested: the inequalities that the claim comes down to, in words.
        confirmed: whether intervals by Student's t lead to the same verdict.
    """

    verdict: Verdict
    evidence: str
    seeds: int
    tested: str = ""
    confirmed: bool = True

    @property
    def decided(self) -> bool:
        """Whether the claim holds, or does not."""
        return self.verdict in DECIDED

    @property
    def marked(self) -> str:
        """The verdict, with a dagger if it rests on the bootstrap alone."""
        return self.verdict + "†" * (self.decided and not self.confirmed)


def judge(claim: Claim, find: Find, *, paper_seeds: int) -> Finding:
    """The verdict on a claim, with the numbers behind it."""
    numbers = list(dict.fromkeys(number for test in (*claim.tests, *claim.learned) for number in test.numbers))
    values = read_values(numbers, find)
    seeds = min((len(found) for found in values.values()), default=0)
    words, tested = describe_evidence(values, find), describe_tests(claim, find)
    if seeds == 0:
        return Finding(name_gap([find(number) for number in numbers]), words, 0, tested)
    if claim.learned and not any(compare_means(test, values) for test in claim.learned):
        return Finding("not enough training", words, seeds, tested)
    if seeds < min(FEWEST_SEEDS, paper_seeds):
        return Finding("not enough seeds", words, seeds, tested)
    final = seeds >= paper_seeds
    verdict = worst(judge_inequality(test, values, bootstrap_interval, final=final) for test in claim.tests)
    strict = worst(judge_inequality(test, values, t_interval, final=final) for test in claim.tests)
    return Finding(verdict, words, seeds, tested, confirmed=strict == verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim, from those on its inequalities."""
    return max(verdicts, key=("holds", "not enough seeds", "does not hold").index)


def name_gap(lines: Sequence[Line | None]) -> Verdict:
    """Why a claim about these networks cannot be tested at all."""
    there = [line is not None and bool(line.records) for line in lines]
    if all(there) and there:
        return "not measured"
    return "networks missing" if any(there) else "not run"


def judge_inequality(test: Less, values: Values, interval: Interval, *, final: bool) -> Verdict:
    """The verdict on one inequality."""
    if not test.surely:
        return "holds" if compare_means(test, values) else "does not hold"
    low, high = interval(*split_difference(test, values))
    if low > 0:
        return "holds"
    return "does not hold" if high < 0 or final else "not enough seeds"


def split_difference(test: Less, values: Values) -> tuple[float, dict[str, Numbers]]:
    """By how much the right side of an inequality exceeds the left one: a number, and what each run of a network adds.

    Numbers of the same network stay together: they come from the same runs.
    """
    constant, samples = 0.0, dict[str, Numbers]()
    for side, sign in ((test.left, -1.0), (test.right, 1.0)):
        term = Times(1.0, side) if isinstance(side, Of) else side
        if isinstance(term, Times):
            constant += sign * term.more
            samples[term.of.network] = samples.get(term.of.network, 0.0) + sign * term.factor * values[term.of]
        else:
            constant += sign * term
    return constant, samples


def compare_means(test: Less, values: Values) -> bool:
    """Whether an inequality is true of the means, however certain they are."""
    constant, samples = split_difference(test, values)
    return bool(constant + sum(sample.mean() for sample in samples.values()) > 0)


def bootstrap_interval(constant: float, samples: dict[str, Numbers]) -> tuple[float, float]:
    """The 95 % interval of a difference, from resampled seeds."""
    means = sum(resampled(sample, network) for network, sample in samples.items())
    low, high = np.quantile(constant + means, [0.025, 0.975])
    return float(low), float(high)


def t_interval(constant: float, samples: dict[str, Numbers]) -> tuple[float, float]:
    """The same by Student's t; without end if there is one run of a network."""
    if any(len(sample) < 2 for sample in samples.values()):
        return -np.inf, np.inf
    low, high = student_interval(list(samples.values()))
    return constant + low, constant + high


def read_values(numbers: Sequence[Of], find: Find) -> Values:
    """The numbers of every run that has all that are asked of its network, ordered by seed."""
    values: Values = {}
    for number in numbers:
        line = find(number)
        metrics = [other.metric for other in numbers if other.network == number.network]
        runs = [] if line is None else line.complete(metrics)
        values[number] = np.array([number.metric.read(run) for run in runs], dtype=float)
    return values


def label_of(number: Of, line: Line | None) -> str:
    """What tables call the network that a number is of."""
    return number.variant if line is None else line.label


def describe_tests(claim: Claim, find: Find) -> str:
    """What is tested, in words: inequalities, those about the same metric together."""

    def side(of: Of | Times | float) -> str:
        if isinstance(of, float | int):
            return f"{of:g}"
        if isinstance(of, Times):
            more = f" + {of.more:g}" if of.more else ""
            return f"{of.factor:g} × {side(of.of)}{more}" if of.factor != 1 else f"{side(of.of)}{more}"
        elsewhere = f" of {of.experiment}" if of.experiment else ""
        return f"{label_of(of, find(of))}{elsewhere}"

    groups: dict[str, list[str]] = {}
    for test in claim.tests:
        metrics = list(dict.fromkeys(number.metric.words for number in test.numbers))
        groups.setdefault(" and ".join(metrics), []).append(f"{side(test.left)} < {side(test.right)}")
    return "; ".join(f"{metric}: {', '.join(tests)}" for metric, tests in groups.items())


def describe_evidence(values: Values, find: Find) -> str:
    """The numbers behind a verdict in words: means by metric, with intervals where there are enough seeds."""
    groups: dict[str, list[str]] = {}
    for number, found in values.items():
        line = find(number)
        text = f"{label_of(number, line)} "
        missing = "was not measured" if line is not None and line.records else "has not been run"
        text += format_number(float(found.mean())) if len(found) else missing
        if len(found) >= FEWEST_SEEDS:
            low, high = interval(found)
            text += f" ({format_number(low)} to {format_number(high)})"
        if line is not None and len(found) and (lacking := len(line.records) - len(found)):
            text += f" (left out: {count_of(lacking, 'run')} without all numbers of this claim)"
        title = number.metric.words + (f" in {number.experiment}" if number.experiment else "")
        groups.setdefault(title, []).append(text)
    return "; ".join(f"{title}: {', '.join(texts)}" for title, texts in groups.items())
