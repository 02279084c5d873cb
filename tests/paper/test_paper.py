"""Every figure and table of the paper has an experiment or an illustration, a function, and a row in the paper map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gatel0rd.paper.illustrations import ILLUSTRATIONS
from gatel0rd.paper.plan import experiments, paper_experiments

PAPER_MAP = (Path(__file__).parents[2] / "docs" / "paper_map.md").read_text()
PANELS = {1: "", 2: "", 3: "abcd", 4: "abcd", 5: "abc", 6: "abcdef", 7: "abc", 8: "", 9: "", 10: "", 11: "", 12: "ab"}
PANELS |= {13: "", 14: "", 15: "ab", 16: "abcd", 17: "", 18: "abc", 19: "", 20: "", 21: "ab", 22: "ab", 23: "", 24: ""}
PANELS |= {25: "abcdef", 26: "ab", 27: "abcd"}
"""Figures of the paper and its supplement, with their panels."""
FIGURES = [f"Fig. {number}{panel}" for number, panels in PANELS.items() for panel in panels or [""]]
BEYOND = {"memory/length", "memory/lambda", "memory/chain", "memory/t-maze"}
"""Experiments whose questions are not the paper's."""
ARTEFACTS = [*FIGURES, "Table 1", "Table 2", "Table 3"]


def owners(artefact: str) -> list[str]:
    """Ids of all that makes this figure or table."""
    found = [
        experiment.id
        for experiment in experiments().values()
        if artefact in [name.strip() for names in experiment.artefacts for name in names.split(",")]
    ]
    return found + [entry.id for entry in ILLUSTRATIONS.values() if entry.artefact == artefact]


def map_row(artefact: str) -> str:
    kind, number = re.fullmatch(r"(Fig\.|Table) (\d+)[a-f]?", artefact).groups()
    section = PAPER_MAP.split("## Figures" if kind == "Fig." else "## Tables")[1].split("\n## ")[0]
    rows = [row for row in section.splitlines() if re.match(rf"\| {number}(?!\d)", row)]
    return "\n".join(rows)


def test_the_list_is_the_papers():
    assert len(FIGURES) == 60 and sorted(PANELS) == list(range(1, 28))


@pytest.mark.parametrize("artefact", ARTEFACTS)
def test_every_artefact_is_made_by_something(artefact):
    ids = owners(artefact)
    assert ids, f"nothing makes {artefact}"
    row = map_row(artefact)
    assert row, f"{artefact} has no row in docs/paper_map.md"
    assert any(f"`{id}`" in row for id in ids), f"the row of {artefact} names none of {', '.join(ids)}"


def test_the_map_names_no_unknown_experiment():
    known = set(experiments()) | set(ILLUSTRATIONS)
    worlds = {id.partition("/")[0] for id in known}
    named = {id for id in re.findall(r"`([a-z0-9-]+/[a-z0-9-]+)`", PAPER_MAP) if id.partition("/")[0] in worlds}
    assert named <= known


def test_every_experiment_has_claims_about_its_own_variants():
    assert {id for id in experiments() if experiments()[id] not in paper_experiments()} == BEYOND
    assert not any(experiments()[id].claims for id in BEYOND)
    for experiment in paper_experiments():
        names = {variant.name for variant in experiment.variants}
        assert experiment.claims
        for claim in experiment.claims:
            assert claim.words.endswith((".", ")")) and claim.tests
            for number in (number for test in claim.tests for number in test.numbers):
                other = number.experiment
                known = names if other is None else {variant.name for variant in experiments()[other].variants}
                assert number.variant in known, f"{experiment.id}: {number}"


@pytest.mark.slow
@pytest.mark.parametrize("entry", ILLUSTRATIONS.values(), ids=lambda entry: entry.id)
def test_illustrations_are_drawn(entry):
    from gatel0rd.paper.report import figures

    figure = entry.draw()
    assert len(figure.axes) >= 1 and any(axes.texts or axes.images for axes in figure.axes)
    figures.close(figure)
